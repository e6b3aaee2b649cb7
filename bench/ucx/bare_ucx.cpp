// SPDX-License-Identifier: Apache-2.0
#include "bare_ucx.hpp"

#include <tools/common/outcome.hpp>

#include <array>
#include <cerrno>

#include <fmt/format.h>

#include <sys/socket.h>
#include <unistd.h>

#if FARCALL_TOOL_HAS_UCX
#include <bench/rivals/ucx_side.hpp>
#include <bench/runner/stopwatch.hpp>
#endif

namespace farcall::tool {

#if FARCALL_TOOL_HAS_UCX

namespace {

using sockets = std::array<int, 2>;

sockets socket_pair_of_ucx() {
  sockets ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw failed_run("cannot make a socket pair");
  return ends;
}

template <class T>
bool send_value(int fd, const T& value) {
  return ::send(fd, &value, sizeof value, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof value);
}

template <class T>
bool receive_value(int fd, T& value) {
  return ::recv(fd, &value, sizeof value, 0) == static_cast<ssize_t>(sizeof value);
}

/// Choices of both sides.
struct ucx_choices {
  core_pair cores;
  std::size_t most_bytes;
  bool is_like_calls;

  [[nodiscard]] std::uint64_t features() const {
    std::uint64_t all = UCP_FEATURE_AM;
    if (most_bytes != 0) all |= UCP_FEATURE_RMA;
    if (is_like_calls) all |= UCP_FEATURE_WAKEUP;
    return all;
  }
  void send(ucx_side& by, std::uint64_t value) const {
    // The header of a lane's message, and the record of an empty request or reply.
    constexpr std::size_t header_bytes = 16;
    constexpr std::size_t record_bytes = 32;
    if (is_like_calls) {
      by.send(value, header_bytes, record_bytes);
    } else {
      by.send(value);
    }
  }
};

/// Replies to as many messages as the measuring process announces, until that process has gone.
int echo_messages(int channel, const ucx_choices& choices, pid_t parent) {
  pin_this_thread(choices.cores.target);
  ucx_side side{channel, as_set, choices.features()};
  if (choices.most_bytes != 0) {
    side.make_memory(choices.most_bytes);
    side.offer_memory(channel);
  }
  std::uint64_t expected = 0;
  for (std::uint64_t count = 0; receive_value(channel, count);) {
    for (; count > 0; --count) {
      if (!progress_until(side, ++expected, [&] { return !orphaned(parent); })) return 0;
      choices.send(side, expected);
    }
  }
  return 0;
}

/// Measures on each request, until the requester has gone.
int measure_requests(int requests, const ucx_choices& choices) {
  const sockets channel = socket_pair_of_ucx();
  const pid_t parent = getpid();
  // Forked before UCX is loaded: a UCX context does not survive a fork.
  forked_process echo{[&] {
    ::close(channel[0]);
    ::close(requests);
    return echo_messages(channel[1], choices, parent);
  }};
  ::close(channel[1]);
  pin_this_thread(choices.cores.host);
  ucx_side side{channel[0], as_set, choices.features()};
  if (choices.most_bytes != 0) {
    side.make_memory(choices.most_bytes);
    side.take_memory(channel[0]);
  }
  std::uint64_t sent = 0;
  const auto round_trip = [&] {
    choices.send(side, ++sent);
    if (!progress_until(side, sent, [&] { return echo.alive(); }))
      throw failed_run("the other side has gone: " + echo.fate());
  };
  for (bare_ucx::request r{}; receive_value(requests, r);) {
    const bool is_copy = r.what != bare_ucx::work::round_trips;
    // The first round trip waits for the other side. While copies run, it polls for the last one.
    const std::uint64_t trips = is_copy ? 2 : r.count + 1;
    if (!send_value(channel[0], trips)) throw failed_run("the other side has gone");
    round_trip();
    const stopwatch watch;
    for (std::uint64_t i = 0; i < r.count; ++i) {
      if (is_copy) {
        side.copy(r.bytes, r.what == bare_ucx::work::puts);
      } else {
        round_trip();
      }
    }
    const double took = watch.nanoseconds();
    if (is_copy) round_trip();
    if (!send_value(requests, took / static_cast<double>(r.count))) break;
  }
  return 0;
}

} // namespace

bare_ucx::bare_ucx(core_pair cores, std::size_t most_bytes, messages kind) {
  const sockets ends = socket_pair_of_ucx();
  to_ = unique_fd(ends[0]);
  unique_fd theirs(ends[1]);
  process_ = std::make_unique<forked_process>([&] {
    to_.reset();
    return measure_requests(theirs.get(), {cores, most_bytes, kind == messages::like_calls});
  });
}

double bare_ucx::ask(const request& r) {
  double ns = 0;
  if (!send_value(to_.get(), r) || !receive_value(to_.get(), ns))
    throw failed_run("the processes that measure UCX by itself have ended");
  return ns;
}

#else

bare_ucx::bare_ucx(core_pair /*cores*/, std::size_t /*most_bytes*/, messages /*kind*/) {
  throw failed_run(
      "not built in: the UCX headers (libucx-dev) were not found when this was configured");
}

double bare_ucx::ask(const request& /*r*/) { return 0; }

#endif

bare_ucx::~bare_ucx() = default;

} // namespace farcall::tool
