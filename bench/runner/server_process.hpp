// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tools/common/key_in_memory.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {

class forked_process;

/// Choices for a server_process.
struct server_choices {
  bool encrypted = false;     ///< connections need the key in key_file()
  std::optional<int> cpu{};   ///< processor of the server and all its targets
  std::string served{};       ///< program of the targets; this program if empty
  std::string started_by{};   ///< program that starts the targets by their command line, if any
  std::string key_of_other{}; ///< file with the key of another server; a new key if empty
};

/// This same program as a server on loopback (--farcall-serve) during the object's lifetime: runs
/// the targets of a benchmark over TCP unless the user names a server.
///
/// The constructor forks, so create it before any thread or job is started.
class server_process {
 public:
  explicit server_process(const server_choices& choices);
  /// Ends the server and its targets.
  ~server_process();
  server_process(const server_process&) = delete;
  server_process& operator=(const server_process&) = delete;
  server_process(server_process&&) = delete;
  server_process& operator=(server_process&&) = delete;

  /// Returns the address: "tcp://127.0.0.1:40123".
  [[nodiscard]] const std::string& url() const { return url_; }
  /// Returns the path of the key, which is in an unnamed file unless it is another server's; empty
  /// without encryption.
  [[nodiscard]] const std::string& key_file() const { return key_file_; }

 private:
  std::optional<key_in_memory> key_;
  std::string key_file_;
  std::unique_ptr<forked_process> process_;
  std::string url_;
};

/// Returns the address from a server's first line ("farcall: serving at tcp://…, unencrypted");
/// empty if there is none.
[[nodiscard]] std::string url_of_announcement(std::string_view line);

} // namespace farcall::tool
