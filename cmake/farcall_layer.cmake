# farcall_layer(NAME <layer>
#               HEADERS          <public headers, installed>
#               INTERNAL_HEADERS <headers for our own sources only>
#               SOURCES          <.cpp files>
#               GPU_SOURCES      <what only programs with code for GPUs need, for farcall_cuda>
#               TESTS            <_test.cpp files>
#               TESTS_WITHOUT_THREADS <_test.cpp files with nothing that ThreadSanitizer could see>)
#
# Called once by each farcall/<layer>/CMakeLists.txt. Adds the layer's files to the one library;
# its tests are gathered for farcall_unit_tests, which tests/CMakeLists.txt builds.
function(farcall_layer)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "HEADERS;INTERNAL_HEADERS;SOURCES;GPU_SOURCES;TESTS;TESTS_WITHOUT_THREADS")
  farcall_refuse_leftovers(farcall_layer)
  foreach(kind IN ITEMS HEADERS INTERNAL_HEADERS SOURCES GPU_SOURCES TESTS TESTS_WITHOUT_THREADS)
    list(TRANSFORM arg_${kind} PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  endforeach()

  target_sources(
    farcall
    PRIVATE ${arg_SOURCES}
    PUBLIC FILE_SET HEADERS FILES ${arg_HEADERS})
  target_sources(farcall_internal_headers INTERFACE FILE_SET HEADERS FILES ${arg_INTERNAL_HEADERS})
  set_property(GLOBAL APPEND PROPERTY FARCALL_GPU_SOURCES ${arg_GPU_SOURCES})
  set_property(GLOBAL APPEND PROPERTY FARCALL_UNIT_TESTS ${arg_TESTS})
  if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread")
    set_property(GLOBAL APPEND PROPERTY FARCALL_UNIT_TESTS ${arg_TESTS_WITHOUT_THREADS})
  endif()
endfunction()
