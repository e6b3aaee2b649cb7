// SPDX-License-Identifier: Apache-2.0
#include "server_process.hpp"

#include <tools/common/forked_process.hpp>
#include <tools/common/outcome.hpp>
#include <tools/common/pinning.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/base/unique_fd.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

constexpr std::chrono::seconds max_start{10};
constexpr std::chrono::seconds max_end{5};

/// Reads the first line without its newline; empty if the stream ends early.
std::string read_line(int fd, std::chrono::steady_clock::time_point deadline) {
  std::string line;
  while (std::chrono::steady_clock::now() < deadline) {
    pollfd waiting{fd, POLLIN, 0};
    if (poll(&waiting, 1, 100) <= 0) continue;
    char c = 0;
    if (read(fd, &c, 1) != 1) return {};
    if (c == '\n') return line;
    line += c;
  }
  return {};
}

/// Clears the environment's key settings, which are meant for other servers.
void forget_keys_of_environment() {
  using settings::row;
  for (const setting* s : {&row("key"), &row("certificate"), &row("certificate-key"),
                           &row("authority"), &row("server-key")})
    unsetenv(settings::variable_of(*s).c_str());
}

} // namespace

server_process::server_process(const server_choices& choices) : key_file_(choices.key_of_other) {
  forget_keys_of_environment();
  if (choices.encrypted && key_file_.empty()) key_file_ = key_.emplace().path();
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw failed_run(fmt::format("cannot create a pipe: {}", reason_text(errno)));
  const unique_fd from{ends[0]};
  unique_fd to{ends[1]};
  const std::string served = choices.served.empty() ? program : choices.served;
  const bool is_direct = choices.started_by.empty();
  std::vector<std::string> words{program, "--farcall-serve=127.0.0.1:0",
                                 "--farcall-program=" + (is_direct ? served : choices.started_by),
                                 choices.encrypted ? "--farcall-key=" + key_file()
                                                   : "--farcall-plain=yes"};
  if (!is_direct) words.push_back(served);
  process_ = std::make_unique<forked_process>([&]() -> int {
    if (choices.cpu) pin_this_thread(*choices.cpu);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    become_program(words, -1, to.get());
  });
  to.reset();
  const std::string line = read_line(from.get(), std::chrono::steady_clock::now() + max_start);
  url_ = url_of_announcement(line);
  if (url_.empty()) throw failed_run("the server of this benchmark did not start");
}

server_process::~server_process() {
  if (process_->alive()) kill(process_->pid(), SIGTERM);
  (void)process_->wait_until(std::chrono::steady_clock::now() + max_end);
}

std::string url_of_announcement(std::string_view line) {
  const std::size_t begin = line.find("tcp://");
  if (begin == std::string_view::npos) return {};
  return std::string{line.substr(begin, line.find_first_of(", \n", begin) - begin)};
}

} // namespace farcall::tool
