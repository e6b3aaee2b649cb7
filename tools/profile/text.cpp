// SPDX-License-Identifier: Apache-2.0
#include "text.hpp"

#include <tools/common/outcome.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace farcall::tool {

std::string_view base_name(std::string_view path) noexcept {
  return path.substr(path.find_last_of('/') + 1);
}

std::string name_of(const profile_frame& frame) {
  return frame.function.empty() ? "[unknown]" : valid_text(frame.function);
}

std::string process_name(const profile_thread& thread) {
  std::string name = thread.node == no_node ? "" : fmt::format("node {}: ", thread.node);
  const std::string program = valid_text(base_name(thread.program));
  return name + fmt::format("{} ({}){}", program.empty() ? "process" : program, thread.process,
                            thread.machine.empty() ? "" : " on " + valid_text(thread.machine));
}

std::string thread_name(const profile_thread& thread) {
  const std::string name = valid_text(thread.name);
  return fmt::format("{} ({})", name.empty() ? "thread" : name, thread.thread);
}

std::string_view name_of(activity does) noexcept {
  return does == activity::computes ? "computes" : does == activity::waits ? "waits" : "idle";
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  const double share =
      whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
  return fmt::format("{:.1f}", share);
}

json json_list(const std::vector<std::string>& written) {
  return json::from_text(fmt::format("[{}]", fmt::join(written, ",")));
}

void write_text(std::FILE* to, std::string_view text, const std::string& name) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), to) == text.size() && std::fflush(to) == 0) return;
  const int reason = errno;
  throw failed_run("cannot write " + name +
                   (reason == 0 ? "" : ": " + std::generic_category().message(reason)));
}

} // namespace farcall::tool
