foreshock_fuzz(backtest_fuzz
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/backtest_fuzz.cc
  LINK foreshock::backtest
  CORPUS ${CMAKE_SOURCE_DIR}/rules/tests
  RUNS 4000)  # a mutation takes most of a millisecond
