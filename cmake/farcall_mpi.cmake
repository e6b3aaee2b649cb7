# SPDX-License-Identifier: Apache-2.0

# Finds MPI for the module farcall_mpi of the layer `transport`, the only part of farcall that links
# it.

set(FARCALL_WITH_MPI ${if_found} CACHE STRING "Build the transport over MPI: ON, OFF, or AUTO for when MPI is found")
set_property(CACHE FARCALL_WITH_MPI PROPERTY STRINGS AUTO ON OFF)

# Keeps MPI_FOUND unset afterwards, because projects of HAM-Offload check it.
function(farcall_find_mpi)
  # MPI's C interface, found with the C++ compiler; MPI_CXX_COMPILER selects among several
  # libraries.
  set(MPI_CXX_SKIP_MPICXX TRUE)
  find_package(MPI 3.1 QUIET COMPONENTS CXX)
  set(MPI_CXX_FOUND "${MPI_CXX_FOUND}" PARENT_SCOPE)
  set(MPI_CXX_LIBRARIES "${MPI_CXX_LIBRARIES}" PARENT_SCOPE)
endfunction()

set(farcall_has_mpi OFF)
# When cross-compiling, CMake may find the build machine's library.
if(FARCALL_WITH_MPI AND NOT (FARCALL_WITH_MPI STREQUAL "AUTO" AND CMAKE_CROSSCOMPILING))
  farcall_find_mpi()
  if(MPI_CXX_FOUND)
    set(farcall_has_mpi ON)
  elseif(FARCALL_WITH_MPI STREQUAL "ON")
    message(FATAL_ERROR "FARCALL_WITH_MPI is ON, but CMake finds no MPI from 3.1 on (libopenmpi-dev, or libmpich-dev)")
  endif()
endif()
