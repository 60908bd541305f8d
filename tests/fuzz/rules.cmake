foreshock_fuzz(rules_fuzz
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/rules_fuzz.cc
  LINK foreshock::rules
  CORPUS ${CMAKE_SOURCE_DIR}/tests/data/rules)
