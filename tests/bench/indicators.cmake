# Kernels against OpenBLAS and against Eigen's softmax-and-entropy, in one run.
pkg_check_modules(OPENBLAS REQUIRED IMPORTED_TARGET openblas)
add_executable(indicators_bench indicators_bench.cc eigen_softmax_v3.cc eigen_softmax_v4.cc)
target_include_directories(indicators_bench PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_options(indicators_bench PRIVATE ${FORESHOCK_WARNINGS})
set_source_files_properties(eigen_softmax_v3.cc PROPERTIES COMPILE_OPTIONS
                            "-march=x86-64-v3;-O3;-DNDEBUG")
set_source_files_properties(eigen_softmax_v4.cc PROPERTIES COMPILE_OPTIONS
                            "-march=x86-64-v4;-O3;-DNDEBUG")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # a false report in GCC 12's own avx512fintrin.h
  set_property(SOURCE eigen_softmax_v4.cc APPEND PROPERTY COMPILE_OPTIONS
               "-Wno-maybe-uninitialized")
endif()
target_link_libraries(indicators_bench PRIVATE foreshock::indicators benchmark::benchmark
                      benchmark::benchmark_main PkgConfig::OPENBLAS Eigen3::Eigen)
