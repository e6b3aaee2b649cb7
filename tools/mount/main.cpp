// SPDX-License-Identifier: Apache-2.0
#include "helper.hpp"
#include "mount_point.hpp"
#include "passthrough.hpp"

#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/files/io_socket.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

/// farcall-mount: starts a target in a mount namespace of its own, with a helper that mounts files
/// of the host there. The helper's README has the details.
namespace farcall::mount {
namespace {

constexpr const char* usage =
    "usage: farcall-mount program [its arguments ...]\n"
    "       farcall-mount --check\n"
    "Starts a target whose host's files are mounted for it. With --check, "
    "only says if this machine allows that, and which additions it offers.\n";

/// Checks that this machine allows mounts. Returns the additions that it offers. Throws error.
additions check() {
  enter_own_namespace();
  const unique_fd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!device) throw error("/dev/fuse cannot be opened: " + reason_text(errno));
  const std::string options = "fd=" + std::to_string(device.get()) +
                              ",rootmode=40000,user_id=" + std::to_string(::geteuid()) +
                              ",group_id=" + std::to_string(::getegid());
  if (::mount("farcall", "/", "fuse.farcall", MS_NOSUID | MS_NODEV, options.c_str()) != 0)
    throw error("the system allows no mount by FUSE: " + reason_text(errno));
  return additions_of(device.get());
}

/// Returns the value of FARCALL_IO_MOUNT for the target: a descriptor, or the reason why there is
/// no helper.
std::string helper_or_reason() {
  try {
    const unique_fd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    if (!device) throw error("/dev/fuse cannot be opened: " + reason_text(errno));
    enter_own_namespace();
    return std::to_string(start_helper().release());
  } catch (const std::exception& e) {
    return e.what();
  }
}

int run(char** words) {
  if (::setenv(FARCALL_IO_MOUNT, helper_or_reason().c_str(), 1) == 0) ::execvp(words[0], words);
  const int why = errno;
  std::fprintf(stderr, "farcall-mount: %s cannot be executed: %s\n", words[0],
               reason_text(why).c_str());
  return why == ENOENT ? 127 : 126;
}

int run_check() {
  try {
    const additions found = check();
    std::printf(FARCALL_IO_NO_PASSTHROUGH "%s\n" FARCALL_IO_RING "%s\n",
                found.why_no_passthrough.c_str(), found.has_ring ? "yes" : "no");
    return 0;
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
    return 1;
  }
}

} // namespace
} // namespace farcall::mount

int main(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "--check") return farcall::mount::run_check();
  if (first.empty() || first.starts_with("-")) {
    std::fputs(farcall::mount::usage, first == "--help" ? stdout : stderr);
    return first == "--help" ? 0 : 2;
  }
  return farcall::mount::run(argv + 1);
}
