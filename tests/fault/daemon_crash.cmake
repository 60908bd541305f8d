# Crashes of the built programs.
add_test(NAME daemon_crash
         COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/daemon_crash_test.py
                 --foreshockd $<TARGET_FILE:foreshockd> --kills 60)
set_tests_properties(daemon_crash PROPERTIES LABELS fault TIMEOUT 600)
