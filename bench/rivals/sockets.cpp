// SPDX-License-Identifier: Apache-2.0
#include "rivals.hpp"

#include <bench/runner/futex_peer.hpp>
#include <bench/runner/loopback.hpp>
#include <bench/runner/options.hpp>
#include <bench/runner/spin.hpp>

#include <farcall/base/error.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

[[noreturn]] void fail(const char* what) {
  throw failed_run(fmt::format("{}: {}", what, reason_text(errno)));
}

/// An end of a two-way byte stream; for a socket both descriptors are equal.
struct stream_end {
  int in = -1;
  int out = -1;
};

struct stream_pair {
  stream_end host;
  stream_end target;
};

enum class waiting { blocking, polling };

void set_non_blocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
    fail("cannot make a descriptor non-blocking");
}

/// Returns false if the other side has gone.
bool receive(int fd, std::uint64_t& value) {
  auto* bytes = reinterpret_cast<char*>(&value);
  std::size_t have = 0;
  std::uint32_t empty = 0;
  while (have < sizeof value) {
    const ssize_t got = read(fd, bytes + have, sizeof value - have);
    if (got > 0) {
      have += static_cast<std::size_t>(got);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      return false;
    } else {
      spin_pause();
      // If both sides share a core, yield it to the other one.
      if (++empty % 4096 == 0) sched_yield();
    }
  }
  return true;
}

bool transmit(int fd, std::uint64_t value) {
  for (;;) {
    const ssize_t done = write(fd, &value, sizeof value); // atomic: 8 bytes into an empty stream
    if (done == static_cast<ssize_t>(sizeof value)) return true;
    if (done >= 0 || (errno != EINTR && errno != EAGAIN)) return false;
  }
}

stream_pair unix_stream() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    fail("cannot make a Unix socket pair");
  return {{ends[0], ends[0]}, {ends[1], ends[1]}};
}

stream_pair two_pipes() {
  std::array<int, 2> there{};
  std::array<int, 2> back{};
  if (pipe2(there.data(), O_CLOEXEC) != 0 || pipe2(back.data(), O_CLOEXEC) != 0)
    fail("cannot make a pipe");
  return {{back[0], there[1]}, {there[0], back[1]}};
}

stream_pair tcp_loopback() {
  const unique_fd listener = listen_on_loopback();
  const int host = connect_to_loopback(listener.get()).release();
  const int target = accept_on_loopback(listener.get()).release();
  return {{host, host}, {target, target}};
}

measured stream_round_trip(stream_pair (*connect_pair)(), waiting how,
                           const rival_settings& settings) {
  const auto measure = [=] {
    const stream_pair pair = connect_pair();
    if (how == waiting::polling) {
      for (const int fd : {pair.host.in, pair.host.out, pair.target.in, pair.target.out})
        set_non_blocking(fd);
    }
    const pid_t parent = getpid();
    forked_process echo{[&] {
      // Close the copies of the host's ends, which would hide that the host has gone.
      ::close(pair.host.in);
      if (pair.host.out != pair.host.in) ::close(pair.host.out);
      pin_this_thread(settings.cores.target);
      std::uint64_t value = 0;
      while (!orphaned(parent) && receive(pair.target.in, value)) {
        if (!transmit(pair.target.out, value)) break;
      }
      return 0;
    }};
    ::close(pair.target.in);
    if (pair.target.out != pair.target.in) ::close(pair.target.out);
    pin_this_thread(settings.cores.host);
    const std::size_t calls = how == waiting::blocking ? settings.sleeping_calls : settings.calls;
    std::uint64_t sent = 0;
    return time_batches(settings.batches, calls, settings.warm_up(), [&] {
      for (std::size_t i = 0; i < calls; ++i) {
        std::uint64_t received = 0;
        if (!transmit(pair.host.out, ++sent) || !receive(pair.host.in, received))
          fail("the other side has gone");
        if (received != sent) throw failed_run("the other side replied with another value");
      }
    });
  };
  return measure_isolated(measure, settings.limit());
}

rival stream_rival(std::string key, std::string what, stream_pair (*connect_pair)(), waiting how) {
  return {std::move(key), std::move(what), [connect_pair, how](const rival_settings& settings) {
            return stream_round_trip(connect_pair, how, settings);
          }};
}

} // namespace

measured futex_round_trip(const rival_settings& settings) {
  const auto measure = [=] {
    futex_peer peer{settings.cores};
    pin_this_thread(settings.cores.host);
    return time_batches(settings.batches, settings.sleeping_calls, settings.warm_up(),
                        [&] { peer.round_trips(settings.sleeping_calls); });
  };
  return measure_isolated(measure, settings.limit());
}

std::vector<rival> kernel_rivals() {
  return {
      stream_rival("unix_socket_polling", "Unix socket, both sides poll", unix_stream,
                   waiting::polling),
      stream_rival("unix_socket_blocking", "Unix socket, both sides sleep", unix_stream,
                   waiting::blocking),
      stream_rival("pipe_polling", "two pipes, both sides poll", two_pipes, waiting::polling),
      stream_rival("pipe_blocking", "two pipes, both sides sleep", two_pipes, waiting::blocking),
      stream_rival("tcp_loopback_polling", "TCP over loopback, both sides poll", tcp_loopback,
                   waiting::polling),
      stream_rival("tcp_loopback_blocking", "TCP over loopback, both sides sleep", tcp_loopback,
                   waiting::blocking),
      {"futex_blocking", "futex wake-up, both sides sleep", futex_round_trip},
  };
}

} // namespace farcall::tool
