foreshock_fuzz(import_fuzz
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/import_fuzz.cc
  LINK foreshock::cli
  CORPUS ${CMAKE_SOURCE_DIR}/tests/data/import)
