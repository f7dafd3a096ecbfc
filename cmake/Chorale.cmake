# Compiler settings, third-party packages and the two helpers that every folder uses.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# Objects compiled in another checkout of the same sources are found again (unless they hold absolute
# paths, see .ci/run). CCACHE_DEPEND: else ccache asks the preprocessor which headers a file includes.
# That takes time, and the answer for a precompiled header that is to be made anew is the old one.
find_program(CHORALE_CCACHE ccache)
if(CHORALE_CCACHE)
  set(CHORALE_CCACHE env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
      CCACHE_SLOPPINESS=pch_defines,time_macros ${CHORALE_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CHORALE_CCACHE})
endif()

# -ffp-contract=off: results must not depend on which expressions the compiler chooses to fuse;
# kernels that want a fused multiply-add ask for it by name.
set(CHORALE_WARNINGS -Wall -Wextra -Wno-unused-parameter -ffp-contract=off)
add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:${CHORALE_WARNINGS}>")
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Precompiled headers hold no times of files: else the compiler cache never finds what uses them.
  add_compile_options(-Wthread-safety "SHELL:-Xclang -fno-pch-timestamp")
endif()
if(CHORALE_WERROR)
  add_compile_options(-Werror)
endif()
if(CHORALE_SANITIZE)
  # -O0 overrides the build type's level: at -O1 what the sanitizers add takes twice as long to compile,
  # and most tests run no faster for it. Libraries that compute much have their own level, below.
  # Every report is fatal. The standard library's own assertions find what sanitizers cannot see.
  add_compile_options(
    -fsanitize=${CHORALE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -O0 -g1)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
  add_link_options(-fsanitize=${CHORALE_SANITIZE})
endif()

# What tests/run.sh calls this build.
if(NOT CHORALE_SANITIZE)
  set(CHORALE_BUILD_KIND release)
elseif(CHORALE_SANITIZE STREQUAL "thread")
  set(CHORALE_BUILD_KIND tsan)
else()
  set(CHORALE_BUILD_KIND asan)
endif()

# The GPU backend is built where there is a compiler for it, by the compiler that nvcc is made for.
find_program(CHORALE_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
if(CHORALE_NVCC AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CHORALE_SANITIZE)
  set(CHORALE_HAS_NVCC ON)
else()
  set(CHORALE_HAS_NVCC OFF)
endif()
option(CHORALE_CUDA "Build the GPU backend. Needs nvcc and GCC." ${CHORALE_HAS_NVCC})
option(CHORALE_RANDOM_DELAYS "Delay warps of GPU kernels at random, to look for races." OFF)
if(CHORALE_CUDA)
  set(CMAKE_CUDA_COMPILER ${CHORALE_NVCC})
  # Machine code for the A100 and the H100 and their kin, and PTX for what comes after. The
  # environment may ask for less, which is enough for one GPU and compiles sooner.
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 90-virtual)
  if(DEFINED ENV{CUDAARCHS})
    set(CHORALE_CUDA_LACKS ${CMAKE_CUDA_ARCHITECTURES})
    set(CMAKE_CUDA_ARCHITECTURES $ENV{CUDAARCHS})
    list(REMOVE_ITEM CHORALE_CUDA_LACKS ${CMAKE_CUDA_ARCHITECTURES})
  endif()
  if(CHORALE_CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CHORALE_CCACHE})
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)  # which CMake 3.25 does not know nvcc has
  # -fmad=false: as -ffp-contract=off above. Layout arithmetic is shared with the host.
  string(APPEND CMAKE_CUDA_FLAGS " --expt-relaxed-constexpr -fmad=false")
endif()

