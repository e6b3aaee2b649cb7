// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/log.hpp>
#include <farcall/files/access.hpp>
#include <farcall/files/child_server.hpp>
#include <farcall/files/child_session.hpp>
#include <farcall/files/io_socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace farcall::files {
namespace {

/// Pause before the next accept(), after a client could not be accepted because the system had no
/// descriptor left.
constexpr std::chrono::milliseconds accept_pause{10};

/// Maximum number of errors in failed_. They are kept because a client may still call close() for
/// the file and ask for its error.
constexpr std::size_t max_failed = 64;

[[noreturn]] void throw_reason() {
  throw error("the programs that this target starts cannot be served files of the host: " +
              reason_text(errno));
}

/// Makes a socket that listens at a random abstract name. Programs that outlive the target keep its
/// name, so another job must never listen at the same one.
unique_fd make_listener(std::string& name) {
  unique_fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) throw_reason();
  listener.close_on_fork();
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) throw_reason();
  std::array<char, FARCALL_IO_SOCKET_NAME - 1> digits;
  name.assign(digits.data(),
              std::to_chars(digits.data(), digits.data() + digits.size(), number >> 4, 16).ptr);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, name.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0)
    throw_reason();
  return listener;
}

/// Returns the event loop that the process's layers share. Throws error.
std::shared_ptr<event_loop> find_loop() {
  try {
    return common_event_loop();
  } catch (const std::system_error& e) {
    errno = e.code().value();
    throw_reason();
  }
}

/// True if all descriptors of the socket's other end have been closed.
bool is_abandoned(int end) noexcept {
  pollfd p{end, 0, 0};
  return ::poll(&p, 1, 0) == 1 && (p.revents & POLLHUP) != 0;
}

bool is_own_user(int connection) noexcept {
  ucred who{};
  socklen_t bytes = sizeof who;
  return ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 &&
         who.uid == ::geteuid();
}

} // namespace

child_server::child_server(file_calls& files)
    : files_(files), listener_(make_listener(name_)), loop_(find_loop()),
      next_accept_(new function_timer(*loop_, [this] { accept_clients(); })) {
  address_ = name_ + "," + text_of(files.prefixes());
  // Start the service thread now, so that a failure is thrown here. If the start failed later, the
  // report that a program has closed its descriptor would be lost, because the event loop gives
  // this report only once.
  try {
    (void)closer_.submit([] {});
  } catch (const std::system_error& e) {
    errno = e.code().value();
    throw_reason();
  }
  // Disarm the listener after each event, because epoll would otherwise report it again at once
  // while a client cannot be accepted.
  loop_->add(listener_.get(), EPOLLIN | EPOLLONESHOT,
             std::make_shared<function_handler>([this] { accept_clients(); }));
}

void child_server::finish() noexcept {
  {
    const std::lock_guard guard(mutex_);
    if (std::exchange(is_finished_, true)) return;
  }
  mounted_.finish();
  watch_.finish();
  loop_->remove(listener_.get());
  // Wait for a running accept_clients(), because it may still set the timer that is cancelled
  // below. Later calls see is_finished_, and don't set the timer.
  loop_->drain();
  next_accept_->cancel();
  loop_->drain();
  {
    const std::lock_guard guard(mutex_);
    for (const client& c : clients_) {
      if (!c.has_ended) ::shutdown(c.connection.get(), SHUT_RDWR);
    }
  }
  for (client& c : clients_)
    c.thread.join();
  clients_.clear();
  {
    const std::lock_guard guard(mutex_);
    for (const auto& [file, of] : placeholders_)
      loop_->remove(of->end.get());
  }
  // After this call, the event loop calls no function of this object any more.
  loop_->drain();
  (void)closer_.stop();
  listener_.reset();
}

// ---- descriptors ----

