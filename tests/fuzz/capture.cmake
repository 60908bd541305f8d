foreshock_fuzz(capture_fuzz
  SOURCES capture_fuzz.cc
  LINK foreshock::capture
  CORPUS ${CMAKE_SOURCE_DIR}/tests/golden/capture)
