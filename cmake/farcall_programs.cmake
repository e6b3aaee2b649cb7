# SPDX-License-Identifier: Apache-2.0

# Programs around the library. Paths are relative to the calling folder, or absolute.

# Optimisation levels: farcall_test_level for most tests, farcall_full_level for OPTIMIZED ones. With
# sanitizers, tests are not optimised, since that took half of their compile time.
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
  set(farcall_test_level "$<$<COMPILE_LANGUAGE:CXX>:-O0>")
  set(farcall_full_level "${farcall_test_level}")
else()
  set(farcall_test_level "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-Og>")
  set(farcall_full_level "$<$<CONFIG:Release>:-O2>")
endif()

# farcall_keep_paths()
#
# Lets debug information of programs in the calling folder, which are not installed, contain the paths of their
# sources, so that debuggers need no settings. __FILE__ begins at the root of the sources as in the library.
function(farcall_keep_paths)
  get_directory_property(options COMPILE_OPTIONS)
  list(TRANSFORM options REPLACE "-ffile-prefix-map=" "-fmacro-prefix-map=")
  set_directory_properties(PROPERTIES COMPILE_OPTIONS "${options}")
endfunction()

# farcall_test_program(NAME <program> SOURCES <.cpp>…
#                      [LABEL <label>] [LIBRARIES <target>…] [TIMEOUT <seconds, default 120>]
#                      [PREFIX <text before the tests' names>] [RUN_SERIAL] [ONE_AT_A_TIME]
#                      [COST <seconds that the longest test takes>] [SANITIZER <address|thread>]
#                      [OWN_MAIN] [OPTIMIZED] [LAYER <layer>]
#                      [FIXTURE <ctest fixture that the tests require>])
#
# A GoogleTest program. Each of its tests becomes a ctest test, found when ctest runs, so that
# cross-built and sanitized programs need not run during the build. The main() comes from
# tests/test_main.cpp unless OWN_MAIN is given. One label only: gtest_discover_tests cannot pass a
# list on.
#
# LABEL no-sanitizer  Leaves the program out of all sanitized builds.
# SANITIZER           Leaves the program out of builds with another sanitizer; without it, both run it.
# RUN_SERIAL          Runs the tests beside no other test.
# ONE_AT_A_TIME       Runs the tests beside other programs' tests, but not beside each other.
# COST                Lets ctest start long tests first, so that no long test is left for the end.
# OPTIMIZED           Compiles at the level of the build, not at -Og (two fifths faster): for inline code
#                     without locks.
# LAYER               With FARCALL_LAYER_LIBRARIES, links farcall_up_to_<layer>, not the whole library.
#
# With FARCALL_UNITY_BUILD, sources are compiled together, so each has a namespace that is named like the
# file.
function(farcall_test_program)
  cmake_parse_arguments(PARSE_ARGV 0 arg "RUN_SERIAL;ONE_AT_A_TIME;OWN_MAIN;OPTIMIZED"
                        "NAME;LABEL;TIMEOUT;PREFIX;COST;SANITIZER;LAYER;FIXTURE" "SOURCES;LIBRARIES")
  farcall_refuse_leftovers(farcall_test_program)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()

  add_executable(${arg_NAME} ${arg_SOURCES})
  set(library farcall::farcall)
  set(main farcall_test_main)
  if(arg_LAYER AND FARCALL_LAYER_LIBRARIES)
    set(library farcall_up_to_${arg_LAYER})
    set(main farcall_layer_test_main)
  endif()
  target_link_libraries(${arg_NAME} PRIVATE ${library} farcall_private_libraries GTest::gmock
                                            ${arg_LIBRARIES})
  target_include_directories(${arg_NAME} PRIVATE "${PROJECT_SOURCE_DIR}")
  if(NOT arg_OWN_MAIN)
    target_link_libraries(${arg_NAME} PRIVATE ${main})
  endif()
  target_precompile_headers(${arg_NAME} REUSE_FROM farcall_test_main)

  set_target_properties(${arg_NAME} PROPERTIES UNITY_BUILD ${FARCALL_UNITY_BUILD})

  if(arg_OPTIMIZED)
    target_compile_options(${arg_NAME} PRIVATE ${farcall_full_level})
  else()
    target_compile_options(${arg_NAME} PRIVATE ${farcall_test_level})
  endif()

  set(runs ON)
  if(arg_SANITIZER)
    farcall_runs_tests_of(${arg_SANITIZER} runs)
  elseif(arg_LABEL STREQUAL no-sanitizer AND CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
    set(runs OFF)
  endif()
  if(NOT runs)
    set_target_properties(${arg_NAME} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  set(properties TIMEOUT ${arg_TIMEOUT})
  if(arg_LABEL)
    list(APPEND properties LABELS "${arg_LABEL}")
  endif()
  if(arg_FIXTURE)
    list(APPEND properties FIXTURES_REQUIRED ${arg_FIXTURE})
  endif()
  if(arg_RUN_SERIAL)
    list(APPEND properties RUN_SERIAL TRUE)
  endif()
  if(arg_COST)
    list(APPEND properties COST ${arg_COST})
  endif()
  if(arg_ONE_AT_A_TIME)
    # Start these tests first: at the end they would keep a single processor busy for long.
    list(APPEND properties RESOURCE_LOCK ${arg_NAME} COST 1000)
  endif()
  farcall_discover_tests(${arg_NAME} "${arg_PREFIX}" ${properties})
endfunction()

# farcall_discover_tests(<program> <text before the tests' names> [<property> <value>…])
#
# Makes each GoogleTest test of a program a ctest test with these properties. Writes the names of its
# sources to test_programs/<program>.txt in the build folder, for tests/selection/targets_of_tests.py.
function(farcall_discover_tests program prefix)
  gtest_discover_tests(${program} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       TEST_PREFIX "${prefix}" PROPERTIES ${ARGN})
  file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/test_programs/${program}.txt"
       CONTENT "${prefix}\n${CMAKE_CURRENT_SOURCE_DIR}\n$<JOIN:$<TARGET_PROPERTY:${program},SOURCES>,\n>\n")
endfunction()

# farcall_test_needs(<test>... TARGETS <target>...)
#
# Names files of the build that tests use, but that are not in their commands, such as programs that a program in the
# command looks for beside itself. `./run test -R` builds these files for the tests, and ctest reports missing ones. The
# targets may be added later. Targets that this configuration lacks are left out.
function(farcall_test_needs)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "TARGETS")
  foreach(target IN LISTS arg_TARGETS)
    set_property(
      TEST ${arg_UNPARSED_ARGUMENTS}
      APPEND
      PROPERTY REQUIRED_FILES "$<$<TARGET_EXISTS:${target}>:$<TARGET_FILE:${target}>>")
  endforeach()