find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(spdlog REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(hwy REQUIRED)
if(CHORALE_BUILD_SERVER)
  find_package(PkgConfig REQUIRED)
  # Protobuf's own description of its targets, where it has one: gRPC's asks for that.
  set(CMAKE_FIND_PACKAGE_PREFER_CONFIG ON)
  find_package(Protobuf REQUIRED)
  find_package(gRPC REQUIRED)
  unset(CMAKE_FIND_PACKAGE_PREFER_CONFIG)
  # What gRPC 1.51 has and later ones have not: a log of its own, where those use Abseil's, and
  # server credentials as an interface.
  include(CheckCXXSymbolExists)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_LIBRARIES gRPC::grpc++)
  set(CMAKE_REQUIRED_FLAGS -std=c++20)
  check_cxx_symbol_exists(gpr_set_log_function grpc/support/log.h CHORALE_GPR_LOG)
  check_cxx_source_compiles(
    "#include <grpcpp/security/server_credentials.h>
     #include <type_traits>
     static_assert(std::is_abstract_v<grpc::ServerCredentials>);
     int main() {}"
    CHORALE_GRPC_CREDENTIALS_INTERFACE)
  unset(CMAKE_REQUIRED_LIBRARIES)
  unset(CMAKE_REQUIRED_FLAGS)
  find_package(prometheus-cpp REQUIRED)
  pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd)
  include(cmake/Commit.cmake)
  find_package(yaml-cpp REQUIRED)
