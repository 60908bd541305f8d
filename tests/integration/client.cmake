# The installed tree of the client library builds and runs a program that knows nothing of this one:
# nor of tests/support/tsan_grpc.cc, without which ThreadSanitizer reports races that are none.
if(FORESHOCK_SANITIZE MATCHES "thread")
  return()
endif()
add_test(NAME client_install_test
  COMMAND ${CMAKE_COMMAND} -DBUILD_DIR=${CMAKE_BINARY_DIR}
          -DSOURCE_DIR=${CMAKE_CURRENT_SOURCE_DIR}/client_install
          -DWORK_DIR=${CMAKE_CURRENT_BINARY_DIR}/client_install -DGENERATOR=${CMAKE_GENERATOR}
          -DCXX_COMPILER=${CMAKE_CXX_COMPILER} -DLAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER}
          -DSANITIZE=${FORESHOCK_SANITIZE}
          -P ${CMAKE_CURRENT_SOURCE_DIR}/client_install/run.cmake)
foreshock_test_properties(integration 300 client_install_test)
