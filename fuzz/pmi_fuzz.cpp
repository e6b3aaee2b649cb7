// SPDX-License-Identifier: Apache-2.0

// Speaks PMI to a process manager that sends arbitrary bytes to any request, and closes: gives a
// value or an error, without waiting.

#include <farcall/base/error.hpp>
#include <farcall/job/pmi_manager.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <sys/socket.h>

namespace fc = farcall;

namespace {

void send_all(const fc::unique_fd& to, std::string_view bytes) {
  // The socket's buffer holds all of it.
  if (::send(to.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) < 0 && !bytes.empty())
    std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 8192) return 0;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  fc::unique_fd ours(ends[0]);
  const fc::unique_fd theirs(ends[1]);
  // Half of the inputs pass the handshake.
  if (data[0] % 2 != 0) {
    send_all(theirs, "cmd=response_to_init rc=0\ncmd=maxes keylen_max=64 vallen_max=1024\n"
                     "cmd=my_kvsname kvsname=k\n");
  }
  send_all(theirs, {reinterpret_cast<const char*>(data) + 1, size - 1});
  ::shutdown(theirs.get(), SHUT_WR);
  const auto deadline = fc::deadline_after(std::chrono::seconds(5));
  try {
    fc::pmi_manager manager(
        std::move(ours), 0, 2, deadline, +[]() noexcept { return fc::mpi_state::absent; });
    for (;;)
      (void)manager.get(1, "key", deadline);
  } catch (const fc::timeout&) {
    std::abort();
  } catch (const fc::error&) {
  }
  return 0;
}
