// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/files/file_calls.hpp>
#include <farcall/files/io_socket.h>
#include <farcall/files/message_memory.hpp>
#include <farcall/files/mounted_files.hpp>
#include <farcall/files/shared_pages.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace farcall::files {

class child_server;

/// Serves one client of a child_server: reads requests from its connection, has the server perform
/// them, and sends the replies. Used by one thread.
class child_session {
 public:
  /// All three arguments must outlive the session.
  child_session(child_server& server, file_calls& files, int connection) noexcept
      : server_(server), files_(files), connection_(connection) {}

  /// Serves requests until the client closes the connection or sends anything but a valid request.
  /// Throws std::bad_alloc.
  void run();

 private:
  [[nodiscard]] std::size_t receive_some(void* to, std::size_t bytes, int flags) noexcept;
  [[nodiscard]] bool receive(void* to, std::size_t bytes) noexcept;
  [[nodiscard]] bool receive_head(farcall_io_message& m);
  [[nodiscard]] bool take_request();
  [[nodiscard]] bool take_request(const farcall_io_message& m);
  [[nodiscard]] bool take_shared_request(const farcall_io_message& m);
  [[nodiscard]] bool share(std::uint64_t bytes) noexcept;
  [[nodiscard]] std::int64_t perform() noexcept;
  [[nodiscard]] bool reply(std::int64_t result) noexcept;

  child_server& server_;
  file_calls& files_;
  int connection_;
  farcall_io_request request_{};
  message_memory received_; ///< path, text and data of the request
  /// Bytes of the operation's result, sent after the head of the reply.
  message_memory result_;
  unique_fd passed_; ///< descriptor that is sent with the reply
  /// Descriptors that came with the last request.
  std::array<unique_fd, 2> received_files_;
  /// Memory that is shared with the client, if the client is the helper of a mount.
  shared_pages shared_;
  std::optional<mounted_files::connection> mounted_;
};

} // namespace farcall::files
