// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/event_loop.hpp>
#include <farcall/base/library_thread.hpp>
#include <farcall/base/service_thread.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/files/file_calls.hpp>
#include <farcall/files/io_operations.h>
#include <farcall/files/mounted_files.hpp>
#include <farcall/files/program_watch.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace farcall::files {

/// Holds a target's descriptors of host files, and serves the programs that the target starts and
/// the children of its forks. These clients connect to a Unix stream socket with an abstract name,
/// which is open to processes of the target's own user only. Programs find the socket by an
/// environment variable, like ssh-agent's clients. io_socket.h describes the messages.
///
/// Three kinds of threads do the work. The event loop's thread accepts clients. Each client has a
/// thread, which performs one request at a time. A service thread closes a file at the host after
/// the last program has closed its descriptors. Any thread may call perform(), except in a child of
/// a fork.
class child_server {
 public:
  /// Maximum number of clients at a time. Further clients are refused, and their calls fail with
  /// EIO.
  static constexpr std::size_t max_clients = 1000;

  /// `files` must outlive the server. Throws error if the system has no socket or thread left.
  explicit child_server(file_calls& files);
  child_server(const child_server&) = delete;
  child_server& operator=(const child_server&) = delete;
  ~child_server() { finish(); }

  /// Ends the connections after the requests in flight. Later calls of the clients fail with EIO.
  /// Files that are open at the host stay open until the target ends.
  void finish() noexcept;

  /// Returns the value of FARCALL_IO_SOCKET for clients.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }

  /// Performs an operation like file_calls::perform(), with two exceptions. Open also returns a
  /// descriptor for the file. Close means that the caller has closed its descriptors of the file;
  /// the file is closed at the host after the last descriptor.
  [[nodiscard]] std::int64_t perform(const farcall_io_request& asked) noexcept;

  /// Returns the watch of programs that make system calls themselves.
  [[nodiscard]] program_watch& watch() noexcept { return watch_; }

  /// Returns the files that the helper of a mount has open.
  [[nodiscard]] mounted_files& mounted() noexcept { return mounted_; }

 private:
  struct placeholder {
    unique_fd end; ///< the server's end of the socket pair; programs have the other end
    bool is_closing = false;
    bool is_closed = false;
    std::int64_t result = 0; ///< result of closing the file at the host
  };
  struct client {
    unique_fd connection;
    library_thread thread;
    bool has_ended = false;
  };

  /// The two ends of a placeholder's socket pair.
  struct socket_pair {
    unique_fd given; ///< the end of the programs
    std::shared_ptr<placeholder> own;
  };

  [[nodiscard]] static std::int64_t make_pair(socket_pair& made) noexcept;
  [[nodiscard]] std::int64_t make_placeholder(socket_pair pair, std::string_view path, int flags,
                                              const farcall_io_opened& opened);
  [[nodiscard]] std::int64_t open(const farcall_io_request& asked) noexcept;
  [[nodiscard]] std::int64_t close(std::uint64_t file) noexcept;
  std::int64_t close_at_host(std::uint64_t file, std::shared_ptr<placeholder> of,
                             std::unique_lock<std::mutex>& lock) noexcept;
  [[nodiscard]] time_point close_abandoned(std::unique_lock<std::mutex>& queue) noexcept;
  void close_if_abandoned(std::uint64_t file) noexcept;
  void accept_clients() noexcept;
  /// Accepts a waiting client. Returns false if the system has no descriptor or memory for the
  /// client.
  [[nodiscard]] bool accept_client();
  void serve(client& c) noexcept;

  file_calls& files_;
  mounted_files mounted_{files_};
  program_watch watch_{files_.prefixes()};
  std::string name_; ///< name of the socket, without its leading zero byte
  std::string address_;
  unique_fd listener_;
  std::shared_ptr<event_loop> loop_;
  /// Timer that calls accept_clients() again after the system was out of descriptors.
  counted_ptr<function_timer> next_accept_;
  std::mutex mutex_;
  std::condition_variable closed_;
  std::map<std::uint64_t, std::shared_ptr<placeholder>> placeholders_;
  /// Errors of files that the service thread has closed, with the files' numbers. A client that
  /// calls close() later gets the error.
  std::deque<std::pair<std::uint64_t, std::int64_t>> failed_;
  std::list<client> clients_;
  /// Numbers of the files for which the event loop has reported that no descriptor is open any
  /// more. Guarded by closer_'s mutex.
  std::deque<std::uint64_t> abandoned_;
  service_thread closer_{"farcall-service", [this](auto& lock) { return close_abandoned(lock); }};
  bool is_finished_ = false; ///< guarded by mutex_
};

} // namespace farcall::files
