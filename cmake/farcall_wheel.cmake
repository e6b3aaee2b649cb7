# SPDX-License-Identifier: Apache-2.0

# Decisions for the wheel of the Python package, which is built from few files and for many systems.

# The test of the wheel compiles only the extension module, and uses files of another build.
set(FARCALL_WHEEL_LIBRARY "" CACHE FILEPATH "Shared library of farcall to put into the wheel; empty: build it")
set(FARCALL_WHEEL_COMMAND "" CACHE FILEPATH "Command to put into the wheel, if the library is not built")

find_package(CLI11 QUIET)
find_package(fmt QUIET)
if(NOT CLI11_FOUND OR NOT fmt_FOUND)
  message(STATUS "farcall: the wheel is built without the farcall command, which needs libcli11-dev and libfmt-dev")
  set(FARCALL_BUILD_TOOLS OFF)
endif()
