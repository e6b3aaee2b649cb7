// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

/// Marks a function that is compiled for both CPUs and GPUs. Empty without CUDA's compiler, so that
/// the same headers serve both.
#ifdef __CUDACC__
#define FARCALL_HOST_DEVICE __host__ __device__
#else
#define FARCALL_HOST_DEVICE
#endif

/// The attribute [[nodiscard]] of a class. Empty for CUDA's compiler, which would warn of every
/// assignment to an object of the class.
#ifdef __CUDACC__
#define FARCALL_NODISCARD_CLASS
#else
#define FARCALL_NODISCARD_CLASS [[nodiscard]]
#endif

/// Defined while code for a GPU is being generated.
#ifdef __CUDA_ARCH__
#define FARCALL_ON_GPU 1
#endif
