# Makes the release bundle: what `cmake --install` installs, with the shared libraries that it needs
# and their licences, as a folder and as a .tar.gz of it. The bundle runs where there is a C library
# as new as this machine's and, for the GPU backend, a driver.
#
#   cmake -DSOURCE=FOLDER -DBUILD=FOLDER -DVERSION=VERSION -DPROCESSOR=NAME
#         [-DCUDA_TOOLKIT=FOLDER -DCUDA_VERSION=VERSION] [-DLACKS=GPUS] -P cmake/make_bundle.cmake
#
# makes in BUILD/bundle, with NAME = chorale-VERSION-linux-PROCESSOR:
#
#   NAME, NAME.tar.gz      the bundle
#   NAME.cdx.json          its bill of materials (CycloneDX), which the bundle holds as well
#   third_party.tsv        what of it comes from which package of the distribution
#   SHA256SUMS             of the archive and the bill
#
# Licences are those that dpkg has. Files get the time SOURCE_DATE_EPOCH of the environment, or that
# of the commit, so that the same build makes the same archive.
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/third_party.cmake)

set(NAME chorale-${VERSION}-linux-${PROCESSOR})
set(ROOT ${BUILD}/bundle/${NAME})
set(LICENCES ${ROOT}/share/doc/chorale/third_party)
set(THIRD_PARTY ${BUILD}/bundle/third_party.tsv)
set(SBOM ${ROOT}/share/doc/chorale/sbom.cdx.json)

if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
  execute_process(COMMAND git -C ${SOURCE} log -1 --format=%ct
    OUTPUT_VARIABLE TIME ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT TIME)
    set(TIME 0)
  endif()
  set(ENV{SOURCE_DATE_EPOCH} ${TIME})
endif()

file(REMOVE_RECURSE ${BUILD}/bundle)
execute_process(
  COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${ROOT} --strip
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(COPY ${SOURCE}/LICENSE DESTINATION ${ROOT})

# The C library and its loader belong to the system; so does the driver.
file(GLOB PROGRAMS ${ROOT}/bin/*)
file(GLOB OWN_LIBRARIES ${ROOT}/lib/*.so)
file(GET_RUNTIME_DEPENDENCIES
  EXECUTABLES ${PROGRAMS} LIBRARIES ${OWN_LIBRARIES}
  RESOLVED_DEPENDENCIES_VAR NEEDED
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|resolv|cuda)\\.so")
list(SORT NEEDED)
file(MAKE_DIRECTORY ${ROOT}/lib)  # without a GPU backend nothing has made it
foreach(LIBRARY IN LISTS NEEDED)
  file(REAL_PATH ${LIBRARY} FILE)
  get_filename_component(SONAME ${LIBRARY} NAME)
  file(COPY_FILE ${FILE} ${ROOT}/lib/${SONAME})
  package_of(${FILE} PACKAGE)
  copy_licence(${PACKAGE} ${LICENCES})
  file(APPEND ${THIRD_PARTY} "${PACKAGE}\tlib/${SONAME}\n")
endforeach()

compiled_in_packages(${SOURCE} PACKAGES)
foreach(PACKAGE IN LISTS PACKAGES)
  copy_licence(${PACKAGE} ${LICENCES})
  file(APPEND ${THIRD_PARTY} "${PACKAGE}\tcompiled-in\n")
endforeach()
copy_common_licences(${LICENCES})
if(EXISTS ${ROOT}/lib/libchorale_cuda.so)
  copy_cuda_licence(${CUDA_TOOLKIT} ${LICENCES})
endif()

execute_process(
  COMMAND ${SOURCE}/deploy/make_sbom.py --root ${ROOT} --third_party ${THIRD_PARTY}
          --version ${VERSION} --cuda_version=${CUDA_VERSION} --output ${SBOM}
  COMMAND_ERROR_IS_FATAL ANY)
file(COPY_FILE ${SBOM} ${ROOT}.cdx.json)

execute_process(
  COMMAND tar --create --sort=name --owner=0 --group=0 --numeric-owner
          --mtime=@$ENV{SOURCE_DATE_EPOCH} --file ${NAME}.tar ${NAME}
  WORKING_DIRECTORY ${BUILD}/bundle COMMAND_ERROR_IS_FATAL ANY)
execute_process(
  COMMAND gzip --no-name --force ${NAME}.tar
  WORKING_DIRECTORY ${BUILD}/bundle COMMAND_ERROR_IS_FATAL ANY)
set(SUMS "")
foreach(FILE ${NAME}.cdx.json ${NAME}.tar.gz)
  file(SHA256 ${BUILD}/bundle/${FILE} SUM)
  string(APPEND SUMS "${SUM}  ${FILE}\n")
endforeach()
file(WRITE ${BUILD}/bundle/SHA256SUMS "${SUMS}")

file(SIZE ${ROOT}.tar.gz BYTES)
math(EXPR TENTHS "(${BYTES} * 10 + 524288) / 1048576")
math(EXPR WHOLE "${TENTHS} / 10")
math(EXPR REST "${TENTHS} % 10")
message(STATUS "${ROOT}.tar.gz: ${WHOLE}.${REST} MiB")
if(LACKS)
  message(WARNING "This bundle has no code for these GPUs, because CUDAARCHS was set: ${LACKS}")
endif()
