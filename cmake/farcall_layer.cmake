# SPDX-License-Identifier: Apache-2.0

# farcall_layer(NAME <layer>
#               HEADERS           <public headers, installed>
#               INTERNAL_HEADERS  <headers for our own sources only>
#               SOURCES           <.cpp files>
#               GPU_SOURCES       <sources of farcall_cuda, for programs with code for GPUs>
#               THREAD_TESTS      <_test.cpp files that check how threads work together>
#               MEMORY_TESTS      <_test.cpp files that check values, lifetimes and hostile bytes>
#               CONFORMANCE_TESTS <_test.cpp files that instantiate the conformance suite>)
#
# Called once by each farcall/<layer>/CMakeLists.txt, in the order of the layers. Its files go to the one
# library (farcall_add_layers), its tests to the program farcall_<layer>_tests (tests/CMakeLists.txt).
# ThreadSanitizer builds run THREAD_TESTS and CONFORMANCE_TESTS, AddressSanitizer builds MEMORY_TESTS,
# unless FARCALL_SANITIZE_ALL is on.
function(farcall_layer)
  set(kinds HEADERS INTERNAL_HEADERS SOURCES GPU_SOURCES THREAD_TESTS MEMORY_TESTS CONFORMANCE_TESTS)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "${kinds}")
  farcall_refuse_leftovers(farcall_layer)
  foreach(kind IN LISTS kinds)
    list(TRANSFORM arg_${kind} PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  endforeach()

  target_sources(farcall PUBLIC FILE_SET HEADERS FILES ${arg_HEADERS})
  set_property(GLOBAL PROPERTY FARCALL_SOURCES_${arg_NAME} ${arg_SOURCES})
  target_sources(farcall_internal_headers INTERFACE FILE_SET HEADERS FILES ${arg_INTERNAL_HEADERS})
  set_property(GLOBAL APPEND PROPERTY FARCALL_GPU_SOURCES ${arg_GPU_SOURCES})

  set(tests "")
  farcall_runs_tests_of(thread runs)
  if(runs)
    list(APPEND tests ${arg_THREAD_TESTS})
    set_property(GLOBAL APPEND PROPERTY FARCALL_UNIT_TESTS_conformance ${arg_CONFORMANCE_TESTS})
  endif()
  farcall_runs_tests_of(address runs)
  if(runs)
    list(APPEND tests ${arg_MEMORY_TESTS})
  endif()
  set_property(GLOBAL APPEND PROPERTY FARCALL_LAYERS ${arg_NAME})
  set_property(GLOBAL PROPERTY FARCALL_UNIT_TESTS_${arg_NAME} ${tests})
endfunction()

# farcall_add_layers()
#
# Adds the sources of all layers to the library. With FARCALL_LAYER_LIBRARIES, also makes a static library
# farcall_up_to_<layer> of each layer and the layers before it. The tests of a layer link this library, so
# that a change in a later layer does not rebuild them.
function(farcall_add_layers)
  get_property(layers GLOBAL PROPERTY FARCALL_LAYERS)
  set(objects "")
  if(farcall_has_both)
    target_sources(farcall_shared PRIVATE $<TARGET_OBJECTS:farcall>)
  endif()
  foreach(layer IN LISTS layers)
    get_property(sources GLOBAL PROPERTY FARCALL_SOURCES_${layer})
    if(NOT FARCALL_LAYER_LIBRARIES)
      target_sources(farcall PRIVATE ${sources})
      continue()
    endif()
    add_library(farcall_objects_of_${layer} OBJECT ${sources})
    farcall_compile_as_library(farcall_objects_of_${layer})
    list(APPEND objects $<TARGET_OBJECTS:farcall_objects_of_${layer}>)
    target_sources(farcall PRIVATE $<TARGET_OBJECTS:farcall_objects_of_${layer}>)
    if(farcall_has_both)
      target_sources(farcall_shared PRIVATE $<TARGET_OBJECTS:farcall_objects_of_${layer}>)
    endif()
    add_library(farcall_up_to_${layer} STATIC EXCLUDE_FROM_ALL ${objects})
    set_target_properties(farcall_up_to_${layer} PROPERTIES LINKER_LANGUAGE CXX)
    farcall_compile_as_library(farcall_up_to_${layer})
  endforeach()
endfunction()

# farcall_runs_tests_of(<address|thread> <variable>)
#
# Sets the variable to ON if this build runs the tests that are assigned to that sanitizer: if the build
# has no sanitizer, if it has that one, or if FARCALL_SANITIZE_ALL is on. Else sets it to OFF.
function(farcall_runs_tests_of sanitizer variable)
  set(runs OFF)
  if(FARCALL_SANITIZE_ALL
     OR NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize="
     OR CMAKE_CXX_FLAGS MATCHES "-fsanitize=${sanitizer}")
    set(runs ON)
  endif()
  set(${variable} ${runs} PARENT_SCOPE)
endfunction()
