foreshock_fuzz(capture_fuzz
  SOURCES capture_fuzz.cc
  LINK foreshock::capture
  SEEDS ${CMAKE_SOURCE_DIR}/tests/golden/capture/v1.fscap
        ${CMAKE_SOURCE_DIR}/tests/golden/capture/v1.jsonl)
