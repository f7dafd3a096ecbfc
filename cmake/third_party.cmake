# Which packages other people's code comes from, and their licences, as dpkg has them.

# copy_licence(PACKAGE FOLDER): to FOLDER/PACKAGE/copyright.
function(copy_licence PACKAGE FOLDER)
  set(FILE /usr/share/doc/${PACKAGE}/copyright)
  if(NOT EXISTS ${FILE})
    message(FATAL_ERROR "the licence of ${PACKAGE} is not in ${FILE}")
  endif()
  file(REAL_PATH ${FILE} FILE)
  file(COPY ${FILE} DESTINATION ${FOLDER}/${PACKAGE})
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

# compiled_in_packages(SOURCE OUT): what is compiled in comes from the packages that the build needs.
function(compiled_in_packages SOURCE OUT)
  file(STRINGS ${SOURCE}/deploy/packages.txt LINES)
  set(PACKAGES)
  set(GROUP "")
  foreach(LINE IN LISTS LINES)
    if(LINE MATCHES "^\\[(.*)\\]$")
      set(GROUP ${CMAKE_MATCH_1})
    elseif(GROUP STREQUAL "build" AND LINE MATCHES "-dev$")
      list(APPEND PACKAGES ${LINE})
    endif()
  endforeach()
  set(${OUT} ${PACKAGES} PARENT_SCOPE)
endfunction()

# copy_common_licences(FOLDER): those that Debian's licences name by path only, to
# FOLDER/common-licenses.
function(copy_common_licences FOLDER)
  file(GLOB FILES /usr/share/common-licenses/*)
  foreach(FILE IN LISTS FILES)
    get_filename_component(NAME ${FILE} NAME)
    file(REAL_PATH ${FILE} FILE)
    file(MAKE_DIRECTORY ${FOLDER}/common-licenses)
    file(COPY_FILE ${FILE} ${FOLDER}/common-licenses/${NAME})
  endforeach()
endfunction()

# copy_cuda_licence(TOOLKIT FOLDER): the licence of the CUDA Toolkit, whose runtime is part of the GPU
# backend, from where NVIDIA's installers, Debian packages and Python packages leave it.
function(copy_cuda_licence TOOLKIT FOLDER)
  file(GLOB FOUND
    ${TOOLKIT}/EULA.txt
    ${TOOLKIT}/dist-info/nvidia_cuda_runtime-*/licenses/License.txt
    ${TOOLKIT}/../../nvidia_cuda_runtime-*.dist-info/licenses/License.txt
    /usr/share/doc/cuda-cudart-dev-*/copyright
    /usr/share/doc/cuda-cudart-*/copyright)
  if(NOT FOUND)
    message(FATAL_ERROR "the licence of the CUDA Toolkit is not in ${TOOLKIT}")
  endif()
  list(GET FOUND 0 FILE)
  file(MAKE_DIRECTORY ${FOLDER}/cuda-toolkit)
  file(COPY_FILE ${FILE} ${FOLDER}/cuda-toolkit/copyright)
endfunction()
