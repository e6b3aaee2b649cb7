# SPDX-License-Identifier: Apache-2.0

# farcall-bench, which `farcall bench` starts, the helper of its MPI comparison, and the tests of
# its parts.

# All code except main(), so that tests can link it.
add_library(
  farcall_bench_parts STATIC
  attacks/attacker.cpp
  attacks/attacks.cpp
  bandwidth/bandwidth.cpp
  bandwidth/connection.cpp
  bandwidth/content.cpp
  bandwidth/kernels.cpp
  bandwidth/published.cpp
  bandwidth/target_block.cpp
  bandwidth/bare_processes.cpp
  bandwidth/unregistered.cpp
  collectives/collectives.cpp
  faults/faults.cpp
  files/figures.cpp
  files/file_work.cpp
  files/files.cpp
  files/file_peer.cpp
  files/fuse_example.cpp
  files/published.cpp
  floor/floor.cpp
  load/load.cpp
  mpi/mpi.cpp
  offload/device.cpp
  offload/goals.cpp
  offload/offload.cpp
  offload/variants.cpp
  patterns/patterns.cpp
  report/copies.cpp
  report/model.cpp
  report/report_files.cpp
  report/report_json.cpp
  report/statistics.cpp
  rivals/helper_program.cpp
  rivals/mpi.cpp
  rivals/rivals.cpp
  rivals/sleeping_programs.cpp
  rivals/sockets.cpp
  rivals/ucx.cpp
  runner/comparison.cpp
  runner/floor.cpp
  runner/forwarder.cpp
  runner/functions.cpp
  runner/futex_peer.cpp
  runner/gpu_code.cpp
  runner/idle_threads.cpp
  runner/link.cpp
  runner/local_memory.cpp
  runner/loopback.cpp
  runner/loopback_peer.cpp
  runner/options.cpp
  runner/progress.cpp
  runner/ring_only.cpp
  runner/server_process.cpp
  runner/session.cpp
  runner/spin_barrier.cpp
  runner/ucx_floor.cpp
  scale/connection.cpp
  scale/growth.cpp
  scale/nodes.cpp
  scale/nodes_job.cpp
  scale/process_use.cpp
  scale/rates.cpp
  scale/scale.cpp
  start/start.cpp
  trace/trace.cpp
  ucx/bare_ucx.cpp
  ucx/program.cpp
  waking/program.cpp
  waking/sleeping_calls.cpp
  waking/wait_fd.cpp)
