# SPDX-License-Identifier: Apache-2.0

# Installs the libraries, the headers, and the files for find_package(farcall) and pkg-config, all relocatable.

include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/${farcall_versioned}")
set(include_dir "${CMAKE_INSTALL_INCLUDEDIR}/${farcall_versioned}")
set(library_dir "${CMAKE_INSTALL_LIBDIR}/${farcall_versioned}")
set(shared_library farcall)
if(farcall_has_both)
  set(shared_library farcall_shared)
elseif(NOT BUILD_SHARED_LIBS)
  set(shared_library "")
endif()

set(has_shared ON)
if(NOT shared_library)
  set(has_shared OFF)
endif()
set(has_static ON)
if(BUILD_SHARED_LIBS)
  set(has_static OFF)
endif()

# ---- libraries -----------------------------------------------------------------------------------

install(
  TARGETS farcall
  EXPORT farcall_targets
  ARCHIVE DESTINATION "${library_dir}" COMPONENT dev
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime NAMELINK_SKIP
  FILE_SET HEADERS DESTINATION "${include_dir}" COMPONENT dev
  # CMake finds this header by the file set, Meson does not.
  INCLUDES DESTINATION "${include_dir}")
if(farcall_has_both)
  install(
    TARGETS farcall_shared
    EXPORT farcall_targets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime NAMELINK_SKIP
    INCLUDES DESTINATION "${include_dir}")
endif()
install(TARGETS farcall_linked EXPORT farcall_targets)
farcall_install_link("${farcall_versioned}/farcall" "${CMAKE_INSTALL_INCLUDEDIR}/farcall" dev)
if(shared_library)
  farcall_split_debug("$<TARGET_FILE:${shared_library}>"
                      "${CMAKE_INSTALL_LIBDIR}/$<TARGET_FILE_NAME:${shared_library}>" runtime)
  farcall_install_link("../$<TARGET_SONAME_FILE_NAME:${shared_library}>" "${library_dir}/libfarcall.so" dev)
  farcall_install_link("${farcall_versioned}/libfarcall.so" "${CMAKE_INSTALL_LIBDIR}/libfarcall.so" dev)
endif()
if(NOT BUILD_SHARED_LIBS)
  farcall_split_debug("$<TARGET_FILE:farcall>" "${library_dir}/libfarcall.a" dev)
  farcall_install_link("${farcall_versioned}/libfarcall.a" "${CMAKE_INSTALL_LIBDIR}/libfarcall.a" dev)
endif()

# ---- CMake's files -------------------------------------------------------------------------------

install(
  EXPORT farcall_targets
  NAMESPACE farcall::
  FILE farcall-targets.cmake
  DESTINATION "${package_dir}"
  COMPONENT dev)
# A separate export set: it requires CUDA from its users.
if(TARGET farcall_cuda)
  install(TARGETS farcall_cuda EXPORT farcall_cuda_targets ARCHIVE DESTINATION "${library_dir}" COMPONENT dev)
  farcall_split_debug("$<TARGET_FILE:farcall_cuda>" "${library_dir}/libfarcall_cuda.a" dev)
  install(
    EXPORT farcall_cuda_targets
    NAMESPACE farcall::
    FILE farcall-cuda-targets.cmake
    DESTINATION "${package_dir}"
    COMPONENT dev)
endif()
# A separate export set: the component `compat` has its libraries.
if(TARGET farcall_am2)
  install(
    EXPORT farcall_compat_targets
    NAMESPACE farcall::
    FILE farcall-compat-targets.cmake
    DESTINATION "${package_dir}"
    COMPONENT compat)
endif()
# Outside of the file sets, because users without MPI cannot compile this header.
install(FILES farcall/mpi.hpp DESTINATION "${include_dir}/farcall" COMPONENT dev)
install(FILES cmake/farcall_cuda_target.cmake DESTINATION "${package_dir}" COMPONENT dev)

# Users of the static library must link OpenSSL; the shared library links it itself.
set(needs_openssl OFF)
if(farcall_tls_library AND NOT BUILD_SHARED_LIBS)
  set(needs_openssl ON)
endif()
configure_package_config_file(
  cmake/farcall-config.cmake.in "${PROJECT_BINARY_DIR}/farcall-config.cmake"
  INSTALL_DESTINATION "${package_dir}"
  NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/farcall-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/farcall-config.cmake" "${PROJECT_BINARY_DIR}/farcall-config-version.cmake"
        DESTINATION "${package_dir}" COMPONENT dev)

# ---- pkg-config's file ---------------------------------------------------------------------------

# Path from the folder of the file to the prefix.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY
           "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" OUTPUT_VARIABLE prefix_from_pc)
# Words for programs that link the static library: what the shared library links itself.
set(pc_requires "")
if(farcall_tls_library)
  set(pc_requires openssl)
endif()
set(pc_libs "")
foreach(library IN LISTS CMAKE_DL_LIBS)
  string(APPEND pc_libs " -l${library}")
endforeach()
string(APPEND pc_libs "${farcall_cxx_libs}")
if(NOT FARCALL_ATOMIC_BYTES_NEED_NO_LIBRARY)
  string(APPEND pc_libs " -latomic")
endif()
set(pc_private ".private")
set(pc_public_libs "")
if(NOT shared_library)
  set(pc_private "")
  set(pc_public_libs "${pc_libs}")
endif()
configure_file(cmake/farcall.pc.in "${PROJECT_BINARY_DIR}/${farcall_versioned}.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/${farcall_versioned}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
        COMPONENT dev)
farcall_install_link("${farcall_versioned}.pc" "${CMAKE_INSTALL_LIBDIR}/pkgconfig/farcall.pc" dev)

# ---- documents -----------------------------------------------------------------------------------

install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md DESTINATION "${CMAKE_INSTALL_DOCDIR}"
        COMPONENT doc)
# Files that the guide refers to.
install(DIRECTORY deploy examples DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT doc)
# Pages that programs and headers refer to, with their pictures.
install(
  DIRECTORY docs
  DESTINATION "${CMAKE_INSTALL_DOCDIR}"
  COMPONENT doc
  FILES_MATCHING
  PATTERN "*.md"
  PATTERN "*.svg"
  PATTERN "draw.py"
  PATTERN "steps.cpp"
  PATTERN "retired-words.txt")

# All that the components have.
get_property(packaged GLOBAL PROPERTY FARCALL_PACKAGED)
foreach(target IN ITEMS farcall ${shared_library} farcall_cuda farcall_am2 ham_offload_farcall ham_offload_farcall_explicit)
  if(TARGET ${target})
    list(APPEND packaged ${target})
  endif()
endforeach()
list(REMOVE_DUPLICATES packaged)
add_custom_target(farcall_packaged DEPENDS ${packaged})
