// The tests of GPUs, and their main(), on the fake.
#include <tests/cuda/gpu_test.cu>