target_link_libraries(farcall_bench_parts PUBLIC farcall_tool_common ${CMAKE_DL_LIBS})
set_target_properties(farcall_bench_parts PROPERTIES UNITY_BUILD ${FARCALL_UNITY_BUILD})
# Excluded from unity builds: their local names clash with other files'.
set_source_files_properties(
  am2/am2.cpp am2/peers.cpp bandwidth/connection.cpp bandwidth/unregistered.cpp files/figures.cpp
  files/file_work.cpp files/file_peer.cpp files/files.cpp files/fuse_example.cpp files/published.cpp load/load.cpp
  mpi/mpi.cpp runner/futex_peer.cpp runner/loopback.cpp scale/connection.cpp scale/growth.cpp
  scale/nodes.cpp scale/nodes_job.cpp ucx/bare_ucx.cpp ucx/program.cpp veo/memory.cpp
  waking/program.cpp waking/sleeping_calls.cpp waking/wait_fd.cpp
  PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
# Compiling these two headers takes most of the time.
target_precompile_headers(farcall_bench_parts PRIVATE <farcall/farcall.hpp> <fmt/format.h>)

# The VEO interface, if this build has it.
if(TARGET farcall_veo_host)
  target_sources(farcall_bench_parts PRIVATE veo/helper.cpp veo/memory.cpp)
  target_compile_definitions(farcall_bench_parts PUBLIC FARCALL_TOOL_HAS_VEO=1)
  target_link_libraries(farcall_bench_parts PRIVATE farcall_veo_host)
endif()

# The AM-2 interface, if this build has it: measured by its own program, like any AM-2 program.
if(TARGET farcall_am2)
  target_sources(farcall_bench_parts PRIVATE am2/am2.cpp am2/peers.cpp)
  target_compile_definitions(farcall_bench_parts PUBLIC FARCALL_TOOL_HAS_AM2=1)
endif()

# UCX: only the headers are needed, since the library is loaded when it is measured.
find_path(FARCALL_UCX_INCLUDE_DIR ucp/api/ucp.h)
mark_as_advanced(FARCALL_UCX_INCLUDE_DIR)
if(FARCALL_UCX_INCLUDE_DIR)
  target_compile_definitions(farcall_bench_parts PRIVATE FARCALL_TOOL_HAS_UCX=1)
  target_include_directories(farcall_bench_parts SYSTEM PRIVATE "${FARCALL_UCX_INCLUDE_DIR}")
endif()

add_executable(farcall_bench main.cpp)
set_target_properties(farcall_bench PROPERTIES OUTPUT_NAME farcall-bench)
target_link_libraries(farcall_bench PRIVATE farcall_bench_parts)
# In the program only: the tests need no code for GPUs.
if(TARGET farcall_cuda)
  target_sources(farcall_bench PRIVATE runner/gpu_code.cu)
  target_link_libraries(farcall_bench PRIVATE farcall_gpu_rivals)
  farcall_cuda_target(farcall_bench)
endif()
if(TARGET farcall_am2)
  add_executable(farcall_bench_am2 am2/program.cpp)
  set_target_properties(farcall_bench_am2 PROPERTIES OUTPUT_NAME farcall-bench-am2)
  target_link_libraries(farcall_bench_am2 PRIVATE farcall_am2)
  add_dependencies(farcall_bench farcall_bench_am2)
  farcall_install_binary(farcall_bench_am2 "${CMAKE_INSTALL_BINDIR}" bench)
endif()
add_executable(farcall_bench_collectives collectives/program.cpp)
set_target_properties(farcall_bench_collectives PROPERTIES OUTPUT_NAME farcall-bench-collectives)
target_link_libraries(farcall_bench_collectives PRIVATE farcall::farcall)
add_dependencies(farcall_bench farcall_bench_collectives)
farcall_install_binary(farcall_bench_collectives "${CMAKE_INSTALL_BINDIR}" bench)
# The script beside farcall-bench that draws its charts.
cmake_path(SET charts "$<TARGET_FILE_DIR:farcall_bench>/farcall-bench-charts")
add_custom_command(
  TARGET farcall_bench
  POST_BUILD
  COMMAND "${CMAKE_COMMAND}" -E create_symlink "${CMAKE_CURRENT_SOURCE_DIR}/report/charts.py"
          "${charts}")
if(FARCALL_INSTALL)
  install(
    PROGRAMS report/charts.py
    DESTINATION "${CMAKE_INSTALL_BINDIR}"
    COMPONENT bench
    RENAME farcall-bench-charts)
endif()
add_dependencies(farcall_tools farcall_bench)
farcall_install_binary(farcall_bench "${CMAKE_INSTALL_BINDIR}" bench)

# MPI: a separate program beside farcall-bench, which therefore does not link MPI.
find_package(MPI COMPONENTS CXX QUIET)
if(MPI_CXX_FOUND)
  add_executable(farcall_rival_mpi rivals/mpi_program.cpp)
  set_target_properties(farcall_rival_mpi PROPERTIES OUTPUT_NAME farcall-rival-mpi)
  # Without MPI's C++ bindings, which were removed from the standard and would only add a library.
  target_compile_features(farcall_rival_mpi PRIVATE cxx_std_20)
  target_include_directories(farcall_rival_mpi PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(farcall_rival_mpi PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  target_link_libraries(farcall_rival_mpi PRIVATE MPI::MPI_CXX)
  add_dependencies(farcall_bench farcall_rival_mpi)
  farcall_install_binary(farcall_rival_mpi "${CMAKE_INSTALL_BINDIR}" bench)
  # Jobs over MPI, compared with MPI itself: processes of one mpirun.
  if(TARGET farcall_mpi)
    add_executable(farcall_bench_mpi mpi/program.cpp report/statistics.cpp)
    set_target_properties(farcall_bench_mpi PROPERTIES OUTPUT_NAME farcall-bench-mpi)
    target_link_libraries(farcall_bench_mpi PRIVATE farcall_tool_common MPI::MPI_CXX)
    # own_machine() in mpi/program.cpp replaces this function.
    target_link_options(farcall_bench_mpi PRIVATE -Wl,--wrap=_ZN7farcall16machine_identityB5cxx11Ev)
    add_dependencies(farcall_bench farcall_bench_mpi)
    add_dependencies(farcall_bench_mpi farcall_mpi)
  endif()
endif()

# ZeroMQ and gRPC: separate programs, too.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(FARCALL_ZEROMQ QUIET IMPORTED_TARGET libzmq)
  pkg_check_modules(FARCALL_GRPC QUIET IMPORTED_TARGET grpc++)
endif()
foreach(rival zeromq grpc)
  string(TOUPPER FARCALL_${rival} library)
  if(TARGET PkgConfig::${library})
    add_executable(farcall_rival_${rival} rivals/${rival}_program.cpp)
    set_target_properties(farcall_rival_${rival} PROPERTIES OUTPUT_NAME farcall-rival-${rival})
    target_link_libraries(farcall_rival_${rival} PRIVATE PkgConfig::${library})
    add_dependencies(farcall_bench farcall_rival_${rival})
  endif()
endforeach()

if(FARCALL_BUILD_TESTS)
  farcall_test_program(
    NAME farcall_bench_tests
    SOURCES bandwidth/content_test.cpp bandwidth/unregistered_test.cpp
            files/figures_test.cpp offload/goals_test.cpp
            report/model_test.cpp report/report_files_test.cpp report/statistics_test.cpp
            rivals/helper_program_test.cpp runner/comparison_test.cpp runner/floor_test.cpp runner/link_test.cpp
            runner/local_memory_test.cpp runner/loopback_peer_test.cpp runner/progress_test.cpp
            runner/ring_only_test.cpp runner/spin_barrier_test.cpp
    LIBRARIES farcall_bench_parts)
  target_compile_definitions(farcall_bench_tests
                             PRIVATE FARCALL_CHARTS="${CMAKE_CURRENT_SOURCE_DIR}/report/charts.py")
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME tool.bench_charts
           COMMAND Python3::Interpreter -B "${CMAKE_CURRENT_SOURCE_DIR}/report/charts_test.py")
  set_tests_properties(tool.bench_charts PROPERTIES TIMEOUT 60 LABELS no-sanitizer)
  add_test(NAME tool.bench_gpu
           COMMAND Python3::Interpreter -B "${CMAKE_CURRENT_SOURCE_DIR}/offload/gpu_test.py"
                   $<TARGET_FILE:farcall_command> $<TARGET_EXISTS:farcall_cuda>)
  add_test(NAME tool.bench_scale_prediction
           COMMAND Python3::Interpreter -B "${CMAKE_CURRENT_SOURCE_DIR}/scale/predict_test.py")
  set_tests_properties(tool.bench_scale_prediction PROPERTIES TIMEOUT 60 LABELS no-sanitizer)
  set_tests_properties(tool.bench_gpu PROPERTIES TIMEOUT 300 LABELS no-sanitizer)
  farcall_test_needs(tool.bench_gpu TARGETS farcall_bench)
endif()
