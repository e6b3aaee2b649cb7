// SPDX-License-Identifier: Apache-2.0
#include <farcall/offload/other_variables.hpp>

namespace farcall {

std::span<const std::string_view> other_variables() noexcept {
  static constexpr std::string_view variables[] = {
      // Variables that a host or a server sets for the targets that it starts.
      "FARCALL_BOOTSTRAP", "FARCALL_SERVER_ADDRESSES",
      // Variables that the farcall command reads, or sets for the programs that it starts.
      "FARCALL_SSH", "FARCALL_LINES", "FARCALL_JOB_NOTICE",
      // Variables of the library that targets preload.
      "FARCALL_IO_MOUNT", "FARCALL_IO_REPORT", "FARCALL_IO_SOCKET",
      // Variables of the Python package, and of OpenMP programs.
      "FARCALL_PYTHON_TRACEBACK", "FARCALL_OPENMP_RESTART",
      // Variables of programs for the Vector Engine, and of the compilers and tools for their
      // kernels.
      "FARCALL_VEO_NODES", "FARCALL_VEO_ORDER", "FARCALL_VEO_ERRORS", "FARCALL_VEO_DEVICES",
      "FARCALL_VEO_LIBDIR", "FARCALL_VHCALL", "FARCALL_AVEORUN_ARCHIVE", "FARCALL_CC",
      "FARCALL_CXX", "FARCALL_FC", "FARCALL_AR", "FARCALL_NM", "FARCALL_RANLIB",
      // Variables of this project's own tests.
      "FARCALL_TEST_*", "FARCALL_CROSS", "FARCALL_CUDA_TOOLS", "FARCALL_FUZZ_SECONDS",
      "FARCALL_LAW_TRACED"};
  return variables;
}

} // namespace farcall
