foreshock_executable(backtest_bench SOURCES backtest_bench.cc
                     LINK foreshock::backtest benchmark::benchmark_main)
