foreshock_executable(load_bench
  SOURCES load_bench.cc
  LINK foreshock::proto foreshock::base foreshock::test_support)
