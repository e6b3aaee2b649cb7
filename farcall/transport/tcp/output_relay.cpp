// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/tcp/output_relay.hpp>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace farcall::tcp {
namespace {

constexpr std::size_t piece_bytes = std::size_t{32} << 10;
/// The host reports written bytes to the server as soon as there are this many. A report for each
/// line would be too costly.
constexpr std::size_t report_bytes = output_window / 4;
constexpr std::size_t max_under_way = output_window + 2 * last_output;

} // namespace

// ---- the server's end ---------------------------------------------------------------------------

output_sender::output_sender(event_loop& loop) : loop_(&loop), piece_(piece_bytes) {
  sources_[0].stream = output_stream::output;
  sources_[1].stream = output_stream::error;
  for (source& s : sources_) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      throw_system_error("making a pipe for what a target prints (descriptor limit?)", errno);
    s.from = unique_fd(ends[0]);
    s.to = unique_fd(ends[1]);
    s.from.close_on_fork();
    if (::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
      throw_system_error("reading what a target prints", errno);
  }
}

output_sender::~output_sender() {
  for (source& s : sources_)
    ignore(s);
}

child_output output_sender::ends() const noexcept {
  return {sources_[0].to.get(), sources_[1].to.get()};
}

void output_sender::start(const std::shared_ptr<relay>& to_host) {
  to_host_ = to_host;
  for (source& s : sources_) {
    s.to.reset();
    watch(s);
  }
}

void output_sender::watch(source& s) {
  if (s.is_watched || !s.from) return;
  loop_->add(s.from.get(), EPOLLIN,
             std::make_shared<function_handler>([weak = weak_from_this(), at = &s] {
               if (const auto self = weak.lock()) self->pass_on(*at);
             }));
  s.is_watched = true;
}

void output_sender::ignore(source& s) noexcept {
  if (std::exchange(s.is_watched, false)) loop_->remove(s.from.get());
}

void output_sender::pass_on(source& s) {
  if (under_way_ < output_window) (void)send_piece(s, output_window - under_way_);
  // While the limit of bytes in flight is reached, do not watch the pipes at all. Watching them
  // without events would not be enough, because epoll would still report a hangup.
  if (under_way_ >= output_window) {
    for (source& each : sources_)
      ignore(each);
  }
}

bool output_sender::send_piece(source& s, std::size_t most) {
  if (!s.from) return false;
  // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection): it does not block
  const ssize_t got = ::read(s.from.get(), piece_.data(), std::min(most, piece_.size()));
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return errno == EINTR;
  const auto to_host = to_host_.lock();
  if (got <= 0 || to_host == nullptr) {
    // This pipe has ended: the process has closed its output, or the relay to the host is gone.
    ignore(s);
    s.from.reset();
    return false;
  }
  const auto bytes = static_cast<std::size_t>(got);
  under_way_ += bytes;
  to_host->send_far(control::output, messages::output{s.stream, {piece_.data(), bytes}}.encode());
  return true;
}

void output_sender::note_written(std::span<const std::byte> body) {
  const std::uint32_t bytes = messages::written::decode(body).bytes;
  if (bytes == 0 || bytes > under_way_)
    throw malformed_message("it has written nothing, or more than it was sent");
  under_way_ -= bytes;
  if (under_way_ >= output_window) return;
  for (source& s : sources_)
    watch(s);
}

void output_sender::finish() noexcept {
  try {
    for (source& s : sources_) {
      ignore(s);
      for (std::size_t left = last_output; left != 0;) {
        const std::size_t before = under_way_;
        if (!send_piece(s, left)) break;
        left -= under_way_ - before;
      }
      s.from.reset();
    }
  } catch (const std::exception& e) {
    static auto& lines = *new log::limited_log("more output is lost");
    lines.error(std::string("what a target has printed last is lost: ") + e.what());
  }
}

// ---- the host's end -----------------------------------------------------------------------------

namespace {

/// State of the host's end for one target, used on the loop's thread only.
struct receiver {
  /// Received bytes that the sink has not written yet, or that were not reported to the server as
  /// written.
  std::size_t under_way = 0;
  std::size_t unreported = 0;
};

void note_written(receiver& r, relay& to_server, std::size_t bytes) {
  r.unreported += bytes;
  if (r.unreported < report_bytes) return;
  const std::size_t now = std::exchange(r.unreported, 0);
  r.under_way -= now;
  to_server.send_far(control::written, messages::written{static_cast<std::uint32_t>(now)}.encode());
}

} // namespace

void receive_output(const std::shared_ptr<event_loop>& loop, const std::shared_ptr<relay>& from,
                    node_id node, output_sink* to) {
  from->take_here(
      [loop = std::weak_ptr(loop), from = std::weak_ptr(from), node, to,
       state = std::make_shared<receiver>()](control kind, std::span<const std::byte> body) {
        if (kind != control::output) return false;
        const auto m = messages::output::decode(body);
        const std::size_t bytes = m.bytes.size();
        if (bytes == 0) throw malformed_message("it sent output that is empty");
        if (bytes > max_under_way - state->under_way)
          throw malformed_message("it sent more of what its target prints than was asked for");
        state->under_way += bytes;
        if (to == nullptr) {
          if (const auto link = from.lock()) note_written(*state, *link, bytes);
          return true;
        }
        // The sink calls this callback on a thread of its own. The callback holds no reference that
        // keeps the loop alive: if it were the last one, that thread would destroy the loop.
        to->take(node, m.stream, m.bytes, [loop, from, state](std::size_t written) {
          const auto there = loop.lock();
          if (there == nullptr) return;
          there->post([from, state, written] {
            if (const auto link = from.lock()) note_written(*state, *link, written);
          });
        });
        return true;
      });
}

} // namespace farcall::tcp
