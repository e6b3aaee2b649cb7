// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/limited_log.hpp>
#include <farcall/transport/tcp/path_monitor.hpp>
#include <farcall/transport/tcp/socket.hpp>

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace farcall::tcp {
namespace {

/// Number of checks within one timeout.
constexpr int looks = 8;
/// Least time for which an acknowledgement of a retransmission is awaited, even if the path is
/// fast.
constexpr std::chrono::milliseconds min_reply{100};

} // namespace

std::optional<path_sample> sample_path(int fd) noexcept {
  tcp_info all{};
  socklen_t size = sizeof all;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &all, &size) != 0) return std::nullopt;
  path_sample s;
  s.acknowledged = all.tcpi_bytes_acked;
  s.in_flight = all.tcpi_unacked;
  s.probes = all.tcpi_probes;
  s.since_sent = std::chrono::milliseconds(all.tcpi_last_data_sent);
  s.since_acknowledgement = std::chrono::milliseconds(all.tcpi_last_ack_recv);
  s.round_trip = std::chrono::microseconds(all.tcpi_rtt);
  return s;
}

void path_watch::note_probe(const path_sample& s, time_point now) noexcept {
  if (s.probes > probes_) last_probe_ = {last_look_, now};
  probes_ = s.probes;
  last_look_ = now;
}

bool path_watch::is_lost(const path_sample& s, time_point now) noexcept {
  note_probe(s, now);
  const bool awaits = s.in_flight != 0 || s.probes != 0;
  // Only an acknowledgement of new bytes, or of a probe, counts as a reply. An acknowledgement
  // without progress does not count, because a path that drops large packets can cause it.
  const bool has_replied = s.acknowledged != acknowledged_ ||
                           (s.in_flight == 0 && now - s.since_acknowledgement > since_);
  acknowledged_ = s.acknowledged;
  if (!awaits || !awaits_ || has_replied) {
    awaits_ = awaits;
    since_ = now;
    return false;
  }
  if (now - since_ < timeout_) return false;
  if (now - since_ >= 2 * timeout_) return true;
  const auto reply = std::max<clock::duration>(2 * s.round_trip, min_reply);
  if (s.in_flight == 0)
    return last_probe_.after - since_ >= timeout_ && now - last_probe_.before >= reply;
  const time_point last_sent = now - s.since_sent;
  return last_sent - since_ >= timeout_ && now - last_sent >= reply;
}

path_monitor::watched& path_monitor::watched::operator=(watched&& other) noexcept {
  if (this == &other) return *this;
  end();
  by_ = std::move(other.by_);
  at_ = other.at_;
  return *this;
}

void path_monitor::watched::end() noexcept {
  if (!by_) return;
  const std::lock_guard guard(by_->mutex_);
  by_->entries_.erase(at_);
}

path_monitor::path_monitor(event_loop& loop, std::chrono::milliseconds timeout)
    : loop_(&loop), timeout_(timeout) {}

path_monitor::watched path_monitor::watch(int fd) {
  limit_repetition_gap(fd, timeout_);
  const std::lock_guard guard(mutex_);
  entries_.push_back({fd, path_watch(std::max(timeout_, min_path_timeout))});
  if (!is_looking_ && !is_over_) poll_later();
  return {shared_from_this(), std::prev(entries_.end())};
}

void path_monitor::stop() noexcept {
  const std::lock_guard guard(mutex_);
  is_over_ = true;
}

void path_monitor::poll_later() {
  loop_->at(clock::now() + timeout_ / looks, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->look();
  });
  is_looking_ = true;
}

void path_monitor::look() noexcept {
  const std::lock_guard guard(mutex_);
  is_looking_ = false;
  if (is_over_ || entries_.empty()) return;
  try {
    const time_point now = clock::now();
    for (entry& e : entries_) {
      if (e.is_ended) continue;
      const auto sample = sample_path(e.fd);
      if (!sample || !e.state.is_lost(*sample, now)) continue;
      // Log at a limited rate, because peers may have many connections. The object is never
      // destroyed, because the loop's thread may still use it after static objects were destroyed.
      static auto& lines = *new log::limited_log("more paths were found broken");
      lines.warning("the path to " + peer_text(e.fd) + " is broken: what was sent there was not " +
                    "acknowledged for " + std::to_string(timeout_.count()) + " ms");
      abort_connection(e.fd);
      e.is_ended = true;
    }
    poll_later();
  } catch (const std::exception& e) {
    log::error(std::string("connections are not watched any more: ") + e.what());
  }
}

} // namespace farcall::tcp
