# What `cmake --install --component client` gives to programs that call find_package(foreshock): the two
# libraries, their headers and the package files. Not a part of a plain `cmake --install`, which so needs no
# more than the programs to be built.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/foreshock)
set_target_properties(foreshock_client PROPERTIES EXPORT_NAME client)
set_target_properties(foreshock_proto PROPERTIES EXPORT_NAME proto)
target_include_directories(foreshock_proto INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

install(TARGETS foreshock_client foreshock_proto EXPORT foreshock-targets COMPONENT client EXCLUDE_FROM_ALL
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/include/foreshock COMPONENT client EXCLUDE_FROM_ALL
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_BINARY_DIR}/proto/foreshock/v1 COMPONENT client EXCLUDE_FROM_ALL
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/foreshock FILES_MATCHING PATTERN "*.pb.h")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/proto/foreshock COMPONENT client EXCLUDE_FROM_ALL
        DESTINATION ${CMAKE_INSTALL_DATADIR}/foreshock/proto FILES_MATCHING PATTERN "*.proto")
install(EXPORT foreshock-targets NAMESPACE foreshock:: COMPONENT client EXCLUDE_FROM_ALL
        DESTINATION ${package_dir})

configure_package_config_file(${CMAKE_CURRENT_SOURCE_DIR}/foreshock-config.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/foreshock-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/foreshock-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/foreshock-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/foreshock-config-version.cmake
        DESTINATION ${package_dir} COMPONENT client EXCLUDE_FROM_ALL)
