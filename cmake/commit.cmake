# SPDX-License-Identifier: Apache-2.0

# Writes the commit of the sources to a header: cmake -DSOURCE=FOLDER -DHEADER=FILE -P commit.cmake
#
# In an archive that git has made, commit.txt has the commit. Otherwise git is asked. Without both the commit is
# "unknown". The header is written only if it changes.

file(READ "${SOURCE}/cmake/commit.txt" commit)
string(STRIP "${commit}" commit)
if(commit MATCHES "Format" AND NOT EXISTS "${SOURCE}/.git")
  set(commit unknown)
elseif(commit MATCHES "Format")
  execute_process(COMMAND git -C "${SOURCE}" rev-parse --short=12 HEAD
                  OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    set(commit unknown)
  else()
    execute_process(COMMAND git -C "${SOURCE}" diff-index --quiet HEAD -- ERROR_QUIET RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
      string(APPEND commit " with changes")
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT "${HEADER}" CONTENT "#define FARCALL_TOOL_COMMIT \"${commit}\"\n" @ONLY)
