// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/limited_log.hpp>

namespace farcall::log {

void limited_log::write(level of, std::string_view line) {
  for (const std::string& one : admitted(line, clock::now()))
    log::write(of, one);
}

std::vector<std::string> limited_log::admitted(std::string_view line, time_point now) {
  const std::lock_guard guard(mutex_);
  std::vector<std::string> lines;
  if (now - since_ > interval) {
    if (lines_ > max_lines) lines.push_back(std::to_string(lines_ - max_lines) + " " + what_);
    since_ = now;
    lines_ = 0;
  }
  if (++lines_ <= max_lines) lines.emplace_back(line);
  return lines;
}

} // namespace farcall::log