/// Makes the sockets of a placeholder. Returns 0, or -errno.
std::int64_t child_server::make_pair(socket_pair& made) noexcept {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return -errno;
  made.given = unique_fd(ends[0]);
  unique_fd own(ends[1]);
  // Shut down the receiving side of the server's end, so that a program without the library gets
  // EPIPE when it writes to the descriptor.
  if (::shutdown(own.get(), SHUT_RD) != 0) return -errno;
  // Make the program's end non-blocking. A program without the library then reads the line, and
  // gets EAGAIN for the next read instead of waiting for ever.
  if (::fcntl(made.given.get(), F_SETFL, O_NONBLOCK) != 0) return -errno;
  try {
    made.own = std::make_shared<placeholder>();
    made.own->end = std::move(own);
    made.own->end.close_on_fork();
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  }
  return 0;
}

std::int64_t child_server::make_placeholder(socket_pair pair, std::string_view path, int flags,
                                            const farcall_io_opened& opened) {
  const std::shared_ptr<placeholder>& of = pair.own;
  std::string message = FARCALL_IO_PLACEHOLDER_TEXT;
  message += std::to_string(FARCALL_IO_SOCKET_VERSION) + ' ' + name_ + ' ' +
             std::to_string(opened.mode) + ' ' + std::to_string(flags) + ' ' +
             std::to_string(opened.file) + ' ';
  if (S_ISDIR(opened.mode)) message += path;
  message += FARCALL_IO_PLACEHOLDER_END;
  if (::send(of->end.get(), message.data(), message.size(), MSG_NOSIGNAL) < 0) return -errno;

  const std::lock_guard guard(mutex_);
  if (is_finished_) return -EIO;
  placeholders_.emplace(opened.file, of);
  try {
    // Register no events, because epoll always reports EPOLLHUP, which means that the program's end
    // was closed. Edge-triggered, so that epoll reports it once.
    loop_->add(of->end.get(), EPOLLET,
               std::make_shared<function_handler>([this, file = opened.file] {
                 (void)closer_.submit([&] { abandoned_.push_back(file); });
               }));
  } catch (const std::exception&) {
    placeholders_.erase(opened.file);
    return -ENOMEM;
  }
  return pair.given.release();
}

std::int64_t child_server::perform(const farcall_io_request& asked) noexcept {
  switch (asked.operation) {
  case farcall_io_op_open:
    return open(asked);
  case farcall_io_op_close:
    return close(asked.file);
  default:
    return files_.perform(asked);
  }
}

std::int64_t child_server::open(const farcall_io_request& asked) noexcept {
  // Make the sockets before the host opens the file, which an open may change even if it fails
  // afterwards. The host passes most files of a machine's own host, which need no sockets.
  socket_pair pair;
  if (!files_.are_passed()) {
    if (const std::int64_t why_not = make_pair(pair); why_not < 0) return why_not;
  }
  const std::int64_t result = files_.perform(asked);
  if (result < 0) return result;
  auto& opened = *static_cast<farcall_io_opened*>(asked.result);
  // If the host has passed the open file itself, return it unchanged, because it needs no
  // placeholder.
  if (opened.file == 0) return result;
  std::int64_t made = pair.own != nullptr ? 0 : make_pair(pair);
  try {
    if (made == 0) {
      made =
          make_placeholder(std::move(pair), {asked.path.at, asked.path.bytes}, asked.flags, opened);
    }
  } catch (const std::bad_alloc&) {
    made = -ENOMEM;
  }
  if (made < 0) {
    (void)files_.close(opened.file);
    return made;
  }
  opened.descriptor = static_cast<std::int32_t>(made);
  return 0;
}

/// Closes a file at the host. The caller must have checked that no other thread is closing it.
/// Unlocks the mutex while it waits for the host.
std::int64_t child_server::close_at_host(std::uint64_t file, std::shared_ptr<placeholder> of,
                                         std::unique_lock<std::mutex>& lock) noexcept {
  of->is_closing = true;
  lock.unlock();
  const std::int64_t result = files_.close(file);
  lock.lock();
  of->result = result;
  of->is_closed = true;
  loop_->remove(of->end.get());
  placeholders_.erase(file);
  closed_.notify_all();
  return result;
}

