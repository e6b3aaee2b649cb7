#pragma once

#include <farcall/farcall.hpp>

#include <farcall/transport/tcp/server.hpp>

#include "tests/faults/support.hpp"

#include <chrono>
#include <cstdint>
#include <string>

#include <unistd.h>

/// What the tests of jobs over a network share: servers in this process, and what they leave
/// behind.
namespace farcall::test {

/// A folder that goes with its content at the end.
class scratch_folder {
 public:
  scratch_folder();
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder();

  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }
  /// Writes a key for a server if it is wanted. Returns the path of the key, else an empty text.
  [[nodiscard]] std::string make_key(bool is_wanted) const;

 private:
  std::string path_;
};

/// Options of a server on loopback, at a free port, whose targets run this program.
[[nodiscard]] server_options local_server(const std::string& key = "");

[[nodiscard]] std::uint16_t port_of(const server& s);
/// "tcp://127.0.0.1:PORT", or "unix:///PATH".
[[nodiscard]] std::string url_of(const server& s);

/// Options of a job whose failures are noticed soon.
[[nodiscard]] job_options network_job(const std::string& targets, const std::string& key = "");

/// How a command of a shell has ended, and its standard output.
struct outcome {
  int status = -1; ///< -1: a signal has ended it
  std::string text;
};
[[nodiscard]] outcome outcome_of(const std::string& command);

/// Of a file; nothing where it cannot be read.
[[nodiscard]] std::string content_of(const std::string& file);

/// Adds a byte to a file; the number of bytes says how often something was done, whoever did it.
void mark(const std::string& file);
[[nodiscard]] std::size_t marks(const std::string& file);

/// What this process and those that it starts write to standard error meanwhile.
class captured_log {
 public:
  captured_log();
  captured_log(const captured_log&) = delete;
  captured_log& operator=(const captured_log&) = delete;
  /// Hands on what was written.
  ~captured_log();

  [[nodiscard]] std::string text() const;
  /// Waits until the words have been written; false when that takes too long.
  [[nodiscard]] bool comes_to_say(const std::string& words) const;
  [[nodiscard]] std::size_t count(const std::string& words) const;

 private:
  int file_;
  int before_;
};

/// Waits until `done()`; false when that takes longer than `bound`.
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

/// What this process holds, once the connections of jobs that have ended are gone too: both sides
/// take leave of each other, which may outlast the job for a moment.
[[nodiscard]] holdings settled_holdings();

} // namespace farcall::test
