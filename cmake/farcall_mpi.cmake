# Finds MPI, which the module farcall_mpi of the layer `transport` links, and nothing else of farcall.

set(FARCALL_WITH_MPI AUTO CACHE STRING "Build the transport over MPI: ON, OFF, or AUTO for when MPI is found")
set_property(CACHE FARCALL_WITH_MPI PROPERTY STRINGS AUTO ON OFF)

# Projects of HAM-Offload's ask MPI_FOUND behind us, which must not be known for this.
function(farcall_find_mpi)
  # Its interface for C, by the C++ compiler; MPI_CXX_COMPILER chooses among several libraries.
  set(MPI_CXX_SKIP_MPICXX TRUE)
  find_package(MPI 3.1 QUIET COMPONENTS CXX)
  set(MPI_CXX_FOUND "${MPI_CXX_FOUND}" PARENT_SCOPE)
  set(MPI_CXX_LIBRARIES "${MPI_CXX_LIBRARIES}" PARENT_SCOPE)
endfunction()

set(farcall_has_mpi OFF)
# CMake of a cross build may find what is this machine's.
if(FARCALL_WITH_MPI AND NOT (FARCALL_WITH_MPI STREQUAL "AUTO" AND CMAKE_CROSSCOMPILING))
  farcall_find_mpi()
  if(MPI_CXX_FOUND)
    set(farcall_has_mpi ON)
  elseif(FARCALL_WITH_MPI STREQUAL "ON")
    message(FATAL_ERROR "FARCALL_WITH_MPI is ON, but CMake finds no MPI from 3.1 on (libopenmpi-dev, or libmpich-dev)")
  endif()
endif()
