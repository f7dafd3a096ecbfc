# Makes the release bundle: what `cmake --install` installs, with the shared libraries that it needs
# and their licences, as a folder and as a .tar.gz of it. The bundle runs where there is a C library
# as new as this machine's and, for the GPU backend, a driver.
#
#   cmake -DSOURCE=FOLDER -DBUILD=FOLDER -DNAME=NAME -P cmake/make_bundle.cmake
#
# makes BUILD/bundle/NAME and BUILD/bundle/NAME.tar.gz. Licences are those that dpkg has.
cmake_minimum_required(VERSION 3.25)

set(ROOT ${BUILD}/bundle/${NAME})
set(LICENCES ${ROOT}/share/doc/chorale/third_party)

# copy_licence(PACKAGE)
function(copy_licence PACKAGE)
  set(FILE /usr/share/doc/${PACKAGE}/copyright)
  if(NOT EXISTS ${FILE})
    message(FATAL_ERROR "the licence of ${PACKAGE} is not in ${FILE}")
  endif()
  file(REAL_PATH ${FILE} FILE)
  file(COPY ${FILE} DESTINATION ${LICENCES}/${PACKAGE})
endfunction()

# package_of(PATH OUT): the package that has installed a file.
function(package_of PATH OUT)
  # The database may know the file by the other one of /lib and /usr/lib.
  string(REGEX REPLACE "^/usr/lib/" "/lib/" OTHER ${PATH})
  foreach(CANDIDATE ${PATH} ${OTHER})
    execute_process(COMMAND dpkg-query --search ${CANDIDATE}
      OUTPUT_VARIABLE FOUND ERROR_QUIET RESULT_VARIABLE FAILED)
    if(NOT FAILED)
      string(REGEX REPLACE ":.*" "" PACKAGE ${FOUND})
      set(${OUT} ${PACKAGE} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "no package has installed ${PATH}: its licence is not known")
endfunction()

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
foreach(LIBRARY IN LISTS NEEDED)
  file(REAL_PATH ${LIBRARY} FILE)
  get_filename_component(SONAME ${LIBRARY} NAME)
  file(COPY_FILE ${FILE} ${ROOT}/lib/${SONAME})
  package_of(${FILE} PACKAGE)
  copy_licence(${PACKAGE})
endforeach()

# What is compiled in comes from the packages that the build needs.
file(STRINGS ${SOURCE}/deploy/packages.txt LINES)
set(GROUP "")
foreach(LINE IN LISTS LINES)
  if(LINE MATCHES "^\\[(.*)\\]$")
    set(GROUP ${CMAKE_MATCH_1})
  elseif(GROUP STREQUAL "build" AND LINE MATCHES "-dev$")
    copy_licence(${LINE})
  endif()
endforeach()

execute_process(
  COMMAND ${CMAKE_COMMAND} -E tar czf ${NAME}.tar.gz ${NAME}
  WORKING_DIRECTORY ${BUILD}/bundle COMMAND_ERROR_IS_FATAL ANY)
file(SIZE ${ROOT}.tar.gz BYTES)
math(EXPR TENTHS "(${BYTES} * 10 + 524288) / 1048576")
math(EXPR WHOLE "${TENTHS} / 10")
math(EXPR REST "${TENTHS} % 10")
message(STATUS "${ROOT}.tar.gz: ${WHOLE}.${REST} MiB")
