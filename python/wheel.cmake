# SPDX-License-Identifier: Apache-2.0

# Contents of the wheel beside the Python files, which pyproject.toml names: an installation of farcall in the
# folder of the package. A wheel has no symbolic links, so the library has one name only.

add_custom_target(farcall_wheel DEPENDS farcall_python)
set(soname "libfarcall.so.${FARCALL_ABI}")
set_target_properties(farcall_python PROPERTIES INSTALL_RPATH "$ORIGIN/lib")
install(TARGETS farcall_python LIBRARY DESTINATION . COMPONENT python)

if(FARCALL_WHEEL_LIBRARY)
  install(FILES "${FARCALL_WHEEL_LIBRARY}" DESTINATION lib RENAME "${soname}" COMPONENT python)
  if(FARCALL_WHEEL_COMMAND)
    install(PROGRAMS "${FARCALL_WHEEL_COMMAND}" DESTINATION bin COMPONENT python)
    # The command of a build finds the library in that build.
    cmake_path(GET FARCALL_WHEEL_COMMAND FILENAME name)
    install(CODE "file(RPATH_SET FILE \"\${CMAKE_INSTALL_PREFIX}/bin/${name}\" NEW_RPATH \"\\$ORIGIN/../lib\")"
            COMPONENT python)
  endif()
else()
  set_target_properties(farcall PROPERTIES VERSION ${FARCALL_ABI})
  install(TARGETS farcall LIBRARY DESTINATION lib COMPONENT python NAMELINK_SKIP
                                  FILE_SET HEADERS DESTINATION include COMPONENT python)
  if(TARGET farcall_command)
    add_dependencies(farcall_wheel farcall_command)
    set_target_properties(farcall_command PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
    install(TARGETS farcall_command RUNTIME DESTINATION bin COMPONENT python)
  endif()
endif()

# `-L lib -lfarcall` finds the library by this script of the linker.
file(CONFIGURE OUTPUT libfarcall.so CONTENT "INPUT(-l:${soname})\n" @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/libfarcall.so" DESTINATION lib COMPONENT python)
