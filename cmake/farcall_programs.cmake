# Programs around the library. Paths are relative to the calling folder, or absolute.

# farcall_test_program(NAME <program> SOURCES <.cpp>…
#                      [LABEL <label>] [LIBRARIES <target>…] [TIMEOUT <seconds, default 120>]
#                      [RUN_SERIAL] [OWN_MAIN])
#
# A GoogleTest program. Each of its tests becomes a ctest test, found when ctest runs, so that
# cross-built and sanitized programs need not run during the build. The main() comes from
# tests/test_main.cpp unless OWN_MAIN is given. One label only: gtest_discover_tests cannot pass a
# list on. The label `no-sanitizer` keeps a program out of `./run asan` and `./run tsan`.
function(farcall_test_program)
  cmake_parse_arguments(PARSE_ARGV 0 arg "RUN_SERIAL;OWN_MAIN" "NAME;LABEL;TIMEOUT"
                        "SOURCES;LIBRARIES")
  farcall_refuse_leftovers(farcall_test_program)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()

  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE farcall::farcall farcall_private_libraries GTest::gmock
                                            ${arg_LIBRARIES})
  if(arg_OWN_MAIN)
    target_include_directories(${arg_NAME} PRIVATE "${PROJECT_SOURCE_DIR}")
  else()
    target_link_libraries(${arg_NAME} PRIVATE farcall_test_main)
    target_precompile_headers(${arg_NAME} REUSE_FROM farcall_test_main)
  endif()

  set(properties TIMEOUT ${arg_TIMEOUT})
  if(arg_LABEL)
    list(APPEND properties LABELS "${arg_LABEL}")
  endif()
  if(arg_RUN_SERIAL)
    list(APPEND properties RUN_SERIAL TRUE)
  endif()
  gtest_discover_tests(${arg_NAME} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES ${properties})
endfunction()

# farcall_example(<folder> [SOURCES <.cpp>…, default main.cpp] [ARGS <argument>…])
#
# Builds examples/<folder> as the program example-<folder> and has ctest run it.
function(farcall_example folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;ARGS")
  farcall_refuse_leftovers(farcall_example)
  if(NOT arg_SOURCES)
    set(arg_SOURCES main.cpp)
  endif()
  list(TRANSFORM arg_SOURCES PREPEND "${folder}/")

  set(program example-${folder})
  add_executable(${program} ${arg_SOURCES})
  target_link_libraries(${program} PRIVATE farcall::farcall)
  add_dependencies(farcall_examples ${program})
  if(FARCALL_BUILD_TESTS)
    add_test(
      NAME example.${folder}
      COMMAND ${program} ${arg_ARGS}
      WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(example.${folder} PROPERTIES TIMEOUT 120 LABELS example)
  endif()
endfunction()

# farcall_benchmark(NAME <program> SOURCES <.cpp>… [LIBRARIES <target>…])
#
# A google-benchmark program. Never a test: a time that depends on the machine proves nothing.
function(farcall_benchmark)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;LIBRARIES")
  farcall_refuse_leftovers(farcall_benchmark)
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE farcall::farcall farcall_private_libraries
                                            benchmark::benchmark ${arg_LIBRARIES})
endfunction()

# farcall_fuzz(<name> SOURCES <.cpp>…)
#
# A libFuzzer program <name>_fuzz; its inputs are kept in fuzz/corpus/<name>/.
function(farcall_fuzz name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES")
  farcall_refuse_leftovers(farcall_fuzz)
  add_executable(${name}_fuzz ${arg_SOURCES})
  target_link_libraries(${name}_fuzz PRIVATE farcall::farcall farcall_private_libraries)
  target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
endfunction()

# A misspelt keyword must not pass silently.
macro(farcall_refuse_leftovers function)
  if(arg_UNPARSED_ARGUMENTS OR arg_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "${function}: not understood '${arg_UNPARSED_ARGUMENTS}', "
                        "without value '${arg_KEYWORDS_MISSING_VALUES}' "
                        "(see its comment in cmake/)")
  endif()
endmacro()