std::int64_t child_server::close(std::uint64_t file) noexcept {
  std::unique_lock lock(mutex_);
  const auto at = placeholders_.find(file);
  if (at == placeholders_.end()) {
    const auto failed = std::find_if(failed_.begin(), failed_.end(),
                                     [&](const auto& f) { return f.first == file; });
    if (failed == failed_.end()) return 0;
    const std::int64_t result = failed->second;
    failed_.erase(failed);
    return result;
  }
  const std::shared_ptr<placeholder> of = at->second;
  if (of->is_closing) {
    closed_.wait(lock, [&] { return of->is_closed; });
    return of->result;
  }
  if (is_abandoned(of->end.get())) return close_at_host(file, of, lock);
  // Other descriptors of the file are still open, so only wait for the writes and return their
  // error. The program that closes the last descriptor may not ask for errors.
  lock.unlock();
  return files_.flush(file);
}

/// Runs on the service thread. Takes one file from the queue of files whose last descriptor was
/// reported closed, and closes the file at the host.
time_point child_server::close_abandoned(std::unique_lock<std::mutex>& queue) noexcept {
  if (abandoned_.empty() || closer_.is_stopping()) return no_deadline;
  const std::uint64_t file = abandoned_.front();
  abandoned_.pop_front();
  queue.unlock();
  close_if_abandoned(file);
  queue.lock();
  return service_thread::at_once;
}

void child_server::close_if_abandoned(std::uint64_t file) noexcept {
  std::unique_lock lock(mutex_);
  const auto at = placeholders_.find(file);
  // Check under the lock, because a client's close() may be closing the same file now, in order to
  // get its errors.
  if (at == placeholders_.end() || at->second->is_closing || !is_abandoned(at->second->end.get()))
    return;
  const std::int64_t result = close_at_host(file, at->second, lock);
  if (result == 0) return;
  try {
    if (failed_.size() == max_failed) failed_.pop_front();
    failed_.emplace_back(file, result);
  } catch (const std::bad_alloc&) {
    log::warning("a file of the host was closed with an error that no program will get");
  }
}

// ---- clients ----

void child_server::accept_clients() noexcept {
  bool has_space = true;
  try {
    has_space = accept_client();
  } catch (const std::exception& e) {
    static auto& lines = *new log::limited_log("more programs cannot use files");
    lines.warning(std::string("a program that this target has started cannot use files of the "
                              "host: ") +
                  e.what());
  }
  {
    const std::lock_guard guard(mutex_);
    if (is_finished_) return;
  }
  if (has_space) {
    loop_->modify(listener_.get(), EPOLLIN | EPOLLONESHOT);
  } else {
    next_accept_->set(clock::now() + accept_pause);
  }
}

bool child_server::accept_client() {
  unique_fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection) return errno == EAGAIN || errno == ECONNABORTED;
  connection.close_on_fork();
  if (!is_own_user(connection.get())) return true;
  std::list<client> ended;
  std::size_t count = 0;
  {
    const std::lock_guard guard(mutex_);
    for (auto at = clients_.begin(); at != clients_.end();) {
      const auto next = std::next(at);
      if (at->has_ended) ended.splice(ended.end(), clients_, at);
      at = next;
    }
    count = clients_.size();
  }
  for (client& c : ended)
    c.thread.join();
  if (count >= max_clients)
    throw error("there are " + std::to_string(count) + " already, each with a connection");
  std::list<client> added;
  client& c = added.emplace_back();
  c.connection = std::move(connection);
  // Hold the lock until all members are set. The new thread locks the mutex before it reads them.
  const std::lock_guard guard(mutex_);
  c.thread = library_thread("farcall-service", [this, &c] { serve(c); });
  clients_.splice(clients_.end(), added);
  return true;
}

void child_server::serve(client& c) noexcept {
  int connection = -1;
  {
    const std::lock_guard guard(mutex_);
    connection = c.connection.get();
  }
  try {
    child_session(*this, files_, connection).run();
  } catch (const std::bad_alloc&) {
    log::warning("no memory for a program that uses files of the host: it gets EIO");
  }
  const std::lock_guard guard(mutex_);
  c.connection.reset();
  c.has_ended = true;
}

} // namespace farcall::files
