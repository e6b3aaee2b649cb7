// SPDX-License-Identifier: Apache-2.0
#include "rivals.hpp"
#if FARCALL_TOOL_HAS_UCX

#include "ucx_side.hpp"

#include <array>
#include <cstdint>

#include <bench/runner/options.hpp>

#include <fmt/format.h>

#include <sys/socket.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

std::vector<double> ping_pong(const rival_settings& settings, const ucx_transport& over) {
  std::array<int, 2> channel{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, channel.data()) != 0)
    throw failed_run("cannot make a socket pair");
  const pid_t parent = getpid();
  // Forked before UCX is loaded: a UCX context does not survive a fork.
  forked_process echo{[&] {
    ::close(channel[0]);
    pin_this_thread(settings.cores.target);
    ucx_side side{channel[1], over};
    for (std::uint64_t expected = 1;; ++expected) {
      if (!progress_until(side, expected, [&] { return !orphaned(parent); })) return 0;
      side.send(expected);
    }
  }};
  ::close(channel[1]);
  pin_this_thread(settings.cores.host);
  ucx_side side{channel[0], over};
  std::uint64_t sent = 0;
  return time_batches(settings.batches, settings.calls, settings.warm_up(), [&] {
    for (std::size_t i = 0; i < settings.calls; ++i) {
      side.send(++sent);
      if (!progress_until(side, sent, [&] { return echo.alive(); })) {
        throw failed_run("the other side has gone: " + echo.fate());
      }
    }
  });
}

std::function<measured(const rival_settings&)> measuring(const ucx_transport& over) {
  return [over](const rival_settings& settings) {
    return measure_isolated([&] { return ping_pong(settings, over); }, settings.limit());
  };
}

} // namespace

rival ucx_rival() {
  return {
      "ucx_am",
      fmt::format("UCX active messages (ucp_am, posix, API {}.{})", UCP_API_MAJOR, UCP_API_MINOR),
      measuring(posix_segments)};
}

rival ucx_tcp_rival() {
  return {"ucx_am_tcp",
          fmt::format("UCX active messages over TCP (ucp_am, tcp, loopback, API {}.{})",
                      UCP_API_MAJOR, UCP_API_MINOR),
          measuring(tcp_on_loopback)};
}

rival ucx_rival_as_set() {
  return {"ucx_am_as_set", "UCX active messages (ucp_am)", measuring(as_set)};
}

} // namespace farcall::tool

#else

namespace farcall::tool {

namespace {

measured absent(const rival_settings& /*settings*/) {
  return {{}, "not built in: the UCX headers (libucx-dev) were not found when this was configured"};
}

} // namespace

rival ucx_rival() { return {"ucx_am", "UCX active messages (ucp_am, posix)", absent}; }

rival ucx_tcp_rival() {
  return {"ucx_am_tcp", "UCX active messages over TCP (ucp_am, tcp, loopback)", absent};
}

rival ucx_rival_as_set() { return {"ucx_am_as_set", "UCX active messages (ucp_am)", absent}; }

} // namespace farcall::tool

#endif
