// SPDX-License-Identifier: Apache-2.0
#include "file_peer.hpp"

#include <bench/runner/loopback.hpp>
#include <bench/runner/stopwatch.hpp>
#include <tools/common/forked_process.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

/// Bytes that the other process reads or writes in one call.
constexpr std::size_t max_piece = std::size_t{1} << 20;

struct order {
  std::uint64_t is_write = 0;
  std::uint64_t bytes = 0; ///< of the whole stream
  std::array<char, 512> path{};
};

bool send_all(int to, const void* from, std::size_t bytes) {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t sent = ::send(to, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int from, void* to, std::size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::recv(from, at, bytes, MSG_WAITALL);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

/// Moves the bytes of one order between its file and the connection.
bool serve(int connection) {
  order asked;
  if (!receive_all(connection, &asked, sizeof asked)) return false;
  const bool writes = asked.is_write != 0;
  const unique_fd file(::open(asked.path.data(), (writes ? O_WRONLY : O_RDONLY) | O_CLOEXEC));
  const auto memory = std::make_unique<std::byte[]>(max_piece);
  for (std::uint64_t begun = 0; begun < asked.bytes;) {
    const std::size_t bytes = std::min<std::uint64_t>(max_piece, asked.bytes - begun);
    const auto at = static_cast<off_t>(begun);
    if (writes && !receive_all(connection, memory.get(), bytes)) return false;
    const ssize_t done = writes ? ::pwrite(file.get(), memory.get(), bytes, at)
                                : ::pread(file.get(), memory.get(), bytes, at);
    if (done != static_cast<ssize_t>(bytes)) return false;
    if (!writes && !send_all(connection, memory.get(), bytes)) return false;
    begun += bytes;
  }
  const char end = 0;
  return send_all(connection, &end, sizeof end);
}

/// Gives an order, and moves the bytes between the connection and one record's memory.
void give(const file_work& work, std::uint64_t thread, int connection) {
  order asked;
  asked.is_write = work.access == file_access::write ? 1 : 0;
  asked.bytes = work.calls * work.record;
  const std::string path = fmt::format("{}.{}", work.path, thread);
  if (path.size() >= asked.path.size()) throw failed_run("the path is too long: " + path);
  path.copy(asked.path.data(), path.size());
  const auto record = std::make_unique<std::byte[]>(work.record);
  bool is_done = send_all(connection, &asked, sizeof asked);
  for (std::uint64_t call = 0; call < work.calls && is_done; ++call) {
    is_done = asked.is_write != 0 ? send_all(connection, record.get(), work.record)
                                  : receive_all(connection, record.get(), work.record);
  }
  char end = 0;
  if (!is_done || !receive_all(connection, &end, sizeof end))
    throw failed_run("the process with the files has not moved all bytes of " + path);
}

} // namespace

file_peer::file_peer() : listener_(listen_on_loopback()) {
  // All threads of a work connect at once.
  constexpr int most_waiting = 64;
  if (::listen(listener_.get(), most_waiting) != 0)
    throw failed_run("cannot listen on loopback: " + reason_text(errno));
  const pid_t parent = ::getpid();
  process_ = std::make_unique<forked_process>([this, parent] {
    while (!orphaned(parent)) {
      pollfd waiting{listener_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 1000) <= 0) continue;
      std::thread([connection = accept_on_loopback(listener_.get())] {
        (void)serve(connection.get());
      }).detach();
    }
    return 0;
  });
}

file_peer::~file_peer() = default;

double file_peer::run(const file_work& work) {
  std::vector<std::exception_ptr> failures(work.threads);
  std::vector<std::thread> threads;
  const stopwatch watch;
  for (std::uint64_t t = 0; t < work.threads; ++t) {
    threads.emplace_back([&, t] {
      try {
        give(work, t, connect_to_loopback(listener_.get()).get());
      } catch (...) {
        failures[t] = std::current_exception();
      }
    });
  }
  for (std::thread& t : threads)
    t.join();
  const double taken = watch.nanoseconds();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return taken;
}

} // namespace farcall::tool
