#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/files/file_calls.hpp>
#include <farcall/files/io_socket.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace farcall::files {

class child_server;

/// Serves one client of a child_server: reads requests from its connection, has file_calls do them,
/// and answers. Used by one thread.
class child_session {
 public:
  /// Everything outlives it.
  child_session(child_server& server, file_calls& files, int connection) noexcept
      : server_(server), files_(files), connection_(connection) {}

  /// Until the client has gone, or sends what is no request. Throws std::bad_alloc.
  void run();

 private:
  struct paths {
    std::string_view first;
    std::string_view second;
  };

  [[nodiscard]] bool receive(void* to, std::size_t bytes) noexcept;
  [[nodiscard]] bool take_request();
  [[nodiscard]] std::int64_t on_file();
  [[nodiscard]] std::int64_t on_path(const paths& named);
  [[nodiscard]] std::int64_t done(std::int64_t written);
  [[nodiscard]] std::int64_t open(std::string_view path);
  [[nodiscard]] std::byte* room(std::size_t bytes);
  [[nodiscard]] std::int64_t kept(std::int64_t result);
  [[nodiscard]] bool answer(std::int64_t result) noexcept;

  child_server& server_;
  file_calls& files_;
  int connection_;
  farcall_io_request request_{};
  std::vector<char> words_;       ///< of the request: its paths
  std::vector<std::byte> data_;   ///< to be written
  std::vector<std::byte> answer_; ///< behind its head
  unique_fd passed_;              ///< with the answer
};

} // namespace farcall::files
