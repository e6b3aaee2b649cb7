// SPDX-License-Identifier: Apache-2.0
#include "output_probe.hpp"

#include "outcome.hpp"

#include <farcall/base/error.hpp>

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace farcall::tool {

output_probe::output_probe(const char* option, const std::string& path)
    : path_(path),
      fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode_of_new_files)),
      is_new_(static_cast<bool>(fd_)) {
  // Open an existing file with O_NONBLOCK, because opening a pipe would otherwise wait until the
  // pipe has a reader.
  if (!is_new_ && errno == EEXIST)
    fd_ = unique_fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd_ || ::fstat(fd_.get(), &state_) != 0) {
    throw usage_problem(fmt::format("{} {}: it cannot be written: {}; name a file in a folder that "
                                    "you may write to",
                                    option, path, reason_text(errno)));
  }
  struct stat out{};
  if (S_ISREG(state_.st_mode) && ::fstat(STDOUT_FILENO, &out) == 0 && is_same(out)) {
    throw usage_problem(
        fmt::format("{} {}: standard output goes to the same file; name another", option, path));
  }
}

output_probe::~output_probe() {
  if (is_new_) ::unlink(path_.c_str());
}

unique_fd output_probe::kept() { return is_new_ ? unique_fd() : std::move(fd_); }

} // namespace farcall::tool
