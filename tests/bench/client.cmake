# The cost of the client in the training loop.
foreshock_executable(client_bench
  SOURCES client_bench.cc ${CMAKE_SOURCE_DIR}/tests/unit/client/fake_daemon.cc
  LINK foreshock::client foreshock::test_support benchmark::benchmark benchmark::benchmark_main)
