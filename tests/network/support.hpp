// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/farcall.hpp>

#include <farcall/server/server.hpp>

#include "tests/faults/support.hpp"

#include <chrono>
#include <cstdint>
#include <string>

#include <unistd.h>

/// Support for tests of jobs over a network: servers in this process, and checks for leaks.
namespace farcall::test {

/// A folder that is removed with its content at the end.
class scratch_folder {
 public:
  scratch_folder();
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder();

  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }
  /// Writes a server's key if it is wanted. Returns the key's path, or an empty text.
  [[nodiscard]] std::string make_key(bool is_wanted) const;

 private:
  std::string path_;
};

/// Options of a server on loopback, at a free port, whose targets run this program.
[[nodiscard]] server_options local_server(const std::string& key = "");

[[nodiscard]] std::uint16_t port_of(const server& s);
/// Returns "tcp://127.0.0.1:PORT" or "unix:///PATH".
[[nodiscard]] std::string url_of(const server& s);

/// Options of a job that notices failures soon.
[[nodiscard]] job_options network_job(const std::string& targets, const std::string& key = "");

/// Exit status of a shell command, and its standard output.
struct outcome {
  int status = -1; ///< -1 if a signal has ended it
  std::string text;
};
[[nodiscard]] outcome outcome_of(const std::string& command);

/// Returns a file's content; empty if it cannot be read.
[[nodiscard]] std::string content_of(const std::string& file);

/// Adds a byte to a file. The number of bytes counts the marks of all processes.
void mark(const std::string& file);
[[nodiscard]] std::size_t marks(const std::string& file);

/// Captures the standard error of this process and its children during its lifetime.
class captured_log {
 public:
  captured_log();
  captured_log(const captured_log&) = delete;
  captured_log& operator=(const captured_log&) = delete;
  /// Writes the captured text to standard error.
  ~captured_log();

  [[nodiscard]] std::string text() const;
  /// Waits until the words have been written; false if that takes too long.
  [[nodiscard]] bool comes_to_say(const std::string& words) const;
  [[nodiscard]] std::size_t count(const std::string& words) const;

 private:
  int file_;
  int before_;
};

/// Waits until `done()` is true; false if that takes longer than `bound`.
template <class Condition>
[[nodiscard]] bool comes_true(Condition done,
                              std::chrono::milliseconds bound = std::chrono::seconds(30)) {
  const auto end = std::chrono::steady_clock::now() + bound;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    ::usleep(1000);
  }
  return true;
}

[[nodiscard]] std::size_t open_descriptors();

/// Returns this process's holdings once the connections of ended jobs are closed; closing may
/// outlast the job for a moment.
[[nodiscard]] holdings settled_holdings();

} // namespace farcall::test
