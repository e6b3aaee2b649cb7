// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/job/joining.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include <poll.h>

namespace farcall {
namespace {

/// Time for which the host waits for a message after the started process has exited with status 0.
/// Another process that it has started may be the target, and hold the socket.
constexpr std::chrono::milliseconds time_after_exit{2'000};
/// Time for which the host waits for a message after any other end of the process.
constexpr std::chrono::milliseconds time_after_failure{200};

/// Returns the number by which a machine with the other byte order sends this kind of message.
control other_byte_order(control kind) {
  return static_cast<control>(__builtin_bswap32(static_cast<std::uint32_t>(kind)));
}

} // namespace

std::string joining::who() const { return node_text(node_) + " (\"" + process_.program() + "\")"; }

void joining::throw_not_joined(const char* what) {
  throw start_failed(who() + process_.silence_text(what), node_);
}

time_point joining::end_of_wait(time_point deadline) {
  pollfd waiting[] = {{process_.socket().fd(), POLLIN, 0}, {process_.end_fd(), POLLIN, 0}};
  if (waiting[0].fd < 0 || waiting[1].fd < 0) return deadline;
  while (::poll(waiting, 2, poll_timeout(deadline)) < 0 && errno == EINTR) {
  }
  if (waiting[0].revents != 0 || waiting[1].revents == 0) return deadline;
  (void)process_.wait(clock::now());
  const bool is_failure = process_.exit_code().value_or(0) != 0;
  const auto left = is_failure ? time_after_failure : time_after_exit;
  return std::min(deadline, clock::now() + left);
}

control_message joining::expect(control kind, const char* what, time_point deadline) {
  std::optional<control_message> message = process_.socket().receive(end_of_wait(deadline));
  if (!message) throw_not_joined(what);
  if (message->kind == control::refused) {
    throw start_failed(who() + " cannot join: " + messages::refused::decode(message->body).why,
                       node_);
  }
  if (message->kind == control::ended) {
    const auto ended = messages::ended::decode(message->body);
    // A server has reported that the process has ended. The process itself has sent no message.
    const bool may_be_another = kind == control::present && ended.code >= 0;
    throw start_failed(who() + " did not join: " + ended.how +
                           (may_be_another ? "; does the server run a farcall program that makes a "
                                             "farcall::job, or calls farcall::serve_if_target(), "
                                             "early in main()?"
                                           : ""),
                       node_);
  }
  if (message->kind == other_byte_order(kind)) {
    throw start_failed(who() + " cannot join: it has the other byte order; farcall needs one " +
                           "byte order in a job",
                       node_);
  }
  if (message->kind != kind) {
    throw start_failed(who() + " sent something else than expected; is it built with another " +
                           "farcall?",
                       node_);
  }
  return std::move(*message);
}

void joining::await_presence() {
  const control_message present = expect(control::present, "report", deadline_);
  try {
    (void)messages::present::decode(present.body);
    process_.note_joined();
  } catch (const error& e) {
    throw start_failed(who() + " cannot join: " + e.what(), node_);
  }
}

card joining::receive_card() {
  const control_message message = expect(control::joined, "join", deadline_);
  try {
    card c = messages::joined::decode(message.body).mine;
    if (c.id != node_) throw malformed_message("its card has another number");
    if (is_hosted(c)) throw malformed_message("its card says that it is no process");
    // If the card belongs to another process than the process that the host has started, refuse it.
    // The host watches the started process, and would take its end for the end of the target.
    if (const auto text = process_.replacement_text(c.pid))
      throw start_failed(node_text(node_) + *text, node_);
    return c;
  } catch (const start_failed&) {
    throw;
  } catch (const error& e) {
    throw start_failed(who() + " cannot join: " + e.what(), node_);
  }
}

void joining::let_start(const card& host) {
  if (send(messages::member{host, true}) && send(messages::start{})) return;
  constexpr const char* what = "take what it has to know about the host";
  // Sending has failed. If a server has reported that the target has ended, expect() reads this
  // report, and throws its reason.
  (void)expect(control::start, what, clock::now());
  throw_not_joined(what);
}

} // namespace farcall
