foreshock_fuzz(plan_fuzz
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/plan_fuzz.cc
  LINK foreshock::proxy
  CORPUS ${CMAKE_SOURCE_DIR}/tests/data/plan)
