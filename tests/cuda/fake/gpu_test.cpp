// SPDX-License-Identifier: Apache-2.0

// Runs the tests of GPUs, with their main(), on the fake.
#include <tests/cuda/gpu_test.cu>
