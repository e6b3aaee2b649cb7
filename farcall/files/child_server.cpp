#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/signals.hpp>
#include <farcall/files/access.hpp>
#include <farcall/files/child_server.hpp>
#include <farcall/files/child_session.hpp>
#include <farcall/files/io_socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace farcall::files {
namespace {

/// What an event is of; else a file, by its number.
constexpr std::uint64_t of_listener = UINT64_MAX;
constexpr std::uint64_t of_stop = UINT64_MAX - 1;

/// Errors that are kept until somebody asks.
constexpr std::size_t most_failed = 64;

[[noreturn]] void throw_reason() {
  throw error("the programs that this target starts cannot be served files of the host: " +
              reason_text(errno));
}

/// Listens at an abstract name that no later job has: programs that outlive the target keep it.
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

void watch(int events, int fd, std::uint32_t what, std::uint64_t of) {
  epoll_event e{};
  e.events = what;
  e.data.u64 = of;
  if (::epoll_ctl(events, EPOLL_CTL_ADD, fd, &e) != 0) throw_reason();
}

/// Nobody has the other end any more.
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

child_server::child_server(file_calls& files) : files_(files), listener_(make_listener(name_)) {
  address_ = name_ + "," + text_of(files.prefixes());
  events_ = unique_fd(::epoll_create1(EPOLL_CLOEXEC));
  stop_ = unique_fd(::eventfd(0, EFD_CLOEXEC));
  if (!events_ || !stop_) throw_reason();
  events_.close_on_fork();
  watch(events_.get(), listener_.get(), EPOLLIN, of_listener);
  watch(events_.get(), stop_.get(), EPOLLIN, of_stop);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& e) {
    errno = e.code().value();
    throw_reason();
  }
}

void child_server::finish() noexcept {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
  thread_.join();
  {
    const std::lock_guard guard(mutex_);
    for (const client& c : clients_) {
      if (!c.has_ended) ::shutdown(c.connection.get(), SHUT_RDWR);
    }
  }
  // Nobody adds any.
  for (client& c : clients_)
    c.thread.join();
  clients_.clear();
  listener_.reset();
}

// ---- descriptors ----

std::int64_t child_server::make_placeholder(std::string_view path, int flags,
                                            const farcall_io_opened& opened) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) return -errno;
  unique_fd given(ends[0]);
  auto of = std::make_shared<placeholder>();
  of->end = unique_fd(ends[1]);
  of->end.close_on_fork();

  std::string message = FARCALL_IO_PLACEHOLDER_TEXT;
  message += std::to_string(FARCALL_IO_SOCKET_VERSION) + ' ' + name_ + ' ' +
             std::to_string(opened.mode) + ' ' + std::to_string(flags) + ' ' +
             std::to_string(opened.file) + ' ';
  if (S_ISDIR(opened.mode)) message += path;
  message += FARCALL_IO_PLACEHOLDER_END;
  if (::send(of->end.get(), message.data(), message.size(), MSG_NOSIGNAL) < 0) return -errno;
  // A program that knows nothing of it shall not write, and believe that somebody reads.
  if (::shutdown(of->end.get(), SHUT_RD) != 0) return -errno;
  // Nor shall it wait for more than the line.
  if (::fcntl(given.get(), F_SETFL, O_NONBLOCK) != 0) return -errno;

  const std::lock_guard guard(mutex_);
  epoll_event gone{};
  gone.events = EPOLLET; // the end of the other one, which is always told
  gone.data.u64 = opened.file;
  placeholders_.emplace(opened.file, of);
  if (::epoll_ctl(events_.get(), EPOLL_CTL_ADD, of->end.get(), &gone) != 0) {
    placeholders_.erase(opened.file);
    return -errno;
  }
  return given.release();
}

std::int64_t child_server::open(std::string_view path, int flags, std::uint32_t mode,
                                farcall_io_opened& opened) noexcept {
  const std::int64_t result = files_.open(path, flags, mode, opened);
  // An open file that the host has passed needs nothing.
  if (result < 0 || opened.file == 0) return result;
  std::int64_t made = -ENOMEM;
  try {
    made = make_placeholder(path, flags, opened);
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

/// Of one that is not being closed. Without the lock while the host is asked.
std::int64_t child_server::close_at_host(std::uint64_t file, std::shared_ptr<placeholder> of,
                                         std::unique_lock<std::mutex>& lock) noexcept {
  of->is_closing = true;
  lock.unlock();
  const std::int64_t result = files_.close(file);
  lock.lock();
  of->result = result;
  of->is_closed = true;
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
  // Whoever closes it last may be nobody that asks for its errors.
  lock.unlock();
  return files_.flush(file);
}

/// Nobody has a descriptor any more: a process ended, or another one is about to ask.
void child_server::close_abandoned(std::uint64_t file) noexcept {
  std::unique_lock lock(mutex_);
  const auto at = placeholders_.find(file);
  if (at == placeholders_.end() || at->second->is_closing || !is_abandoned(at->second->end.get()))
    return;
  const std::int64_t result = close_at_host(file, at->second, lock);
  if (result == 0) return;
  try {
    if (failed_.size() == most_failed) failed_.pop_front();
    failed_.emplace_back(file, result);
  } catch (const std::bad_alloc&) {
    log::warning("a file of the host was closed with an error, which nobody will hear of");
  }
}

// ---- clients ----

void child_server::run() noexcept {
  leave_signals_to_other_threads();
  std::array<epoll_event, 64> seen{};
  for (;;) {
    const int count = ::epoll_wait(events_.get(), seen.data(), static_cast<int>(seen.size()), -1);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t of = seen[static_cast<std::size_t>(i)].data.u64;
      if (of == of_stop) return;
      if (of != of_listener) {
        close_abandoned(of);
        continue;
      }
      try {
        accept_client();
      } catch (const std::exception& e) {
        static auto& lines = *new log::limited_log("more programs cannot use files");
        lines.warning(std::string("a program that this target has started cannot use files of the "
                                  "host: ") +
                      e.what());
      }
    }
  }
}

void child_server::accept_client() {
  unique_fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection) {
    // Without descriptors or memory it is there again at once.
    pollfd stopped{stop_.get(), POLLIN, 0};
    if (errno != EAGAIN && errno != ECONNABORTED) (void)::poll(&stopped, 1, 10);
    return;
  }
  connection.close_on_fork();
  if (!is_own_user(connection.get())) return;
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
  if (count >= most_clients)
    throw error("there are " + std::to_string(count) + " already, each with a connection");
  std::list<client> added;
  client& c = added.emplace_back();
  c.connection = std::move(connection);
  // It waits for the lock before it looks at anything that is set here.
  const std::lock_guard guard(mutex_);
  c.thread = std::thread([this, &c] { serve(c); });
  clients_.splice(clients_.end(), added);
}

void child_server::serve(client& c) noexcept {
  leave_signals_to_other_threads();
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
