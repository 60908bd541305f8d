foreshock_executable(rules_bench SOURCES rules_bench.cc
                     LINK foreshock::rules benchmark::benchmark_main)
