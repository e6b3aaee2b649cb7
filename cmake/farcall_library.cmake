# The one library: every layer adds its files to it with farcall_layer().

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)

# For our own programs: tools, tests, benchmarks. The library itself needs nothing but the system.
add_library(farcall_private_libraries INTERFACE)
target_link_libraries(farcall_private_libraries INTERFACE fmt::fmt)

add_library(farcall)
add_library(farcall::farcall ALIAS farcall)
target_compile_features(farcall PUBLIC cxx_std_20)
target_link_libraries(farcall PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(
  farcall
  PROPERTIES LINKER_LANGUAGE CXX
             POSITION_INDEPENDENT_CODE ON
             VERSION ${PROJECT_VERSION}
             SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_sources(farcall PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}"
                              FILES "${PROJECT_SOURCE_DIR}/farcall/farcall.hpp")

# A static library hides its symbols, so that they do not leave the program or the plug-in it is
# linked into. A shared one exports all: there is no export macro to keep up to date.
if(NOT BUILD_SHARED_LIBS)
  set_target_properties(farcall PROPERTIES CXX_VISIBILITY_PRESET hidden
                                           VISIBILITY_INLINES_HIDDEN ON)
endif()

# Headers that only our own sources include: not installed, but held to the same rule as the
# public ones, to compile alone.
add_library(farcall_internal_headers INTERFACE)
target_link_libraries(farcall_internal_headers INTERFACE farcall farcall_private_libraries)
target_sources(farcall_internal_headers INTERFACE FILE_SET HEADERS BASE_DIRS
                                                  "${PROJECT_SOURCE_DIR}")
