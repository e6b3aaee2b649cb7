#pragma once

#include <tools/common/key_in_memory.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace farcall::tool {

class forked_process;

/// This very program as a server on loopback (--farcall-serve), for as long as this lives: where
/// the targets of a benchmark over TCP run when nobody said another place.
///
/// It is forked by the constructor, so make it before any thread or job is started.
class server_process {
 public:
  /// With `encrypted`, connections need the key in key_file(), which is in no folder. With `cpu`,
  /// the server and all its targets are bound to that processor. Its targets run `served`; this
  /// program, where that is empty.
  server_process(bool encrypted, std::optional<int> cpu, const std::string& served = {});
  /// Ends it with its targets.
  ~server_process();
  server_process(const server_process&) = delete;
  server_process& operator=(const server_process&) = delete;
  server_process(server_process&&) = delete;
  server_process& operator=(server_process&&) = delete;

  /// "tcp://127.0.0.1:40123".
  [[nodiscard]] const std::string& url() const { return url_; }
  /// Empty when nothing is encrypted.
  [[nodiscard]] std::string key_file() const;

 private:
  std::optional<key_in_memory> key_;
  std::unique_ptr<forked_process> process_;
  std::string url_;
};

/// The address in what a server says when it listens ("farcall: serving at tcp://…, unencrypted");
/// empty when there is none.
[[nodiscard]] std::string url_of_announcement(std::string_view line);

} // namespace farcall::tool
