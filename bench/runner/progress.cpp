// SPDX-License-Identifier: Apache-2.0
#include "progress.hpp"

#include <tools/common/table.hpp>

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include <sys/ioctl.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

std::size_t terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

} // namespace

std::string progress_line(const std::string& title, std::size_t done, std::size_t steps,
                          const std::string& what, std::size_t width) {
  constexpr std::size_t cells = 24;
  const std::size_t shown = steps == 0 ? cells : std::min(cells, done * cells / steps);
  const std::size_t percent = steps == 0 ? 100 : std::min<std::size_t>(100, done * 100 / steps);
  std::string line = fmt::format("{} [{}{}] {:3}% {}", title, std::string(shown, '#'),
                                 std::string(cells - shown, '.'), percent, what);
  if (display_width(line) > width) line.resize(width); // a wrapped line could not be erased
  return line;
}

progress::progress(std::string title, std::size_t steps)
    : title_(std::move(title)), steps_(steps), visible_(isatty(STDERR_FILENO) == 1) {}

progress::~progress() { finish(); }

void progress::begin_step(const std::string& what) {
  draw(what);
  ++begun_;
}

void progress::finish() {
  if (!visible_) return;
  visible_ = false;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

void progress::draw(const std::string& what) const {
  if (!visible_) return;
  const std::string line = progress_line(title_, begun_, steps_, what, terminal_width() - 1);
  std::fputs(("\r\033[K" + line).c_str(), stderr);
  std::fflush(stderr);
}

} // namespace farcall::tool
