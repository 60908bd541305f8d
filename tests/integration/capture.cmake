add_test(NAME trace_to_capture_test
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/trace_to_capture_test.py)
set_tests_properties(trace_to_capture_test PROPERTIES LABELS integration TIMEOUT 120)
