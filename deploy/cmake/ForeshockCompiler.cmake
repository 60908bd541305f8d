set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo" FORCE)
endif()

find_program(FORESHOCK_CCACHE ccache)
if(FORESHOCK_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${FORESHOCK_CCACHE})
endif()

# Warnings are always on for our own targets; they are errors in the presets only
# (CMAKE_COMPILE_WARNING_AS_ERROR), so that another compiler's new warning breaks nobody's build.
set(FORESHOCK_WARNINGS -Wall -Wextra -Wpedantic -Wnon-virtual-dtor -Woverloaded-virtual
    -Wno-unused-parameter)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND FORESHOCK_WARNINGS -Wno-restrict)  # g++ 12 raises it on std::string's own operator+
  if(CMAKE_UNITY_BUILD)
    # Asks whether a class lies in the main file; in a unity build no file of ours does.
    list(APPEND FORESHOCK_WARNINGS -Wno-subobject-linkage)
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  list(APPEND FORESHOCK_WARNINGS -Wthread-safety -Wthread-safety-beta)
endif()

set(FORESHOCK_SANITIZE "" CACHE STRING "Sanitizers to build with, for example address,undefined")
if(FORESHOCK_SANITIZE)
  add_compile_options(-fsanitize=${FORESHOCK_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${FORESHOCK_SANITIZE})
endif()

# What every test gets (foreshock_test_properties): where sanitizers slow a test down, more time.
set(FORESHOCK_TEST_TIMEOUT_FACTOR 1)
set(FORESHOCK_TEST_ENVIRONMENT "")
if(FORESHOCK_SANITIZE)
  set(FORESHOCK_TEST_TIMEOUT_FACTOR 5)
  # tests/lsan.supp and tests/tsan.supp say what is the libraries' own.
  set(FORESHOCK_TEST_ENVIRONMENT
      "UBSAN_OPTIONS=print_stacktrace=1"
      "LSAN_OPTIONS=print_suppressions=0:suppressions=${CMAKE_SOURCE_DIR}/tests/lsan.supp"
      "TSAN_OPTIONS=ignore_noninstrumented_modules=1:suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp")
endif()
