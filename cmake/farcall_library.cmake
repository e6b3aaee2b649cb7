# SPDX-License-Identifier: Apache-2.0

# The single library, to which each layer adds its files with farcall_layer().

find_package(Threads REQUIRED)

# TLS for connections between machines. Optional: without OpenSSL only TLS is missing.
set(FARCALL_WITH_TLS AUTO CACHE STRING "Build TLS: ON, OFF, or AUTO for when OpenSSL is found")
set_property(CACHE FARCALL_WITH_TLS PROPERTY STRINGS AUTO ON OFF)
set(farcall_tls_library "")
if(FARCALL_WITH_TLS STREQUAL "AUTO")
  find_package(OpenSSL 3.0 QUIET GLOBAL)
elseif(FARCALL_WITH_TLS)
  find_package(OpenSSL 3.0 REQUIRED GLOBAL)
endif()
if(FARCALL_WITH_TLS AND TARGET OpenSSL::SSL)
  set(farcall_tls_library OpenSSL::SSL)
elseif(FARCALL_WITH_TLS)
  message(STATUS "farcall: no OpenSSL 3 found (libssl-dev), so without TLS")
endif()

# PMIx, for processes that mpirun, prterun or srun has started: headers only. Programs load the
# library at run time.
set(FARCALL_WITH_PMIX AUTO CACHE STRING "Build for PMIx: ON, OFF, or AUTO for when its headers are found")
set_property(CACHE FARCALL_WITH_PMIX PROPERTY STRINGS AUTO ON OFF)
set(farcall_pmix_headers "")
if(FARCALL_WITH_PMIX AND NOT CMAKE_CROSSCOMPILING)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(PC_PMIX QUIET pmix)
  endif()
  find_path(FARCALL_PMIX_HEADERS pmix.h HINTS ${PC_PMIX_INCLUDE_DIRS})
  mark_as_advanced(FARCALL_PMIX_HEADERS)
  if(FARCALL_PMIX_HEADERS)
    set(farcall_pmix_headers "${FARCALL_PMIX_HEADERS}")
  elseif(FARCALL_WITH_PMIX STREQUAL "AUTO")
    message(STATUS "farcall: no headers of PMIx found (libpmix-dev), so without it")
  else()
    message(FATAL_ERROR "FARCALL_WITH_PMIX is ON, and pmix.h is not found; install libpmix-dev")
  endif()
endif()

# One source of the library needs the headers, in each target that compiles it.
function(farcall_find_pmix_headers target)
  if(farcall_pmix_headers)
    set_source_files_properties(
      "${PROJECT_SOURCE_DIR}/farcall/job/pmix_manager.cpp" TARGET_DIRECTORY ${target}
      PROPERTIES COMPILE_OPTIONS "-isystem;${farcall_pmix_headers}" SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# For farcall's own programs: tools, tests, benchmarks. The library itself depends only on the
# system.
add_library(farcall_private_libraries INTERFACE)
if(FARCALL_BUILD_TESTS OR FARCALL_BUILD_TOOLS OR FARCALL_BUILD_BENCH OR FARCALL_BUILD_FUZZ)
  find_package(fmt REQUIRED)
  # A wheel contains no library of fmt.
  target_link_libraries(farcall_private_libraries INTERFACE $<IF:$<BOOL:${SKBUILD}>,fmt::fmt-header-only,fmt::fmt>)
endif()

# Files compiled together look like headers to the warning about unnamed namespaces.
if(FARCALL_UNITY_BUILD)
  add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>")
endif()

# The CMake target farcall is the static library, or the shared one with BUILD_SHARED_LIBS. farcall_shared is the shared
# library that is built beside the static one, from the same objects. In this build, farcall::farcall is the static
# library, except in programs and modules that are installed (farcall_install_binary). After the installation, it is the
# shared library.
add_library(farcall)
set(farcall_has_both OFF)
if(FARCALL_BUILD_SHARED AND NOT BUILD_SHARED_LIBS)
  set(farcall_has_both ON)
  add_library(farcall_shared SHARED)
endif()
add_library(farcall_linked INTERFACE)
add_library(farcall::farcall ALIAS farcall_linked)
set_target_properties(farcall_linked PROPERTIES EXPORT_NAME farcall)
if(farcall_has_both)
  target_link_libraries(
    farcall_linked
    INTERFACE $<BUILD_INTERFACE:$<IF:$<BOOL:$<TARGET_PROPERTY:FARCALL_LINKS_SHARED>>,farcall_shared,farcall>>)
else()
  target_link_libraries(farcall_linked INTERFACE $<BUILD_INTERFACE:farcall>)
endif()

# Some compilers call functions for atomic bytes, such as g++ 12 for RISC-V. These bytes are not
# shared between processes, so they need not be lock-free.
include(CheckCXXSourceCompiles)
check_cxx_source_compiles(
  "#include <atomic>
   std::atomic<bool> flag;
   int main() { return flag.exchange(true) ? 1 : 0; }"
  FARCALL_ATOMIC_BYTES_NEED_NO_LIBRARY)

# farcall_compile_as_library(<target>)
#
# Compiles and links a target as the library is: libfarcall itself, or a part of it.
function(farcall_compile_as_library target)
  get_target_property(kind ${target} TYPE)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
  # Users of a static library must link OpenSSL themselves. The library is PUBLIC, since Meson does not
  # read how CMake exports private dependencies of static libraries.
  if(kind STREQUAL "SHARED_LIBRARY")
    target_link_libraries(${target} PRIVATE ${farcall_tls_library})
  else()
    target_link_libraries(${target} PUBLIC ${farcall_tls_library})
  endif()
  if(NOT FARCALL_ATOMIC_BYTES_NEED_NO_LIBRARY)
    target_link_libraries(${target} PUBLIC atomic)
  endif()
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  if(NOT target MATCHES "^farcall(_shared)?$")
    target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}")
  endif()

  # A static library hides its symbols, so that they do not leave the program or the plug-in it is
  # linked into. A shared library exports the symbols of its version script, so that no export macro is needed.
  # Objects for both export all symbols, and hide_symbols changes them in the static library. Sanitized
  # builds export all symbols, too, since their tests link the same objects into a shared library.
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    return()
  elseif(BUILD_SHARED_LIBS OR farcall_has_both)
    # Functions of the library call each other directly, because programs do not replace single functions.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-semantic-interposition;-fno-plt>)
  else()
    set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden
                                               VISIBILITY_INLINES_HIDDEN ON)
  endif()
