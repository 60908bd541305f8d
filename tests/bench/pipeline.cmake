foreshock_executable(pipeline_bench SOURCES pipeline_bench.cc
                     LINK foreshock::pipeline foreshock::test_memory_store foreshock::test_support
                          benchmark::benchmark_main)
