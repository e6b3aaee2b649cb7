# CMake before 3.25.2 does not know how nvcc is told the standard.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()

# farcall_cuda_target(<program>…)
#
# Makes a program call GPUs: its .cu files may name functions for devices (fc::device_fn<f> and the
# like), and targets such as cuda:0 work in it. CUDA must be one of the project's languages.
function(farcall_cuda_target)
  if(NOT CMAKE_CUDA_COMPILER)
    # CMake would leave out files that it has no compiler for, and say nothing.
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
    # As above, where farcall's sources are a folder of the project that calls this.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20" PARENT_SCOPE)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20" PARENT_SCOPE)
  endif()
  foreach(program IN LISTS ARGN)
    target_link_libraries(${program} PRIVATE farcall::farcall_cuda)
    # Device code of several files calls each other: one device link for all of it.
    set_target_properties(${program} PROPERTIES CUDA_SEPARABLE_COMPILATION ON
                                                CUDA_RESOLVE_DEVICE_SYMBOLS ON
                                                CUDA_STANDARD 20
                                                CUDA_STANDARD_REQUIRED ON)
  endforeach()
endfunction()
