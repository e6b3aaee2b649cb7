# SPDX-License-Identifier: Apache-2.0

# Finds OTF2 for the module farcall_otf2 of the layer `trace`, the only part of farcall that links
# it.

set(FARCALL_WITH_OTF2 ${if_found} CACHE STRING "Build what writes timelines in OTF2: ON, OFF, or AUTO for when OTF2 is found")
set_property(CACHE FARCALL_WITH_OTF2 PROPERTY STRINGS AUTO ON OFF)

set(farcall_has_otf2 OFF)
# When cross-compiling, pkg-config may find the build machine's library.
if(FARCALL_WITH_OTF2 AND NOT (FARCALL_WITH_OTF2 STREQUAL "AUTO" AND CMAKE_CROSSCOMPILING))
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(FARCALL_OTF2 QUIET IMPORTED_TARGET GLOBAL "otf2>=2.0")
  endif()
  if(FARCALL_OTF2_FOUND)
    set(farcall_has_otf2 ON)
  elseif(FARCALL_WITH_OTF2 STREQUAL "ON")
    message(FATAL_ERROR "FARCALL_WITH_OTF2 is ON, but pkg-config finds no OTF2 (libopen-trace-format2-dev)")
  endif()
endif()
