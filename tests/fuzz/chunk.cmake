foreshock_fuzz(chunk_fuzz
  SOURCES chunk_fuzz.cc
  LINK foreshock::store
  CORPUS ${CMAKE_SOURCE_DIR}/tests/golden/chunk)
