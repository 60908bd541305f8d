# The Debian package: `make package`. What `cmake --install` gives (the programs and the rules), and what
# belongs to a machine rather than to a prefix: the unit, the configuration, dashboards and documents.
set(deploy ${CMAKE_SOURCE_DIR}/deploy)
install(FILES ${deploy}/systemd/foreshockd.service DESTINATION lib/systemd/system
        COMPONENT system EXCLUDE_FROM_ALL)
install(FILES ${deploy}/foreshock.yaml DESTINATION /etc/foreshock COMPONENT system EXCLUDE_FROM_ALL)
install(DIRECTORY ${deploy}/prometheus ${deploy}/grafana/dashboards
        DESTINATION ${CMAKE_INSTALL_DATADIR}/foreshock COMPONENT system EXCLUDE_FROM_ALL)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/foreshock
        COMPONENT system EXCLUDE_FROM_ALL)
install(FILES ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/SECURITY.md
              ${CMAKE_SOURCE_DIR}/CHANGELOG.md
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/foreshock COMPONENT system EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/package)
set(CPACK_PACKAGE_NAME foreshock)
set(CPACK_PACKAGE_VENDOR "Foreshock")
set(CPACK_PACKAGE_CONTACT "Foreshock maintainers <maintainers@foreshock.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "early warning for large-model training")
set(CPACK_PACKAGE_DESCRIPTION
"foreshockd takes small summaries from the ranks of a training run, turns them into indicators of
attention, routers and optimizer, keeps them by training step, judges them by rules, and says which
fault the pattern looks like. With it come the command line (foreshock), foreshock-proxy, the default
rules, alerts for Prometheus and dashboards for Grafana.")
set(CPACK_COMPONENTS_ALL programs system)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${deploy}/debian/conffiles ${deploy}/debian/postinst
                                       ${deploy}/debian/prerm ${deploy}/debian/postrm)
include(CPack)
