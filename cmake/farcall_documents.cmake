# SPDX-License-Identifier: Apache-2.0

# Manual pages of the command farcall, and its completion scripts for shells. The command makes them from
# the tables of its --help. A program for another machine cannot run here, and a wheel has no folders
# for them.
if(NOT TARGET farcall_command OR CMAKE_CROSSCOMPILING OR SKBUILD OR CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
  return()
endif()

set(documents "${PROJECT_BINARY_DIR}/documents")
set(scripts "${documents}/farcall" "${documents}/_farcall" "${documents}/farcall.fish")
add_custom_command(
  OUTPUT ${scripts} "${documents}/man1/farcall.1"
  COMMAND "${CMAKE_COMMAND}" -E rm -rf "${documents}/man1"
  COMMAND "${CMAKE_COMMAND}" -E make_directory "${documents}/man1"
  COMMAND farcall_command --documents man "${documents}/man1"
  COMMAND farcall_command completion bash > "${documents}/farcall"
  COMMAND farcall_command completion zsh > "${documents}/_farcall"
  COMMAND farcall_command completion fish > "${documents}/farcall.fish"
  DEPENDS farcall_command $<TARGET_NAME_IF_EXISTS:farcall_bench> $<TARGET_NAME_IF_EXISTS:farcall_prof>
  VERBATIM)
add_custom_target(farcall_documents ALL DEPENDS ${scripts} "${documents}/man1/farcall.1")
add_dependencies(farcall_tools farcall_documents)

set(FARCALL_INSTALL_ZSH_DIR "${CMAKE_INSTALL_DATADIR}/zsh/site-functions"
    CACHE STRING "Folder for the completion script of zsh (Debian: share/zsh/vendor-completions)")
set(in_tools COMPONENT tools)
install(DIRECTORY "${documents}/man1" DESTINATION "${CMAKE_INSTALL_MANDIR}" ${in_tools})
install(FILES "${documents}/farcall" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions"
        ${in_tools})
install(FILES "${documents}/_farcall" DESTINATION "${FARCALL_INSTALL_ZSH_DIR}" ${in_tools})
install(FILES "${documents}/farcall.fish"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d" ${in_tools})
