// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/line_forwarder.hpp>
#include <farcall/base/log.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include <poll.h>
#include <unistd.h>

namespace farcall {
namespace {

/// Calls `f` for each line in `lines`, without the line's end.
template <class F>
void for_each_line(std::string_view lines, const F& f) {
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    f(line);
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
  }
}

} // namespace

bool line_forwarder::take(std::string_view bytes) {
  while (!bytes.empty() && !is_broken_) {
    // Take only so many bytes at a time that at most one line of maximum length is held, because
    // the input may have any size.
    const std::string_view next = bytes.substr(0, max_ - rest_.size());
    bytes.remove_prefix(next.size());
    const std::size_t end = next.rfind('\n');
    if (end != std::string_view::npos) {
      rest_.append(next.substr(0, end + 1));
      pass(rest_);
      rest_.assign(next.substr(end + 1));
    } else {
      rest_.append(next);
    }
    if (rest_.size() < max_) continue;
    pass(rest_);
    rest_.clear();
  }
  return has_reader_;
}

bool line_forwarder::finish() {
  if (!rest_.empty()) pass(rest_);
  rest_.clear();
  return has_reader_;
}

bool line_forwarder::write(std::string_view bytes) {
  if (is_broken_ || write_all(to_, bytes)) return !is_broken_;
  is_broken_ = true;
  has_reader_ = errno != EPIPE;
  static std::atomic<bool> is_said{false};
  if (has_reader_ && !is_said.exchange(true, std::memory_order_relaxed))
    log::error("what nodes print is lost, since it cannot be written: " + reason_text(errno));
  return false;
}

bool line_forwarder::pass(std::string_view lines) {
  if (receive_) {
    for_each_line(lines, receive_);
    return true;
  }
  if (label_.empty()) return write(lines);
  std::string labelled;
  labelled.reserve(lines.size() + label_.size() + 1);
  for_each_line(
      lines, [&](std::string_view line) { labelled.append(label_).append(line).push_back('\n'); });
  // Make one write() call, so that output of other writers to the same pipe or file does not come
  // in between.
  return write(labelled);
}

std::string node_label(unsigned node) { return std::to_string(node) + ": "; }

bool write_all(int to, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(to, bytes.data(), bytes.size());
    if (wrote >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(wrote));
    } else if (errno == EAGAIN) {
      // The descriptor is non-blocking, for instance because another process that shares it has
      // changed the mode. Wait until it is writable.
      pollfd waiting{to, POLLOUT, 0};
      (void)::poll(&waiting, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

} // namespace farcall
