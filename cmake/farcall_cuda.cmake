# farcall_cuda: what a program with code for GPUs links besides farcall. Absent where CUDA's compiler
# is; emulated devices need nothing of this.

set(FARCALL_WITH_CUDA AUTO CACHE STRING "Build for GPUs: ON, OFF, or AUTO for when nvcc is found")
set_property(CACHE FARCALL_WITH_CUDA PROPERTY STRINGS AUTO ON OFF)

set(has_cuda OFF)
if(CMAKE_CROSSCOMPILING OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # nvcc of the host, and its host compiler, would build for another machine or library.
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

include(cmake/farcall_cuda_target.cmake)
if(has_cuda)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  get_property(gpu_sources GLOBAL PROPERTY FARCALL_GPU_SOURCES)
  add_library(farcall_cuda STATIC ${gpu_sources})
  add_library(farcall::farcall_cuda ALIAS farcall_cuda)
  set_target_properties(farcall_cuda PROPERTIES CUDA_SEPARABLE_COMPILATION ON
                                                POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(farcall_cuda PUBLIC farcall CUDA::cudart_static)
  # The library's constexpr functions run on devices as they are. A function without code for devices
  # must not be called there; by itself the compiler only warns.
  target_compile_options(
    farcall_cuda
    INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-Werror=cross-execution-space-call>"
    PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>")
endif()
