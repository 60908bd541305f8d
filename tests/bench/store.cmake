foreshock_executable(store_bench SOURCES store_bench.cc
                     LINK foreshock::store foreshock::test_support benchmark::benchmark_main)
