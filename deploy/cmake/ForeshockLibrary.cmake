# foreshock_library(NAME SOURCES a.cc b.cc [PUBLIC lib ...] [PRIVATE lib ...])
#   One module of the tree: target foreshock_NAME, alias foreshock::NAME; includes are written from
#   the repository root. Sources are listed, never globbed.
function(foreshock_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(foreshock_${name} STATIC ${ARG_SOURCES})
  add_library(foreshock::${name} ALIAS foreshock_${name})
  target_include_directories(foreshock_${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
  target_compile_options(foreshock_${name} PRIVATE ${FORESHOCK_WARNINGS})
  target_link_libraries(foreshock_${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
endfunction()

# For ThreadSanitizer every program gets it; why, it says itself.
if(FORESHOCK_SANITIZE MATCHES "thread")
  add_library(foreshock_tsan OBJECT ${CMAKE_SOURCE_DIR}/tests/support/tsan_grpc.cc)
  target_link_libraries(foreshock_tsan PRIVATE gRPC::grpc++)
endif()

# foreshock_executable(NAME SOURCES main.cc [LINK lib ...])
function(foreshock_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(${name} PRIVATE ${FORESHOCK_WARNINGS})
  target_link_libraries(${name} PRIVATE ${ARG_LINK})
  if(TARGET foreshock_tsan)
    target_link_libraries(${name} PRIVATE foreshock_tsan)
  endif()
endfunction()

# foreshock_test_properties(LABEL TIMEOUT_SECONDS NAME...)
#   What every add_test needs; the seconds are those of a build without sanitizers.
function(foreshock_test_properties label timeout)
  math(EXPR seconds "${timeout} * ${FORESHOCK_TEST_TIMEOUT_FACTOR}")
  set_tests_properties(${ARGN} PROPERTIES LABELS ${label} TIMEOUT ${seconds}
                       ENVIRONMENT "${FORESHOCK_TEST_ENVIRONMENT}")
endfunction()

# foreshock_test(NAME LABEL unit|property|integration|e2e|fault|golden SOURCES a_test.cc
#                [LINK lib ...] [TIMEOUT seconds])
#   One GoogleTest program, one ctest entry. FORESHOCK_SOURCE_DIR is defined for test data.
function(foreshock_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SOURCES;LINK" ${ARGN})
  foreshock_executable(${name} SOURCES ${ARG_SOURCES}
                       LINK ${ARG_LINK} GTest::gmock GTest::gtest_main)
  # The tests are compiled in every clean build and run for seconds: not worth -O3.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_compile_definitions(${name} PRIVATE FORESHOCK_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                                             FORESHOCK_BINARY_DIR="${CMAKE_BINARY_DIR}")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  foreshock_test_properties(${ARG_LABEL} ${ARG_TIMEOUT} ${name})
endfunction()

# foreshock_fuzz(NAME SOURCES a_fuzz.cc [LINK lib ...] CORPUS directory [RUNS mutations])
#   A program around LLVMFuzzerTestOneInput. With FORESHOCK_BUILD_FUZZ it is a libFuzzer target (run
#   by make fuzz); otherwise a ctest smoke that feeds it the corpus and RUNS (20000) mutations of it.
function(foreshock_fuzz name)
  cmake_parse_arguments(ARG "" "CORPUS;RUNS" "SOURCES;LINK" ${ARGN})
  if(FORESHOCK_BUILD_FUZZ)
    foreshock_executable(${name} SOURCES ${ARG_SOURCES} LINK ${ARG_LINK})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    file(WRITE ${CMAKE_BINARY_DIR}/seeds/${name} "${ARG_CORPUS}\n")  # for tests/fuzz/run.sh
  else()
    foreshock_executable(${name} SOURCES ${ARG_SOURCES} ${CMAKE_SOURCE_DIR}/tests/fuzz/smoke_main.cc
                         LINK ${ARG_LINK})
    if(NOT ARG_RUNS)
      set(ARG_RUNS 20000)
    endif()
    add_test(NAME ${name}_smoke COMMAND ${name} ${ARG_CORPUS} ${ARG_RUNS})
    foreshock_test_properties(fuzz 120 ${name}_smoke)
  endif()
endfunction()