endfunction()
farcall_compile_as_library(farcall)
set(kind static)
if(BUILD_SHARED_LIBS)
  set(kind shared)
endif()
set_target_properties(
  farcall
  PROPERTIES LINKER_LANGUAGE CXX
             UNITY_BUILD ${FARCALL_UNITY_BUILD}
             UNITY_BUILD_BATCH_SIZE 32
             EXPORT_NAME farcall_${kind}
             VERSION ${PROJECT_VERSION}
             SOVERSION ${FARCALL_ABI})

# farcall_export_by_script(<shared library>)
function(farcall_export_by_script target)
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    return()
  endif()
  target_link_options(${target} PRIVATE "LINKER:--version-script=${PROJECT_BINARY_DIR}/libfarcall.map")
  set_target_properties(${target} PROPERTIES LINK_DEPENDS "${PROJECT_BINARY_DIR}/libfarcall.map")
endfunction()
configure_file(cmake/libfarcall.map "${PROJECT_BINARY_DIR}/libfarcall.map" @ONLY)

if(farcall_has_both)
  farcall_compile_as_library(farcall_shared)
  target_include_directories(farcall_shared PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  farcall_export_by_script(farcall_shared)
  set_target_properties(
    farcall_shared
    PROPERTIES LINKER_LANGUAGE CXX
               OUTPUT_NAME farcall
               LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib"
               VERSION ${PROJECT_VERSION}
               SOVERSION ${FARCALL_ABI})
  add_executable(farcall_hide_symbols cmake/hide_symbols.cpp)
  set_target_properties(farcall_hide_symbols PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/CMakeFiles")
  add_dependencies(farcall farcall_hide_symbols)
  add_custom_command(TARGET farcall POST_BUILD COMMAND farcall_hide_symbols $<TARGET_FILE:farcall>)
elseif(BUILD_SHARED_LIBS)
  farcall_export_by_script(farcall)
endif()
target_sources(farcall PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}"
                              FILES "${PROJECT_SOURCE_DIR}/farcall/farcall.h"
                                    "${PROJECT_SOURCE_DIR}/farcall/farcall.hpp")

# Headers for farcall's own sources: not installed, but checked to compile on their own, like the
# public ones.
add_library(farcall_internal_headers INTERFACE)
target_link_libraries(farcall_internal_headers INTERFACE farcall::farcall farcall_private_libraries
                                                         ${farcall_tls_library})
target_sources(farcall_internal_headers INTERFACE FILE_SET HEADERS BASE_DIRS
                                                  "${PROJECT_SOURCE_DIR}")