endfunction()

# farcall_example(<folder> [SOURCES <.cpp>…, default main.cpp] [CUDA <.cpp>…] [PARTS <.cpp>…]
#                 [ARGS <argument>…])
#
# Builds examples/<folder> as the program example-<folder> and lets ctest run it. Sources named
# after CUDA have code for devices: if CUDA's compiler exists, they are also compiled by it, for a
# second program, example-<folder>-cuda. PARTS are compiled once, into the library
# example-<folder>-parts, for both programs and for tests.
function(farcall_example folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;CUDA;PARTS;ARGS")
  farcall_refuse_leftovers(farcall_example)
  if(NOT arg_SOURCES)
    set(arg_SOURCES main.cpp)
  endif()

  set(program example-${folder})
  set(parts "")
  if(arg_PARTS)
    set(parts ${program}-parts)
    list(TRANSFORM arg_PARTS PREPEND "${folder}/")
    add_library(${parts} STATIC ${arg_PARTS})
    target_link_libraries(${parts} PUBLIC farcall::farcall)
  endif()
  list(TRANSFORM arg_SOURCES PREPEND "${folder}/" OUTPUT_VARIABLE sources)
  add_executable(${program} ${sources})
  target_link_libraries(${program} PRIVATE farcall::farcall ${parts})
  add_dependencies(farcall_examples ${program})
  farcall_example_run(${folder} ARGS ${arg_ARGS})

  if(arg_CUDA AND TARGET farcall_cuda)
    list(REMOVE_ITEM arg_SOURCES ${arg_CUDA})
    list(TRANSFORM arg_SOURCES PREPEND "${folder}/" OUTPUT_VARIABLE sources)
    foreach(source IN LISTS arg_CUDA)
      # A source has one language for all programs of a folder, so this program gets copies.
      cmake_path(REPLACE_EXTENSION source cu OUTPUT_VARIABLE unit)
      cmake_path(ABSOLUTE_PATH unit BASE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/${folder}")
      file(CONFIGURE OUTPUT "${unit}"
           CONTENT "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${folder}/${source}\"\n" @ONLY)
      list(APPEND sources "${unit}")
    endforeach()
    add_executable(${program}-cuda ${sources})
    target_link_libraries(${program}-cuda PRIVATE farcall::farcall ${parts})
    farcall_cuda_target(${program}-cuda)
    farcall_for_one_gpu(${program}-cuda)
    add_dependencies(farcall_examples ${program}-cuda)
  endif()
endfunction()

# farcall_example_run(<folder> [NAME <text>] [PROGRAM <program>] [ARGS <argument>…])
#
# Lets ctest run an example's program, example-<folder> by default, as example.<folder>, or
# example.<folder>.<text>. Exit status 77 means that something the example needs is missing.
function(farcall_example_run folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "NAME;PROGRAM" "ARGS")
  if(NOT FARCALL_BUILD_TESTS)
    return()
  endif()
  set(name example.${folder})
  if(arg_NAME)
    string(APPEND name ".${arg_NAME}")
  endif()
  if(NOT arg_PROGRAM)
    set(arg_PROGRAM example-${folder})
  endif()
  add_test(
    NAME ${name}
    COMMAND ${arg_PROGRAM} ${arg_ARGS}
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties(${name} PROPERTIES TIMEOUT 120 LABELS example SKIP_RETURN_CODE 77)
endfunction()

# farcall_benchmark(NAME <program> SOURCES <.cpp>… [LIBRARIES <target>…])
#
# Builds a google-benchmark program. Never a test: a time that depends on the machine proves
# nothing.
function(farcall_benchmark)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;LIBRARIES")
  farcall_refuse_leftovers(farcall_benchmark)
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE farcall::farcall farcall_private_libraries
                                            benchmark::benchmark ${arg_LIBRARIES})
endfunction()

# farcall_fuzz(<name> SOURCES <.cpp>…)
#
# Builds the libFuzzer program <name>_fuzz; its inputs are in fuzz/corpus/<name>/.
function(farcall_fuzz name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES")
  farcall_refuse_leftovers(farcall_fuzz)
  add_executable(${name}_fuzz ${arg_SOURCES})
  target_link_libraries(${name}_fuzz PRIVATE farcall::farcall farcall_private_libraries)
  # The presets fuzz and fuzz-fast compile the library with this option, too.
  target_compile_options(${name}_fuzz PRIVATE -fsanitize=fuzzer-no-link)
  # The fuzzer reads the counters of all linked code after every input.
  target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer -Wl,--gc-sections,-z,start-stop-gc)
endfunction()

# Reports misspelt keywords.
macro(farcall_refuse_leftovers function)
  if(arg_UNPARSED_ARGUMENTS OR arg_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "${function}: not understood '${arg_UNPARSED_ARGUMENTS}', "
                        "without value '${arg_KEYWORDS_MISSING_VALUES}' "
                        "(see its comment in cmake/)")
  endif()
endmacro()
