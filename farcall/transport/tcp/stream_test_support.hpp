// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/tcp/socket.hpp>
#include <farcall/transport/tcp/stream.hpp>
#include <tests/support.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

/// Support for tests of plain and encrypted streams.
namespace farcall::tcp::test_support {

using bytes = std::vector<std::byte>;

inline time_point soon() { return clock::now() + test::wait_limit; }

/// Returns both ends of a TCP connection inside this machine.
inline std::pair<unique_fd, unique_fd> tcp_pair() {
  const auto listeners = listen_on({"127.0.0.1", 0});
  unique_fd client = connect_to(local_address(listeners[0].get()), soon());
  std::optional<unique_fd> server;
  EXPECT_TRUE(
      test::eventually([&] { return (server = accept_from(listeners[0].get())).has_value(); }));
  return {std::move(client), std::move(*server)};
}

/// An address that does not reply: a listener with a full backlog.
class silent_address {
 public:
  silent_address() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&here), sizeof here), 0);
    EXPECT_EQ(::listen(listener_.get(), 0), 0);
    for (int i = 0; i < 4; ++i)
      waiting_.push_back(start_connect(where()));
  }
  [[nodiscard]] socket_address where() const {
    return resolve(local_address(listener_.get())).front();
  }

 private:
  unique_fd listener_;
  std::vector<unique_fd> waiting_;
};

inline bytes bytes_of(std::string_view text) {
  const auto* from = reinterpret_cast<const std::byte*>(text.data());
  return {from, from + text.size()};
}

inline bytes content(std::size_t size, std::uint64_t n) {
  bytes made(size);
  for (std::size_t at = 0; at < size; ++at)
    made[at] = test::content(n, at);
  return made;
}

inline iovec part_of(const bytes& data, std::size_t from = 0) {
  return {const_cast<std::byte*>(data.data()) + from, data.size() - from};
}

inline io_result read_into(stream& from, bytes& to, std::size_t at = 0) {
  const iovec part = part_of(to, at);
  return from.read({&part, 1});
}
inline io_result write_from(stream& to, const bytes& data, std::size_t at = 0) {
  const iovec part = part_of(data, at);
  return to.write({&part, 1});
}

/// Waits like a stream's user: only the socket's events end the wait.
inline void wait_to_read(const stream& s) {
  if (s.has_buffered()) return;
  const int events = POLLIN | (s.read_wants_write() ? POLLOUT : 0);
  pollfd waiting{s.fd(), static_cast<short>(events), 0};
  ::poll(&waiting, 1, 10'000);
}
inline void wait_to_write(const stream& s) {
  pollfd waiting{s.fd(), static_cast<short>(s.write_wants_read() ? POLLIN : POLLOUT), 0};
  ::poll(&waiting, 1, 10'000);
}

/// Writes all of `data`; returns `done`, or the status of the failure.
inline io_status write_all(stream& to, const bytes& data) {
  const time_point deadline = soon();
  for (std::size_t at = 0; at < data.size();) {
    const io_result put = write_from(to, data, at);
    if (put.status == io_status::would_block && clock::now() < deadline) {
      wait_to_write(to);
      continue;
    }
    if (put.status != io_status::done) return put.status;
    at += put.bytes;
  }
  return io_status::done;
}

/// Reads until `to` is full; returns `done`, or the status of the failure.
inline io_status read_all(stream& from, bytes& to) {
  const time_point deadline = soon();
  for (std::size_t at = 0; at < to.size();) {
    const io_result got = read_into(from, to, at);
    if (got.status == io_status::would_block && clock::now() < deadline) {
      wait_to_read(from);
      continue;
    }
    if (got.status != io_status::done) return got.status;
    at += got.bytes;
  }
  return io_status::done;
}

/// Returns `size` bytes; fewer if the stream ends.
inline bytes received(stream& from, std::size_t size) {
  bytes to(size);
  EXPECT_EQ(read_all(from, to), io_status::done) << from.failure();
  return to;
}

/// Returns the status at the end, when no more bytes are expected.
inline io_status end_of(stream& from) {
  bytes to(1);
  return read_all(from, to);
}

} // namespace farcall::tcp::test_support
