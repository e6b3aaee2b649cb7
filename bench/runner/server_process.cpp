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

server_process::server_process(bool encrypted, std::optional<int> cpu, const std::string& served) {
  forget_keys_of_environment();
  if (encrypted) key_.emplace();
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw failed_run(fmt::format("cannot create a pipe: {}", reason_text(errno)));
  const unique_fd from{ends[0]};
  unique_fd to{ends[1]};
  const std::string key = key_ ? "--farcall-key=" + key_file() : "--farcall-plain=yes";
  process_ = std::make_unique<forked_process>([&]() -> int {
    if (cpu) pin_this_thread(*cpu);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    become_program({program, "--farcall-serve=127.0.0.1:0",
                    "--farcall-program=" + (served.empty() ? program : served), key},
                   -1, to.get());
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

std::string server_process::key_file() const { return key_ ? key_->path() : ""; }

std::string url_of_announcement(std::string_view line) {
  const std::size_t begin = line.find("tcp://");
  if (begin == std::string_view::npos) return {};
  return std::string{line.substr(begin, line.find_first_of(", \n", begin) - begin)};
}

} // namespace farcall::tool
