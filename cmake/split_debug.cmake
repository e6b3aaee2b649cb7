# SPDX-License-Identifier: Apache-2.0

# Splits an installed file and its debug information: cmake -DPART=program|debug -DBUILT=FILE -DINSTALLED=FILE
# -DOBJCOPY=PROGRAM -DSTRIP=PROGRAM -P split_debug.cmake
#
# PART=program removes the debug information from the installed file. PART=debug writes it to the folder `.debug`
# beside the installed file, where debuggers search.

cmake_path(GET INSTALLED FILENAME name)
cmake_path(GET INSTALLED PARENT_PATH folder)
if(name MATCHES "\\.a$")
  if(PART STREQUAL "program")
    execute_process(COMMAND "${STRIP}" --strip-debug --enable-deterministic-archives "${INSTALLED}"
                    COMMAND_ERROR_IS_FATAL ANY)
  endif()
  return()
endif()

# The link in the program contains the checksum of this file.
cmake_path(GET BUILT PARENT_PATH build_folder)
set(debug_file "${build_folder}/${name}.debug")
execute_process(COMMAND "${OBJCOPY}" --only-keep-debug "${BUILT}" "${debug_file}"
                COMMAND_ERROR_IS_FATAL ANY)
if(PART STREQUAL "program")
  execute_process(COMMAND "${STRIP}" --strip-unneeded "${INSTALLED}" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${OBJCOPY}" "--add-gnu-debuglink=${debug_file}" "${INSTALLED}"
                  COMMAND_ERROR_IS_FATAL ANY)
else()
  file(COPY "${debug_file}" DESTINATION "${folder}/.debug")
endif()
file(REMOVE "${debug_file}")
