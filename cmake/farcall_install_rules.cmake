# SPDX-License-Identifier: Apache-2.0

# Rules that install programs, libraries and links. Two minor versions of farcall fit into one prefix: the folder
# farcall_versioned has the parts of one version, and links without a number lead to the last one installed.
#
# Components: `runtime` (the shared library and its modules), `dev`, `doc`, `tools`, `profiler`, `bench`, `compat`
# (HAM-Offload, AM-2 and OpenMP), `veo`, and `debug`, which has the debug information of the others. `python3` and
# `veo_nec` are installed only by name.

set(farcall_rules_folder "${CMAKE_CURRENT_LIST_DIR}")
set(farcall_versioned "farcall-${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")

# Libraries that a C++ program links by default. Programs in C name them if they link a static library in C++.
set(farcall_cxx_libs "")
foreach(library IN LISTS CMAKE_CXX_IMPLICIT_LINK_LIBRARIES)
  if(library MATCHES "^(stdc\\+\\+|c\\+\\+|c\\+\\+abi|m)$")
    string(APPEND farcall_cxx_libs " -l${library}")
  endif()
endforeach()

# farcall_install_link(<target> <link, below the prefix> <component> [EXCLUDE_FROM_ALL])
function(farcall_install_link target link component)
  cmake_path(GET link PARENT_PATH folder)
  install(
    CODE "
      set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}\")
      file(MAKE_DIRECTORY \"\${folder}\")
      message(STATUS \"Installing: \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${link}\")
      file(CREATE_LINK \"${target}\" \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${link}\" SYMBOLIC)"
    COMPONENT ${component} ${ARGN})
endfunction()

# farcall_install_binary(<target> <folder below the prefix> <component> [EXCLUDE_FROM_ALL])
#
# Installs a program, module or library without its debug information, which the component `debug` has.
# `cmake -DFARCALL_KEEP_DEBUG=ON … -P cmake_install.cmake` keeps it in the file, for packagers. Programs and
# modules link the shared library, and find it by a relative path, so that both can be moved together.
function(farcall_install_binary target folder component)
  if(NOT FARCALL_INSTALL)
    return()
  endif()
  get_target_property(kind ${target} TYPE)
  if(kind MATCHES "^(EXECUTABLE|MODULE_LIBRARY)$" AND (farcall_has_both OR BUILD_SHARED_LIBS))
    cmake_path(RELATIVE_PATH CMAKE_INSTALL_LIBDIR BASE_DIRECTORY "${folder}" OUTPUT_VARIABLE to_library)
    set_target_properties(${target} PROPERTIES FARCALL_LINKS_SHARED ON INSTALL_RPATH "$ORIGIN/${to_library}")
  endif()
  set_property(GLOBAL APPEND PROPERTY FARCALL_PACKAGED ${target})
  install(
    TARGETS ${target}
    ARCHIVE DESTINATION "${folder}" COMPONENT ${component} ${ARGN}
    LIBRARY DESTINATION "${folder}" COMPONENT ${component} NAMELINK_SKIP ${ARGN}
    RUNTIME DESTINATION "${folder}" COMPONENT ${component} ${ARGN})
  farcall_split_debug("$<TARGET_FILE:${target}>" "${folder}/$<TARGET_FILE_NAME:${target}>" ${component} ${ARGN})
endfunction()

# farcall_split_debug(<built file> <installed file, below the prefix> <component> [EXCLUDE_FROM_ALL])
function(farcall_split_debug built installed component)
  set(split "\"${CMAKE_COMMAND}\" \"-DOBJCOPY=${CMAKE_OBJCOPY}\" \"-DSTRIP=${CMAKE_STRIP}\" \"-DBUILT=${built}\"
        \"-DINSTALLED=\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${installed}\"")
  set(script "-P \"${farcall_rules_folder}/split_debug.cmake\" COMMAND_ERROR_IS_FATAL ANY")
  install(
    CODE "
      if(NOT FARCALL_KEEP_DEBUG)
        execute_process(COMMAND ${split} -DPART=program ${script})
      endif()"
    COMPONENT ${component} ${ARGN})
  install(CODE "execute_process(COMMAND ${split} -DPART=debug ${script})" COMPONENT debug ${ARGN})
endfunction()
