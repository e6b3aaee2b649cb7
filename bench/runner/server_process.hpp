#pragma once

#include <tools/common/key_in_memory.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace farcall::tool {

class forked_process;

/// This same program as a server on loopback (--farcall-serve) during the object's lifetime: runs
/// the targets of a benchmark over TCP unless the user names a server.
///
/// The constructor forks, so create it before any thread or job is started.
class server_process {
 public:
  /// With `encrypted`, connections need the key in key_file(), which is an unnamed file. With
  /// `cpu`, the server and all its targets are bound to that processor. Targets run `served`; this
  /// program if empty.
  server_process(bool encrypted, std::optional<int> cpu, const std::string& served = {});
  /// Ends the server and its targets.
  ~server_process();
  server_process(const server_process&) = delete;
  server_process& operator=(const server_process&) = delete;
  server_process(server_process&&) = delete;
  server_process& operator=(server_process&&) = delete;

  /// Returns the address: "tcp://127.0.0.1:40123".
  [[nodiscard]] const std::string& url() const { return url_; }
  /// Returns the key's path; empty without encryption.
  [[nodiscard]] std::string key_file() const;

 private:
  std::optional<key_in_memory> key_;
  std::unique_ptr<forked_process> process_;
  std::string url_;
};

/// Returns the address from a server's first line ("farcall: serving at tcp://…, unencrypted");
/// empty if there is none.
[[nodiscard]] std::string url_of_announcement(std::string_view line);

} // namespace farcall::tool
