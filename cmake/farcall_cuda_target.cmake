# SPDX-License-Identifier: Apache-2.0

# CMake before 3.25.2 does not know nvcc's option for the C++ standard.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()

# farcall_cuda_target(<program>…)
#
# Lets a program call GPUs: its .cu files may name functions for devices (fc::device_fn<f> and
# similar), and targets such as cuda:0 work. CUDA must be one of the project's languages.
function(farcall_cuda_target)
  if(NOT CMAKE_CUDA_COMPILER)
    # Without the language CMake would silently leave out .cu files.
    message(FATAL_ERROR "farcall_cuda_target: CUDA is not one of this project's languages, so its .cu files "
                        "would be left out; say project(... LANGUAGES CXX CUDA)")
  endif()
  if(NOT ARGN)
    message(FATAL_ERROR "farcall_cuda_target: which program?")
  endif()
  if(NOT TARGET farcall::farcall_cuda)
    message(FATAL_ERROR "farcall_cuda_target: this farcall was built without CUDA; configure it where "
                        "nvcc is found, or with -DFARCALL_WITH_CUDA=ON to see why it is not")
  endif()
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    # Set for the calling project, if farcall's sources are a subfolder of it.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20" PARENT_SCOPE)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20" PARENT_SCOPE)
  endif()
  foreach(program IN LISTS ARGN)
    target_link_libraries(${program} PRIVATE farcall::farcall_cuda)
    # Device code calls across files: link it as one.
    set_target_properties(${program} PROPERTIES CUDA_SEPARABLE_COMPILATION ON
                                                CUDA_RESOLVE_DEVICE_SYMBOLS ON
                                                CUDA_STANDARD 20
                                                CUDA_STANDARD_REQUIRED ON)
  endforeach()
endfunction()
