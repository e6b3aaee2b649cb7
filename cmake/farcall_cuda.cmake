# SPDX-License-Identifier: Apache-2.0

# farcall_cuda: the library that programs with code for GPUs link in addition to farcall. Exists
# only with CUDA's compiler; emulated devices do not need it.

set(FARCALL_WITH_CUDA ${if_found} CACHE STRING "Build for GPUs: ON, OFF, or AUTO for when nvcc is found")
set_property(CACHE FARCALL_WITH_CUDA PROPERTY STRINGS AUTO ON OFF)

set(has_cuda OFF)
if(CMAKE_CROSSCOMPILING OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # The host's nvcc, with its host compiler, would build for another machine or library.
  if(FARCALL_WITH_CUDA STREQUAL "ON")
    message(FATAL_ERROR "FARCALL_WITH_CUDA needs g++ for this machine")
  endif()
elseif(FARCALL_WITH_CUDA)
  find_program(FARCALL_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES bin)
  if(FARCALL_NVCC)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES "80;90")
    endif()
    set(CMAKE_CUDA_COMPILER "${FARCALL_NVCC}")
    set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(has_cuda ON)
  elseif(FARCALL_WITH_CUDA STREQUAL "ON")
    message(FATAL_ERROR "FARCALL_WITH_CUDA is ON, but nvcc was not found; put it into PATH, or set "
                        "CUDACXX to it")
  else()
    message(STATUS "farcall: no nvcc found, so without code for GPUs")
  endif()
endif()

# farcall_for_one_gpu(<program>…)
#
# Compiles programs that are not installed for one kind of GPU, which halves nvcc's time;
# FARCALL_CUDA_TEST_ARCHITECTURES may name others.
function(farcall_for_one_gpu)
  set_target_properties(${ARGN} PROPERTIES CUDA_ARCHITECTURES "${FARCALL_CUDA_TEST_ARCHITECTURES}")
endfunction()

# This machine's kind, if the library is built for it; without a GPU the newest.
function(farcall_find_test_architecture result)
  list(GET CMAKE_CUDA_ARCHITECTURES -1 kind)
  find_program(FARCALL_NVIDIA_SMI nvidia-smi)
  mark_as_advanced(FARCALL_NVIDIA_SMI)
  if(FARCALL_NVIDIA_SMI)
    execute_process(COMMAND "${FARCALL_NVIDIA_SMI}" --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE found ERROR_QUIET TIMEOUT 30)
    string(REGEX MATCH "^[0-9]+\\.[0-9]+" found "${found}")
    string(REPLACE "." "" found "${found}")
    if(found IN_LIST CMAKE_CUDA_ARCHITECTURES)
      set(kind "${found}")
    endif()
  endif()
  set(${result} "${kind}" PARENT_SCOPE)
endfunction()

include(cmake/farcall_cuda_target.cmake)
if(has_cuda)
  if(NOT FARCALL_CUDA_TEST_ARCHITECTURES)
    farcall_find_test_architecture(FARCALL_CUDA_TEST_ARCHITECTURES)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  get_property(gpu_sources GLOBAL PROPERTY FARCALL_GPU_SOURCES)
  add_library(farcall_cuda STATIC ${gpu_sources})
  add_library(farcall::farcall_cuda ALIAS farcall_cuda)
  set_target_properties(farcall_cuda PROPERTIES CUDA_SEPARABLE_COMPILATION ON
                                                POSITION_INDEPENDENT_CODE ON)
  # Functions are found by their addresses, which exist only if a part of the program's code is not
  # optimised at link time: here, the workers.
  foreach(config IN LISTS CMAKE_CONFIGURATION_TYPES CMAKE_BUILD_TYPE)
    string(TOUPPER "_${config}" config)
    set_target_properties(farcall_cuda PROPERTIES INTERPROCEDURAL_OPTIMIZATION${config} OFF)
  endforeach()
  set_target_properties(farcall_cuda PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)
  if("${CMAKE_CUDA_FLAGS}" MATCHES "-dlto|--dlink-time-opt|[[=,]lto_[0-9]+")
    message(FATAL_ERROR "farcall: nvcc's options ask for optimisation at link time, with which "
                        "functions have no addresses on GPUs. Leave out ${CMAKE_MATCH_0}; "
                        "INTERPROCEDURAL_OPTIMIZATION does it for the other targets")
  endif()
  target_link_libraries(farcall_cuda PUBLIC farcall::farcall CUDA::cudart_static)
  # The library's constexpr functions run on devices unchanged. Calls of functions without device
  # code are errors; the compiler's default is a warning.
  target_compile_options(
    farcall_cuda
    INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-Werror=cross-execution-space-call>"
    PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>")
endif()
