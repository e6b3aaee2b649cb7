# SPDX-License-Identifier: Apache-2.0

# Installs compat/veo as the component `veo`, in one of two layouts. The component `veo_nec` exists in
# both cases: cmake --install <build> --component veo_nec --prefix /opt/nec/ve
#
# Included last, because it needs these targets: `veo` and `veo_static` (libveo), `farcall_aveorun`,
# `farcall_aveorun_ftrace`, and `farcall_veo_target` (libaveorun.a).

# farcall_veo_install_commands(<folder> <prefix of names> <tools> <component> [EXCLUDE_FROM_ALL]):
# installs links to the scripts; only the commands in the caller's list COMMANDS, if there is one.
function(farcall_veo_install_commands folder name_prefix tools component)
  cmake_path(RELATIVE_PATH tools BASE_DIRECTORY "${folder}" OUTPUT_VARIABLE to_tools)
  get_property(commands GLOBAL PROPERTY FARCALL_VEO_COMMANDS)
  foreach(pair IN LISTS commands)
    string(REGEX MATCH "^(.*)=(.*)$" pair "${pair}")
    if(NOT COMMANDS OR CMAKE_MATCH_1 IN_LIST COMMANDS)
      farcall_install_link("${to_tools}/${CMAKE_MATCH_2}"
                               "${folder}/${name_prefix}${CMAKE_MATCH_1}" ${component} ${ARGN})
    endif()
  endforeach()
endfunction()

# farcall_veo_install_target(<target> <kind> <folder> <component> [EXCLUDE_FROM_ALL])
function(farcall_veo_install_target target folder component)
  if(TARGET ${target})
    set_property(GLOBAL APPEND PROPERTY FARCALL_PACKAGED ${target})
    install(
      TARGETS ${target}
      ARCHIVE DESTINATION "${folder}" COMPONENT ${component} ${ARGN}
      LIBRARY DESTINATION "${folder}" COMPONENT ${component} ${ARGN}
      RUNTIME DESTINATION "${folder}" COMPONENT ${component} ${ARGN})
    farcall_split_debug("$<TARGET_FILE:${target}>" "${folder}/$<TARGET_FILE_NAME:${target}>" ${component} ${ARGN})
  endif()
endfunction()

# farcall_veo_install(<own|nec> <component> [EXCLUDE_FROM_ALL])
function(farcall_veo_install layout component)
  set(include "${veo_${layout}_include_dir}")
  set(host_include "${veo_${layout}_host_include_dir}")
  set(lib "${veo_${layout}_lib_dir}")
  set(host_lib "${veo_${layout}_host_lib_dir}")
  set(tools "${veo_${layout}_tool_dir}")
  set(helpers "${veo_${layout}_helper_dir}")
  set(how COMPONENT ${component} ${ARGN})

  foreach(side IN ITEMS COMMON KERNEL HOST)
    get_property(${side} GLOBAL PROPERTY FARCALL_VEO_${side}_HEADERS)
  endforeach()
  install(FILES ${COMMON} ${KERNEL} DESTINATION "${include}" ${how})
  if(NOT host_include STREQUAL include)
    install(FILES ${COMMON} DESTINATION "${host_include}" ${how})
  endif()
  install(FILES ${HOST} DESTINATION "${host_include}" ${how})

  get_property(libraries GLOBAL PROPERTY FARCALL_VEO_KERNEL_LIBRARIES)
  foreach(library IN LISTS libraries)
    farcall_veo_install_target(${library} "${lib}" ${component} ${ARGN})
  endforeach()
  get_property(links GLOBAL PROPERTY FARCALL_VEO_LIBRARY_LINKS)
  foreach(pair IN LISTS links)
    string(REGEX MATCH "^(.*)=(.*)$" pair "${pair}")
    foreach(end IN ITEMS so a)
      farcall_install_link(lib${CMAKE_MATCH_2}.${end} "${lib}/lib${CMAKE_MATCH_1}.${end}"
                               ${component} ${ARGN})
    endforeach()
  endforeach()

  get_property(programs GLOBAL PROPERTY FARCALL_VEO_PROGRAMS)
  get_property(files GLOBAL PROPERTY FARCALL_VEO_TOOL_FILES)
  get_property(layouts GLOBAL PROPERTY FARCALL_VEO_LAYOUT_FILES)
  install(PROGRAMS ${programs} DESTINATION "${tools}" ${how})
  install(FILES ${files} "${layouts}/${layout}/layout.bash" DESTINATION "${tools}" ${how})
  set(COMMANDS "")
  if(layout STREQUAL "nec")
    farcall_veo_install_commands(bin "" "${tools}" ${component} ${ARGN})
    # Some programs expect these commands here.
    set(COMMANDS mk_veorun_static relink_aveorun)
    farcall_veo_install_commands(libexec "" "${tools}" ${component} ${ARGN})
    set(COMMANDS
        mk_veorun_static_ve1 mk_veorun_static_ve3 relink_aveorun_ve1 relink_aveorun_ve3
        gen_veorun_static_symtable gen_aveorun_static_symtable)
    farcall_veo_install_commands(veos/libexec "" "${tools}" ${component} ${ARGN})
  else()
    # Short names are in a folder of their own, which users add to PATH or pass to make.
    farcall_veo_install_commands("${tools}/bin" "" "${tools}" ${component} ${ARGN})
    set(COMMANDS
        ncc nc++ nfort nar nranlib nnm mk_veorun_static relink_aveorun ftrace)
    farcall_veo_install_commands("${CMAKE_INSTALL_BINDIR}" farcall- "${tools}" ${component} ${ARGN})
  endif()

  get_property(libraries GLOBAL PROPERTY FARCALL_VEO_HOST_LIBRARIES)
  foreach(library IN LISTS libraries ITEMS veo)
    farcall_veo_install_target(${library} "${host_lib}" ${component} ${ARGN})
  endforeach()
  if(TARGET veo)
    # First name of AVEO's library.
    farcall_install_link(libveo.so "${host_lib}/libaveoVH.so" ${component} ${ARGN})
  endif()
  farcall_veo_install_target(veo_static "${host_lib}" ${component} ${ARGN})
  farcall_veo_install_target(farcall_veo_target "${lib}" ${component} ${ARGN})
  if(TARGET farcall_veo_target)
    install(FILES "${veo_build_dir}/lib/aveorun.link" DESTINATION "${lib}" ${how})
  endif()
  foreach(kind IN ITEMS aveorun aveorun-ftrace)
    string(REPLACE "-" "_" target farcall_${kind})
    if(TARGET ${target})
      farcall_veo_install_target(${target} "${helpers}" ${component} ${ARGN})
      foreach(generation IN ITEMS _ve1 _ve3)
        farcall_install_link(${kind} "${helpers}/${kind}${generation}" ${component} ${ARGN})
      endforeach()
    endif()
  endforeach()
  if(TARGET farcall_aveorun)
    farcall_install_link(aveorun "${helpers}/veorun" ${component} ${ARGN})
  endif()
endfunction()

if(FARCALL_VEO_NEC_LAYOUT)
  farcall_veo_install(nec veo)
else()
  farcall_veo_install(own veo)
endif()
farcall_veo_install(nec veo_nec EXCLUDE_FROM_ALL)
