#include <farcall/offload/other_variables.hpp>

namespace farcall {

std::span<const std::string_view> other_variables() noexcept {
  static constexpr std::string_view variables[] = {
      // Set by a host for the targets that it starts, and by a server.
      "FARCALL_BOOTSTRAP", "FARCALL_SERVER_ADDRESSES",
      // The farcall command, and what it sets for the programs that it starts.
      "FARCALL_SSH", "FARCALL_LINES",
      // The library that targets preload.
      "FARCALL_IO_REPORT", "FARCALL_IO_SOCKET",
      // Programs of the Vector Engine, and the compilers and tools for their kernels.
      "FARCALL_VEO_NODES", "FARCALL_VEO_ORDER", "FARCALL_VEO_ERRORS", "FARCALL_VEO_DEVICES",
      "FARCALL_VEO_LIBDIR", "FARCALL_VHCALL", "FARCALL_AVEORUN_ARCHIVE", "FARCALL_CC",
      "FARCALL_CXX", "FARCALL_FC", "FARCALL_AR", "FARCALL_NM", "FARCALL_RANLIB",
      // This project's own tests.
      "FARCALL_TEST_*", "FARCALL_CROSS", "FARCALL_CUDA_TOOLS", "FARCALL_FUZZ_SECONDS",
      "FARCALL_LAW_TRACED"};
  return variables;
}

} // namespace farcall
