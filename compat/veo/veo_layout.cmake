# SPDX-License-Identifier: Apache-2.0

# Folders of compat/veo: in the build tree, in which tests use the installed layout, and below the prefix.

option(FARCALL_VEO_NEC_LAYOUT
       "Install compat/veo as NEC's packages are below /opt/nec/ve (the prefix), for old build files"
       OFF)

# The build tree has bin, include, lib, libexec. Targets that are installed are built into its lib or
# libexec (ARCHIVE_, LIBRARY_, RUNTIME_OUTPUT_DIRECTORY).
set(veo_build_dir "${PROJECT_BINARY_DIR}/veo")
set(veo_build_tool_dir "${veo_build_dir}/libexec/farcall/veo")
file(MAKE_DIRECTORY "${veo_build_dir}/bin" "${veo_build_dir}/lib")

# Folders of the two layouts: `own`, in the system's folders, and `nec`, with folders for kernels
# (include, lib) and for programs (veos).
set(veo_own_include_dir "${CMAKE_INSTALL_INCLUDEDIR}")
set(veo_own_host_include_dir "${CMAKE_INSTALL_INCLUDEDIR}")
set(veo_own_lib_dir "${CMAKE_INSTALL_LIBDIR}")
set(veo_own_host_lib_dir "${CMAKE_INSTALL_LIBDIR}")
set(veo_own_tool_dir "${CMAKE_INSTALL_LIBEXECDIR}/farcall/veo")
set(veo_own_helper_dir "${CMAKE_INSTALL_LIBEXECDIR}/farcall/veo")
set(veo_nec_include_dir include)
set(veo_nec_host_include_dir veos/include)
set(veo_nec_lib_dir lib)
set(veo_nec_host_lib_dir veos/lib64)
set(veo_nec_tool_dir libexec/farcall/veo)
set(veo_nec_helper_dir veos/libexec)

# farcall_veo_headers(COMMON|KERNEL|HOST <header>…): adds headers of the calling folder for both sides,
# for kernels, or for programs. Copies them to the build tree; veo_install.cmake installs them.
function(farcall_veo_headers side)
  if(NOT side MATCHES "^(COMMON|KERNEL|HOST)$")
    message(FATAL_ERROR "farcall_veo_headers: '${side}' is none of COMMON, KERNEL and HOST")
  endif()
  foreach(header IN LISTS ARGN)
    cmake_path(GET header FILENAME name)
    configure_file("${header}" "${veo_build_dir}/include/${name}" COPYONLY)
    cmake_path(ABSOLUTE_PATH header)
    set_property(GLOBAL APPEND PROPERTY FARCALL_VEO_${side}_HEADERS "${header}")
  endforeach()
endfunction()

# farcall_veo_kernel_library(<name> SOURCES <file>… [STATIC_ONLY]
#                            [VISIBLE_AS <other name>…] [LIBRARIES <target>…])
#
# Adds libraries for kernels: lib<name>.a (target <name>) and lib<name>.so.1 (target <name>_shared).
# VISIBLE_AS has further names that old build files use behind -l.
function(farcall_veo_kernel_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "STATIC_ONLY" "" "SOURCES;VISIBLE_AS;LIBRARIES")
  farcall_refuse_leftovers(farcall_veo_kernel_library)
  set(targets ${name})
  add_library(${name} STATIC ${arg_SOURCES})
  if(NOT arg_STATIC_ONLY)
    list(APPEND targets ${name}_shared)
    add_library(${name}_shared SHARED ${arg_SOURCES})
    set_target_properties(${name}_shared PROPERTIES OUTPUT_NAME ${name} VERSION 1.0.0 SOVERSION 1)
    target_link_options(${name}_shared PRIVATE -Wl,-z,defs)
  endif()
  foreach(target IN LISTS targets)
    target_include_directories(
      ${target} PRIVATE "${veo_source_dir}/include/common" "${veo_source_dir}/include/kernel"
                        "${veo_source_dir}/include/host")
    target_compile_definitions(${target} PRIVATE __ve__ _GNU_SOURCE)
    target_link_libraries(${target} PRIVATE ${arg_LIBRARIES})
    set_target_properties(
      ${target}
      PROPERTIES C_STANDARD 11
                 POSITION_INDEPENDENT_CODE ON
                 ARCHIVE_OUTPUT_DIRECTORY "${veo_build_dir}/lib"
                 LIBRARY_OUTPUT_DIRECTORY "${veo_build_dir}/lib")
  endforeach()
  foreach(other IN LISTS arg_VISIBLE_AS)
    file(CREATE_LINK lib${name}.so "${veo_build_dir}/lib/lib${other}.so" SYMBOLIC)
    file(CREATE_LINK lib${name}.a "${veo_build_dir}/lib/lib${other}.a" SYMBOLIC)
    set_property(GLOBAL APPEND PROPERTY FARCALL_VEO_LIBRARY_LINKS "${other}=${name}")
  endforeach()
  set_property(GLOBAL APPEND PROPERTY FARCALL_VEO_KERNEL_LIBRARIES ${targets})
endfunction()