endif()
if(CHORALE_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()

# chorale_library(NAME SOURCES a.cc ... DEPS target ...)
# A static library target chorale_NAME whose headers are included from the repository's root.
# CHORALE_UNITY_BUILD: to parse headers takes most of a file's compile time, so several files share
# them. The preset "separate" compiles every file separately.
function(chorale_library NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(chorale_${NAME} STATIC ${ARG_SOURCES})
  target_include_directories(chorale_${NAME} PUBLIC ${CMAKE_SOURCE_DIR})
  target_link_libraries(chorale_${NAME} PUBLIC ${ARG_DEPS})
  set_target_properties(chorale_${NAME} PROPERTIES
    UNITY_BUILD ${CHORALE_UNITY_BUILD} UNITY_BUILD_BATCH_SIZE 16)
endfunction()

# chorale_install(TARGET FOLDER RPATH [COMPONENT])
# Installs a program or library that finds others in RPATH. It is an rpath of the old kind, which
# also counts for what those libraries need in turn.
function(chorale_install TARGET FOLDER RPATH)
  set(COMPONENT ${CMAKE_INSTALL_DEFAULT_COMPONENT_NAME})
  if(ARGC GREATER 3)
    set(COMPONENT ${ARGV3})
  endif()
  target_link_options(${TARGET} PRIVATE -Wl,--disable-new-dtags)
  set_target_properties(${TARGET} PROPERTIES INSTALL_RPATH ${RPATH})
  install(TARGETS ${TARGET} DESTINATION ${FOLDER} COMPONENT ${COMPONENT} OPTIONAL)
endfunction()

# chorale_compile_as_arithmetic(TARGET)
# For libraries that compute much, where the build is sanitized.
function(chorale_compile_as_arithmetic TARGET)
  if(CHORALE_SANITIZE)
    # At lower levels arrays of vectors stay in memory until the sanitizers have instrumented every
    # access to them, which takes minutes to compile and runs several times slower. The overflow
    # check of each pointer sum takes as long again; where such a pointer leads, the address sanitizer
    # still sees.
    target_compile_options(${TARGET} PRIVATE -O2 -fno-sanitize=pointer-overflow)
  endif()
endfunction()

# chorale_compile_as_test(TARGET [PRECOMPILED FROM])
# How test programs, and what shares their precompiled headers, are compiled: all alike, or they
# could not share them. FROM is the target that precompiles the headers.
function(chorale_compile_as_test TARGET)
  cmake_parse_arguments(ARG "" "PRECOMPILED" "" ${ARGN})
  # Libraries and programs would otherwise differ in this.
  set_target_properties(${TARGET} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  if(CHORALE_BUILD_KIND STREQUAL "asan")
    # Undefined behaviour is looked for in what is tested: to look for it in the tests, too, takes a
    # fifth of the time to compile them.
    target_compile_options(${TARGET} PRIVATE -fno-sanitize=undefined)
  endif()
  if(ARG_PRECOMPILED)
    target_precompile_headers(${TARGET} REUSE_FROM ${ARG_PRECOMPILED})
  endif()
endfunction()

# chorale_add_test(NAME PROGRAM [ARGS argument ...] [ENVIRONMENT NAME=value ...]
#                  [SHORT_IN build ...] [SHARDS n] [SERIAL] [COST seconds])
# Registers a run of the test program PROGRAM with CTest; its report is reports/NAME.xml.
#
# tests/run.sh has two lengths: the full one runs every test in every build, the short one only in
# the builds that SHORT_IN names: release, asan, tsan, or none. Without SHORT_IN: asan. `short_tests`
# builds what the short length of this build runs, and CTest's label `short` marks it.
# SHARDS: runs the cases in so many processes. SERIAL: nothing else runs meanwhile. COST: long ones
# are to start first.
add_custom_target(short_tests)
function(chorale_add_test NAME PROGRAM)
  cmake_parse_arguments(ARG "SERIAL" "SHARDS;COST" "ARGS;ENVIRONMENT;SHORT_IN" ${ARGN})
  if(NOT DEFINED ARG_SHORT_IN)
    set(ARG_SHORT_IN asan)
  endif()
  if(NOT DEFINED ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  foreach(SHARD RANGE 1 ${ARG_SHARDS})
    set(TEST ${NAME})
    set(ENVIRONMENT ${ARG_ENVIRONMENT})
    if(ARG_SHARDS GREATER 1)
      set(TEST ${NAME}_${SHARD}_of_${ARG_SHARDS})
      math(EXPR INDEX "${SHARD} - 1")
      list(APPEND ENVIRONMENT GTEST_TOTAL_SHARDS=${ARG_SHARDS} GTEST_SHARD_INDEX=${INDEX})
    endif()
    list(APPEND ENVIRONMENT GTEST_OUTPUT=xml:${CMAKE_BINARY_DIR}/reports/${TEST}.xml)
    add_test(NAME ${TEST} COMMAND ${PROGRAM} ${ARG_ARGS})
    set_tests_properties(${TEST} PROPERTIES ENVIRONMENT "${ENVIRONMENT}")
    if(ARG_SERIAL)
      set_tests_properties(${TEST} PROPERTIES RUN_SERIAL ON)
    endif()
    if(DEFINED ARG_COST)
      set_tests_properties(${TEST} PROPERTIES COST ${ARG_COST})
    endif()
    if(CHORALE_BUILD_KIND IN_LIST ARG_SHORT_IN)
      set_tests_properties(${TEST} PROPERTIES LABELS short)
    endif()
  endforeach()
  if(CHORALE_BUILD_KIND IN_LIST ARG_SHORT_IN)
    add_dependencies(short_tests ${PROGRAM})
  endif()
endfunction()

# chorale_test_program(NAME [API] SOURCES a_test.cc ... DEPS target ...)
# A GoogleTest program. API: it uses gRPC.
function(chorale_test_program NAME)
  cmake_parse_arguments(ARG "API" "" "SOURCES;DEPS" ${ARGN})
  set(MAIN chorale_test_main)
  if(ARG_API)
    set(MAIN chorale_api_test_main)
  endif()
  add_executable(${NAME} ${ARG_SOURCES})
  chorale_compile_as_test(${NAME} PRECOMPILED ${MAIN})
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} ${MAIN})
  target_compile_definitions(${NAME} PRIVATE CHORALE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
endfunction()

# chorale_test(NAME [API] SOURCES a_test.cc ... DEPS target ... [RUN ...])
# A GoogleTest program, registered with CTest under its own name. RUN is followed by what
# chorale_add_test takes.
function(chorale_test NAME)
  set(PROGRAM ${ARGN})
  set(RUN "")
  list(FIND PROGRAM RUN AT)
  if(AT GREATER_EQUAL 0)
    list(SUBLIST PROGRAM ${AT} -1 RUN)
    list(POP_FRONT RUN)
    list(SUBLIST PROGRAM 0 ${AT} PROGRAM)
  endif()
  chorale_test_program(${NAME} ${PROGRAM})
  chorale_add_test(${NAME} ${NAME} ${RUN})
endfunction()

# chorale_needs_gpu(PROGRAM)
# A program that does nothing without a GPU: built by `gpu_programs` and not by `all`.
add_custom_target(gpu_programs)
function(chorale_needs_gpu PROGRAM)
  set_target_properties(${PROGRAM} PROPERTIES EXCLUDE_FROM_ALL ON)
  add_dependencies(gpu_programs ${PROGRAM})
endfunction()

# chorale_gpu_test(NAME SOURCES a_test.cc ... DEPS target ...)
# A test program whose cases are skipped without a GPU.
function(chorale_gpu_test NAME)
  chorale_test(${NAME} ${ARGN} RUN SHORT_IN none)
  chorale_needs_gpu(${NAME})
endfunction()
