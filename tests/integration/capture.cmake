add_test(NAME trace_to_capture_test
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/trace_to_capture_test.py)
foreshock_test_properties(integration 120 trace_to_capture_test)
