# Compiler settings, third-party packages and the two helpers that every folder uses.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(CHORALE_CCACHE ccache)
if(CHORALE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CHORALE_CCACHE})
endif()

# -ffp-contract=off: results must not depend on which expressions the compiler chooses to fuse;
# kernels that want a fused multiply-add ask for it by name.
add_compile_options(-Wall -Wextra -Wno-unused-parameter -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options(-Wthread-safety)
endif()
if(CHORALE_WERROR)
  add_compile_options(-Werror)
endif()
if(CHORALE_SANITIZE)
  # -O1 overrides the build type's level: sanitized code at -O3 takes twice as long to compile.
  # Every report is fatal. The standard library's own assertions find what sanitizers cannot see.
  add_compile_options(
    -fsanitize=${CHORALE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -g1)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
  add_link_options(-fsanitize=${CHORALE_SANITIZE})
endif()

find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(spdlog REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(hwy REQUIRED)
if(CHORALE_BUILD_SERVER)
  find_package(PkgConfig REQUIRED)
  find_package(Protobuf REQUIRED)
  find_package(gRPC REQUIRED)
  find_package(prometheus-cpp REQUIRED)
endif()
if(CHORALE_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()

# chorale_library(NAME SOURCES a.cc ... DEPS target ...)
# A static library target chorale_NAME whose headers are included from the repository's root.
function(chorale_library NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(chorale_${NAME} STATIC ${ARG_SOURCES})
  target_include_directories(chorale_${NAME} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(chorale_${NAME} PUBLIC ${ARG_DEPS})
endfunction()

# chorale_compile_as_test(TARGET [PRECOMPILED FROM])
# How test programs, and what shares their precompiled headers, are compiled: all alike, or they
# could not share them. FROM is the target that precompiles the headers.
function(chorale_compile_as_test TARGET)
  cmake_parse_arguments(ARG "" "PRECOMPILED" "" ${ARGN})
  # Libraries and programs would otherwise differ in this.
  set_target_properties(${TARGET} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  if(CHORALE_SANITIZE)
    # Most test code runs once: to optimise what the sanitizers add to it takes twice as long to
    # compile, and gains nothing.
    target_compile_options(${TARGET} PRIVATE -O0)
  endif()
  if(ARG_PRECOMPILED)
    target_precompile_headers(${TARGET} REUSE_FROM ${ARG_PRECOMPILED})
  endif()
endfunction()

# chorale_test(NAME [API] SOURCES a_test.cc ... DEPS target ...)
# One GoogleTest program, registered with CTest under its own name. API: it uses gRPC.
function(chorale_test NAME)
  cmake_parse_arguments(ARG "API" "" "SOURCES;DEPS" ${ARGN})
  set(MAIN chorale_test_main)
  if(ARG_API)
    set(MAIN chorale_api_test_main)
  endif()
  add_executable(${NAME} ${ARG_SOURCES})
  chorale_compile_as_test(${NAME} PRECOMPILED ${MAIN})
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} ${MAIN})
  target_compile_definitions(${NAME} PRIVATE CHORALE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${NAME} COMMAND ${NAME})
endfunction()
