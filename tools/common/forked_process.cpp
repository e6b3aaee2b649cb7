// SPDX-License-Identifier: Apache-2.0
#include "forked_process.hpp"
#include "outcome.hpp"

#include <farcall/base/error.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/process.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <thread>

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

using clock = std::chrono::steady_clock;

std::string fate_text(int status) {
  if (WIFEXITED(status)) return fmt::format("exit status {}", WEXITSTATUS(status));
  if (WIFSIGNALED(status)) return fmt::format("killed by signal {}", WTERMSIG(status));
  return fmt::format("wait status {}", status);
}

struct pipe_pair {
  int read_end = -1;
  int write_end = -1;

  pipe_pair() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw failed_run(fmt::format("cannot create a pipe: {}", reason_text(errno)));
    }
    read_end = ends[0];
    write_end = ends[1];
  }
  ~pipe_pair() {
    close_end(read_end);
    close_end(write_end);
  }
  pipe_pair(const pipe_pair&) = delete;
  pipe_pair& operator=(const pipe_pair&) = delete;
  pipe_pair(pipe_pair&&) = delete;
  pipe_pair& operator=(pipe_pair&&) = delete;

  static void close_end(int& end) {
    if (end >= 0) close(end);
    end = -1;
  }
};

bool write_all(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t done = write(fd, data, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    data += done;
    size -= static_cast<std::size_t>(done);
  }
  return true;
}

/// Reads the bytes that are available, and appends them to `out`. Returns false at the end of the
/// stream and after an error.
bool read_some(int fd, std::string& out) {
  std::array<char, 16384> buffer{};
  const ssize_t got = read(fd, buffer.data(), buffer.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  out.append(buffer.data(), static_cast<std::size_t>(got));
  return got > 0;
}

int milliseconds_until(clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

/// Flushes all streams and forks. Without the flush, the child would print the text that is
/// buffered in the parent a second time.
pid_t fork_after_flush() {
  std::fflush(nullptr);
  return fork();
}

} // namespace

forked_process::forked_process(const std::function<int()>& body, group membership)
    : pid_(fork_after_flush()), membership_(membership) {
  if (pid_ < 0)
    throw failed_run(fmt::format("cannot start a helper process: {}", reason_text(errno)));
  if (pid_ > 0) {
    // Set the process group in the parent as well as in the child, because either of them may run
    // first.
    if (membership_ == group::own) setpgid(pid_, pid_);
    return;
  }
  if (membership_ == group::own) setpgid(0, 0);
  int status = 1;
  try {
    status = body();
  } catch (const std::exception& e) {
    fmt::print(stderr, "farcall: helper process: {}\n", e.what());
  }
  std::fflush(nullptr);
  _exit(status);
}

forked_process::~forked_process() {
  if (!alive()) return;
  end();
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
}

bool forked_process::alive() {
  if (status_) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
  return !status_;
}

bool forked_process::wait_until(std::chrono::steady_clock::time_point deadline) {
  while (alive()) {
    if (clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return true;
}

void forked_process::end() {
  if (status_) return;
  if (membership_ == group::own) kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
}

std::optional<int> forked_process::exit_status() const {
  if (!status_ || !WIFEXITED(*status_)) return {};
  return WEXITSTATUS(*status_);
}

std::string forked_process::fate() const { return status_ ? fate_text(*status_) : std::string{}; }

bool orphaned(pid_t parent) { return getppid() != parent; }

void become_program(const std::vector<std::string>& words, int input, int output) {
  if (input >= 0) dup2(input, STDIN_FILENO);
  if (output >= 0) dup2(output, STDOUT_FILENO);
  execvp(words.front().c_str(), argument_pointers(words).data());
  throw failed_run(fmt::format("cannot start {}: {}", words.front(), reason_text(errno)));
}

program_result run_program(const std::vector<std::string>& words, std::chrono::seconds limit,
                           int input) {
  pipe_pair out;
  pipe_pair err;
  const unique_fd nothing(input < 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1);
  if (input < 0 && !nothing)
    throw failed_run(fmt::format("cannot open /dev/null: {}", reason_text(errno)));
  pid_t pid = -1;
  const int error = spawn(pid, words.front(), words,
                          {.input = input < 0 ? nothing.get() : input,
                           .prints_to = {.output = out.write_end, .error = err.write_end},
                           .searches_path = true});
  if (error != 0)
    throw failed_run(fmt::format("cannot start {}: {}", words.front(), reason_text(error)));
  pipe_pair::close_end(out.write_end);
  pipe_pair::close_end(err.write_end);

  program_result result;
  const auto deadline = clock::now() + limit;
  while (out.read_end >= 0 || err.read_end >= 0) {
    std::array<pollfd, 2> watched{{{out.read_end, POLLIN, 0}, {err.read_end, POLLIN, 0}}};
    const int ready = poll(watched.data(), watched.size(), milliseconds_until(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0 || (ready == 0 && clock::now() >= deadline)) break;
    if (watched[0].revents != 0 && !read_some(out.read_end, result.standard_output)) {
      pipe_pair::close_end(out.read_end);
    }
    if (watched[1].revents != 0 && !read_some(err.read_end, result.standard_error)) {
      pipe_pair::close_end(err.read_end);
    }
  }
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (!result.timed_out && clock::now() >= deadline) {
      result.timed_out = true;
      kill(-pid, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  result.exit_status = shell_status_of(status);
  return result;
}

measured measure_isolated(const std::function<std::vector<double>()>& body,
                          std::chrono::seconds limit) {
  pipe_pair channel;
  // The child writes 's' and the bytes of the samples, or 'f' and the text of an error.
  const auto measure = [&] {
    pipe_pair::close_end(channel.read_end);
    std::string message;
    try {
      const std::vector<double> samples = body();
      message.assign(1, 's');
      message.append(reinterpret_cast<const char*>(samples.data()),
                     samples.size() * sizeof(double));
    } catch (const std::exception& e) {
      message = std::string{"f"} + e.what();
    }
    return write_all(channel.write_end, message.data(), message.size()) ? 0 : 1;
  };
  forked_process child{measure, forked_process::group::own};
  pipe_pair::close_end(channel.write_end);

  std::string message;
  const auto deadline = clock::now() + limit;
  bool ended = false;
  while (!ended) {
    pollfd watched{channel.read_end, POLLIN, 0};
    const int ready = poll(&watched, 1, milliseconds_until(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0 || (ready == 0 && clock::now() >= deadline)) break;
    // The poll of a long limit ends before the limit.
    if (ready == 0) continue;
    ended = !read_some(channel.read_end, message);
  }
  // Kill the child and its process group in any case: either its result is complete, or it has
  // exceeded the limit.
  child.end();
  const bool gone = child.wait_until(clock::now() + std::chrono::seconds{5});

  measured result;
  if (!ended) {
    result.failure = fmt::format("no result within {} s", limit.count());
  } else if (message.starts_with('s')) {
    result.samples.resize((message.size() - 1) / sizeof(double));
    std::memcpy(result.samples.data(), message.data() + 1, result.samples.size() * sizeof(double));
  } else {
    result.failure = !message.empty() ? message.substr(1)
                     : gone           ? "its process ended without a result: " + child.fate()
                                      : "its process ended without a result";
  }
  return result;
}

int shell_status_of(int status) noexcept {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

} // namespace farcall::tool
