#pragma once

#include <farcall/base/language.hpp>

/// Code that is compiled for processors and for GPUs. Without CUDA's compiler the words below mean
/// nothing, so that the same headers serve both.
#ifdef __CUDACC__
#define FARCALL_HOST_DEVICE __host__ __device__
#else
#define FARCALL_HOST_DEVICE
#endif

/// [[nodiscard]] of a class. CUDA's compiler would warn of every assignment to one.
#ifdef __CUDACC__
#define FARCALL_NODISCARD_CLASS
#else
#define FARCALL_NODISCARD_CLASS [[nodiscard]]
#endif

/// Defined where code for a GPU is being generated.
#ifdef __CUDA_ARCH__
#define FARCALL_ON_GPU 1
#endif
