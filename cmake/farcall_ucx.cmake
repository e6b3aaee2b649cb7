# SPDX-License-Identifier: Apache-2.0

# Finds UCX for the module farcall_ucx of the layer `transport`, the only part of farcall that links
# it.

set(FARCALL_WITH_UCX ${if_found} CACHE STRING "Build the transport over UCX: ON, OFF, or AUTO for when UCX is found")
set_property(CACHE FARCALL_WITH_UCX PROPERTY STRINGS AUTO ON OFF)

set(farcall_has_ucx OFF)
# When cross-compiling, pkg-config may find the build machine's library.
if(FARCALL_WITH_UCX AND NOT (FARCALL_WITH_UCX STREQUAL "AUTO" AND CMAKE_CROSSCOMPILING))
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    # The active-message functions used exist from 1.12 on.
    pkg_check_modules(FARCALL_UCX QUIET IMPORTED_TARGET GLOBAL "ucx>=1.12")
  endif()
  if(FARCALL_UCX_FOUND)
    set(farcall_has_ucx ON)
  elseif(FARCALL_WITH_UCX STREQUAL "ON")
    message(FATAL_ERROR "FARCALL_WITH_UCX is ON, but pkg-config finds no UCX from 1.12 on (libucx-dev)")
  endif()
endif()
