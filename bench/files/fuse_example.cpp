// SPDX-License-Identifier: Apache-2.0
#include "fuse_example.hpp"

#include "file_work.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace farcall::tool {

fuse_example::fuse_example(const std::string& program, const std::string& folder)
    : place_(folder + "-libfuse-XXXXXX") {
  if (::mkdtemp(place_.data()) == nullptr)
    throw failed_run(fmt::format("cannot make a folder like {}: {}", place_, reason_text(errno)));
  process_.emplace(
      [&]() -> int {
        // If the benchmark ends early, the program unmounts.
        (void)::prctl(PR_SET_PDEATHSIG, SIGTERM);
        become_program({program, "-f", "-o", "source=" + folder, place_}, -1, -1);
      },
      forked_process::group::own);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!is_fuse_mount(place_)) {
    if (process_->alive() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      continue;
    }
    const std::string fate = process_->fate();
    remove();
    throw failed_run(fmt::format("--fuse-example: {} has mounted nothing at {} ({})", program,
                                 place_, fate.empty() ? "it still runs" : fate));
  }
}

fuse_example::~fuse_example() { remove(); }

void fuse_example::remove() noexcept {
  (void)::umount2(place_.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
  process_.reset();
  (void)::rmdir(place_.c_str());
}

} // namespace farcall::tool
