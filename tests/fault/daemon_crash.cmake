# Crashes and bad days of the built programs.
add_test(NAME daemon_crash
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/daemon_crash_test.py
                 --foreshockd $<TARGET_FILE:foreshockd> --kills 60)
foreshock_test_properties(fault 600 daemon_crash)
add_test(NAME daemon_bad_days
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/daemon_bad_days_test.py)
foreshock_test_properties(fault 300 daemon_bad_days)
set_property(TEST daemon_bad_days APPEND PROPERTY ENVIRONMENT
             "FORESHOCKD=$<TARGET_FILE:foreshockd>")
