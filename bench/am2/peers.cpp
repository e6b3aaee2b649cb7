// SPDX-License-Identifier: Apache-2.0
#include "peers.hpp"

#include <bench/runner/session.hpp>
#include <tools/common/forked_process.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/settings_table.hpp>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

constexpr std::chrono::seconds max_end{5};

/// Returns the path of farcall-bench-am2, which is in the folder of this program.
std::string program_path() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::string program = self.parent_path() / "farcall-bench-am2";
  if (::access(program.c_str(), X_OK) != 0) {
    throw failed_run(fmt::format("there is no {}, the program of two processes; build it: cmake "
                                 "--build <folder> --target farcall_bench",
                                 program));
  }
  return program;
}

void set_variable(const setting& which, const std::string& value) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the child has one thread
  setenv(settings::variable_of(which).c_str(), value.c_str(), 1);
}

/// Turns the child into process 0.
[[noreturn]] void become_host(const std::string& program, const std::string& targets,
                              core_pair cores, int stream) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  pin_this_thread(cores.host);
  set_variable(settings::row("targets"), targets);
  set_variable(settings::row("spmd"), "yes");
  become_program({program}, stream, stream);
}

} // namespace

am2_peers::am2_peers(link_kind kind, core_pair cores) {
  const std::string program = program_path();
  std::string targets = shm_target_on(cores.target);
  if (kind == link_kind::tcp) {
    server_ =
        std::make_unique<server_process>(server_choices{.cpu = cores.target, .served = program});
    targets = server_->url();
  }
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw failed_run(fmt::format("cannot create a socket: {}", reason_text(errno)));
  stream_ = unique_fd(ends[0]);
  const unique_fd theirs(ends[1]);
  process_ = std::make_unique<forked_process>(
      [&]() -> int { become_host(program, targets, cores, theirs.get()); });
  std::istringstream numbers(read_line());
  numbers >> pids_[0] >> pids_[1];
}

am2_peers::~am2_peers() {
  // The program ends with its standard input.
  stream_.reset();
  (void)process_->wait_until(std::chrono::steady_clock::now() + max_end);
}

std::string am2_peers::read_line() {
  for (;;) {
    if (const std::size_t end = received_.find('\n'); end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    std::array<char, 4096> some{};
    const ssize_t n = read(stream_.get(), some.data(), some.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw failed_run("the program of two processes has ended");
    received_.append(some.data(), static_cast<std::size_t>(n));
  }
}

std::vector<double> am2_peers::measure(std::string_view what, std::size_t bytes,
                                       std::size_t batches, std::size_t operations) {
  const std::string command = fmt::format("{} {} {} {}\n", what, bytes, batches, operations);
  if (send(stream_.get(), command.data(), command.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(command.size()))
    throw failed_run("the program of two processes has ended");
  const std::string line = read_line();
  std::vector<double> samples;
  const char* at = line.data();
  const char* const end = at + line.size();
  for (double value = 0; at != end; ++at) {
    const auto [stop, error] = std::from_chars(at, end, value);
    if (error != std::errc{}) break;
    samples.push_back(value);
    at = stop;
  }
  if (samples.size() != batches)
    throw failed_run(fmt::format("the program of two processes gave {} figures instead of {}",
                                 samples.size(), batches));
  return samples;
}

void am2_peers::wait_until_idle() const {
  for (const int pid : pids_)
    tool::wait_until_idle(pid);
}

} // namespace farcall::tool
