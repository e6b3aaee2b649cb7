// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/text.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/job/passed_pipes.hpp>
#include <farcall/transport/process.hpp>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

namespace farcall {

std::string text_of_pipe(int pipe) {
  struct stat status{};
  if (::fstat(pipe, &status) != 0) throw_system_error("looking at a pipe", errno);
  return std::to_string(pipe) + ":" + std::to_string(status.st_ino);
}

int pipe_named(const std::string& text, const char* variable) {
  constexpr std::uint64_t most = ~std::uint64_t{0};
  const std::vector<std::string> numbers = split(text, ':');
  if (numbers.size() != 2) {
    throw setting_error(std::string(variable) +
                        " names no pipe; only 'farcall run' sets this variable: unset it");
  }
  const auto pipe = static_cast<int>(parse_number(numbers[0], variable, 0, 1'000'000));
  const std::uint64_t inode = parse_number(numbers[1], variable, 0, most);
  struct stat status{};
  const bool is_it =
      ::fstat(pipe, &status) == 0 && S_ISFIFO(status.st_mode) && status.st_ino == inode;
  return is_it ? pipe : -1;
}

void send_job_notice() {
  const auto named = environment(job_notice_variable);
  if (!named) return;
  ::unsetenv(job_notice_variable);
  const unique_fd pipe(pipe_named(*named, job_notice_variable));
  // The command has ended if it does not read the pipe, and the notice then has no receiver.
  if (pipe) [[maybe_unused]]
    const auto written = ::write(pipe.get(), "j", 1);
}

} // namespace farcall
