#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/files/file_calls.hpp>
#include <farcall/files/io_table.h>

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
#include <thread>

namespace farcall::files {

/// A target's descriptors of host files, and the server that lets programs which the target starts,
/// and children of its forks, use them: a Unix stream socket with an abstract name, to which only
/// processes of the target's own user may connect. As ssh-agent is found by its children. What
/// clients send is described in io_socket.h.
///
/// A thread accepts clients, and closes files at the host whose descriptors have gone everywhere;
/// each client has a thread, which does one request at a time. Any thread may call open() and
/// close(); in a child of a fork, nobody.
class child_server {
 public:
  /// Most clients at a time; further ones are refused (EIO there).
  static constexpr std::size_t most_clients = 1000;

  /// `files` outlive it. Throws error where the system gives no socket or thread.
  explicit child_server(file_calls& files);
  child_server(const child_server&) = delete;
  child_server& operator=(const child_server&) = delete;
  ~child_server() { finish(); }

  /// Ends the connections, and waits for the requests that are under way: clients get EIO from now
  /// on. What is open at the host stays so until the target ends.
  void finish() noexcept;

  /// What clients are to find in FARCALL_IO_SOCKET.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }

  /// As in farcall_io_table: 0, or -errno.
  [[nodiscard]] std::int64_t open(std::string_view path, int flags, std::uint32_t mode,
                                  farcall_io_opened& opened) noexcept;
  /// As in farcall_io_table.
  [[nodiscard]] std::int64_t close(std::uint64_t file) noexcept;

 private:
  struct placeholder {
    unique_fd end; ///< the other one is what programs have
    bool is_closing = false;
    bool is_closed = false;
    std::int64_t result = 0; ///< of closing
  };
  struct client {
    unique_fd connection;
    std::thread thread;
    bool has_ended = false;
  };

  [[nodiscard]] std::int64_t make_placeholder(std::string_view path, int flags,
                                              const farcall_io_opened& opened);
  std::int64_t close_at_host(std::uint64_t file, std::shared_ptr<placeholder> of,
                             std::unique_lock<std::mutex>& lock) noexcept;
  void close_abandoned(std::uint64_t file) noexcept;
  void run() noexcept;
  void accept_client();
  void serve(client& c) noexcept;

  file_calls& files_;
  std::string name_; ///< of the socket, without the zero that it begins with
  std::string address_;
  unique_fd listener_;
  unique_fd events_;
  unique_fd stop_; ///< becomes readable
  std::mutex mutex_;
  std::condition_variable closed_;
  std::map<std::uint64_t, std::shared_ptr<placeholder>> placeholders_;
  /// Closed without anybody asking, with an error that somebody may still ask for.
  std::deque<std::pair<std::uint64_t, std::int64_t>> failed_;
  std::list<client> clients_;
  std::thread thread_; ///< accepts, and closes what has gone
};

} // namespace farcall::files
