# SPDX-License-Identifier: Apache-2.0

# Installs the library, its headers, and the files for find_package(farcall) and pkg-config. Both
# are relocatable.

include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/farcall")

install(
  TARGETS farcall
  EXPORT farcall_targets
  FILE_SET HEADERS
  # CMake finds this header by the file set, Meson does not.
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(
  EXPORT farcall_targets
  NAMESPACE farcall::
  FILE farcall-targets.cmake
  DESTINATION "${package_dir}")

# A separate export set: it requires CUDA from its users.
if(TARGET farcall_cuda)
  install(TARGETS farcall_cuda EXPORT farcall_cuda_targets)
  install(
    EXPORT farcall_cuda_targets
    NAMESPACE farcall::
    FILE farcall-cuda-targets.cmake
    DESTINATION "${package_dir}")
endif()
# A separate export set: users without MPI cannot compile it.
install(FILES farcall/mpi.hpp DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/farcall")
install(FILES cmake/farcall_cuda_target.cmake DESTINATION "${package_dir}")

# Users of a static library must link OpenSSL; a shared library links it itself.
set(needs_openssl OFF)
set(pc_requires "")
if(farcall_tls_library)
  if(BUILD_SHARED_LIBS)
    set(pc_requires "Requires.private: openssl\n")
  else()
    set(needs_openssl ON)
    set(pc_requires "Requires: openssl\n")
  endif()
endif()

configure_package_config_file(
  cmake/farcall-config.cmake.in "${PROJECT_BINARY_DIR}/farcall-config.cmake"
  INSTALL_DESTINATION "${package_dir}"
  NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/farcall-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/farcall-config.cmake"
              "${PROJECT_BINARY_DIR}/farcall-config-version.cmake" DESTINATION "${package_dir}")

# Path from the folder of farcall.pc to the prefix.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY
           "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" OUTPUT_VARIABLE prefix_from_pc)
set(pc_libs "")
foreach(library IN LISTS CMAKE_DL_LIBS)
  string(APPEND pc_libs " -l${library}")
endforeach()
# A C program that links a static library must name the libraries that a C++ program links by
# default.
if(NOT BUILD_SHARED_LIBS)
  foreach(library IN LISTS CMAKE_CXX_IMPLICIT_LINK_LIBRARIES)
    if(library MATCHES "^(stdc\\+\\+|c\\+\\+|c\\+\\+abi|m)$")
      string(APPEND pc_libs " -l${library}")
    endif()
  endforeach()
endif()
if(NOT FARCALL_ATOMIC_BYTES_NEED_NO_LIBRARY)
  string(APPEND pc_libs " -latomic")
endif()
configure_file(cmake/farcall.pc.in "${PROJECT_BINARY_DIR}/farcall.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/farcall.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

install(FILES LICENSE README.md CHANGELOG.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
# Files that the guide refers to.
install(DIRECTORY deploy DESTINATION "${CMAKE_INSTALL_DOCDIR}")
# Pages that programs and headers refer to.
install(
  DIRECTORY docs
  DESTINATION "${CMAKE_INSTALL_DOCDIR}"
  FILES_MATCHING
  PATTERN "*.md")
