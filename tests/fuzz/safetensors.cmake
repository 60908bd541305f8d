foreshock_fuzz(safetensors_fuzz
  SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/safetensors_fuzz.cc
  LINK foreshock::proxy
  CORPUS ${CMAKE_SOURCE_DIR}/tests/data/safetensors)
