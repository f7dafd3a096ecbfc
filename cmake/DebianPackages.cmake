# Debian packages, by CPack: `ninja deb` makes, in the build's folder `packages`,
#
#   chorale_VERSION_ARCH.deb         server, client, default model, descriptor set of the API, systemd
#                                    units, manual pages
#   chorale-cuda_VERSION_ARCH.deb    the GPU backend, where it is built

# What only a package of the distribution holds; `cmake --install` leaves it out.
function(chorale_install_for_debian)
  install(${ARGN} COMPONENT debian EXCLUDE_FROM_ALL)
endfunction()

set(MAN ${CMAKE_BINARY_DIR}/man)
set(DEBIAN ${CMAKE_SOURCE_DIR}/deploy/debian)
set(ENVOY ${CMAKE_SOURCE_DIR}/deploy/envoy)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/debian)
chorale_install_for_debian(FILES ${DEBIAN}/chorale.service ${DEBIAN}/chorale-edge.service
  DESTINATION lib/systemd/system)
chorale_install_for_debian(FILES ${DEBIAN}/server.yaml DESTINATION /etc/chorale)
chorale_install_for_debian(PROGRAMS ${ENVOY}/run.sh DESTINATION bin RENAME chorale-edge)
chorale_install_for_debian(FILES ${ENVOY}/envoy.yaml ${ENVOY}/one_server.yaml
  ${DEBIAN}/certificate.yaml DESTINATION /etc/chorale/envoy)
# The descriptor set is no configuration: Envoy's folder has a link to it.
file(CREATE_LINK ../../../usr/share/chorale/chorale.binpb ${CMAKE_BINARY_DIR}/debian/chorale.binpb
  SYMBOLIC)
chorale_install_for_debian(FILES ${CMAKE_BINARY_DIR}/debian/chorale.binpb
  DESTINATION /etc/chorale/envoy)
chorale_install_for_debian(FILES ${ENVOY}/README.md DESTINATION share/doc/chorale RENAME envoy.md)
chorale_install_for_debian(FILES ${DEBIAN}/copyright DESTINATION share/doc/chorale)
chorale_install_for_debian(FILES ${MAN}/chorale.1.gz DESTINATION share/man/man1)
chorale_install_for_debian(FILES ${MAN}/chorale-server.8.gz DESTINATION share/man/man8)
# The licences of what is compiled in.
chorale_install_for_debian(CODE "
  include(${CMAKE_SOURCE_DIR}/cmake/third_party.cmake)
  compiled_in_packages(${CMAKE_SOURCE_DIR} PACKAGES)
  foreach(PACKAGE IN LISTS PACKAGES)
    copy_licence(\${PACKAGE} \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/doc/chorale/third_party)
  endforeach()")
if(CHORALE_CUDA)
  install(FILES ${DEBIAN}/chorale-cuda.conf DESTINATION lib/systemd/system/chorale.service.d
    COMPONENT debian-cuda EXCLUDE_FROM_ALL)
  install(CODE "
    include(${CMAKE_SOURCE_DIR}/cmake/third_party.cmake)
    set(FOLDER \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/doc/chorale-cuda)
    copy_cuda_licence(${CUDAToolkit_BIN_DIR}/.. \${FOLDER})
    file(COPY ${DEBIAN}/copyright DESTINATION \${FOLDER})"
    COMPONENT debian-cuda EXCLUDE_FROM_ALL)
endif()

# Names and forms of CPack's variables are those of its documentation.
set(CPACK_GENERATOR DEB)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_OUTPUT_FILE_PREFIX ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_CONTACT "The Chorale authors <maintainers@chorale.invalid>")
set(CPACK_PACKAGE_VENDOR "The Chorale authors")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)

set(CPACK_DEBIAN_SERVER_PACKAGE_NAME chorale)
set(CPACK_DEBIAN_SERVER_DESCRIPTION "Server for joint samples from in-context tabular models
Draws joint sample paths of rows of a table, given a registered table, and
computes joint densities and predictions, over gRPC. Holds the server, its
command line and the default model.")
set(CPACK_DEBIAN_SERVER_PACKAGE_CONTROL_EXTRA
  ${DEBIAN}/conffiles ${DEBIAN}/postinst ${DEBIAN}/prerm ${DEBIAN}/postrm)
set(CPACK_DEBIAN_SERVER_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_GPU_PACKAGE_NAME chorale-cuda)
set(CPACK_DEBIAN_GPU_DESCRIPTION "GPU backend of Chorale
Lets the server of the package chorale compute on an NVIDIA GPU of compute
capability 8.0 or newer. Needs the driver of CUDA 13.")
# The library and the program refuse each other unless they are of one build.
set(CPACK_DEBIAN_GPU_PACKAGE_DEPENDS "chorale (= ${PROJECT_VERSION})")

set(CPACK_COMPONENTS_ALL chorale debian)
if(CHORALE_CUDA)
  list(APPEND CPACK_COMPONENTS_ALL cuda debian-cuda)
endif()
include(CPack)
cpack_add_component(chorale GROUP server)
cpack_add_component(debian GROUP server)
cpack_add_component(cuda GROUP gpu)
cpack_add_component(debian-cuda GROUP gpu)

add_custom_target(man_pages
  COMMAND ${CMAKE_SOURCE_DIR}/deploy/make_man_page.py --section 8 --output ${MAN}
          $<TARGET_FILE:chorale-server>
  COMMAND ${CMAKE_SOURCE_DIR}/deploy/make_man_page.py --section 1 --output ${MAN}
          $<TARGET_FILE:chorale>
  VERBATIM)
add_dependencies(man_pages chorale-server chorale)
add_custom_target(deb
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${CPACK_OUTPUT_FILE_PREFIX}
  COMMAND ${CMAKE_CPACK_COMMAND} --config ${CMAKE_BINARY_DIR}/CPackConfig.cmake
  WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
  VERBATIM)
add_dependencies(deb man_pages)
if(CHORALE_CUDA)
  add_dependencies(deb chorale_cuda)
endif()
