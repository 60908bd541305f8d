# Crashes of the built programs.
add_test(NAME daemon_crash
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/daemon_crash_test.py
                 --foreshockd $<TARGET_FILE:foreshockd> --kills 60)
foreshock_test_properties(fault 600 daemon_crash)
