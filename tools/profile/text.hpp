// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "profile.hpp"

#include <farcall/base/text.hpp>
#include <tools/common/json.hpp>

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {

/// Returns the last part of a path, which is the file's name.
[[nodiscard]] std::string_view base_name(std::string_view path) noexcept;

/// Returns the name to display for a frame. Returns "[unknown]" if its function has no name.
[[nodiscard]] std::string name_of(const profile_frame& frame);
/// Returns a text such as "node 2: solver (4711) on ibiza". The node is left out for processes
/// outside of jobs, and the machine for processes of this machine.
[[nodiscard]] std::string process_name(const profile_thread& thread);
/// Returns "worker (4712)".
[[nodiscard]] std::string thread_name(const profile_thread& thread);
/// Returns the name of an activity: "computes", "waits" or "idle".
[[nodiscard]] std::string_view name_of(activity does) noexcept;

/// Returns "12.3"; "0.0" if `whole` is 0.
[[nodiscard]] std::string percent(std::uint64_t part, std::uint64_t whole);

/// Makes a JSON array of numbers or texts, each of which must be written as JSON already. They are
/// passed as text, because a value of type json for each of them would take a hundred bytes.
[[nodiscard]] json json_list(const std::vector<std::string>& written);
template <class Number>
[[nodiscard]] json json_numbers(const std::vector<Number>& numbers) {
  std::string text = "[";
  for (const Number number : numbers) {
    if (text.size() > 1) text += ',';
    text += json(number).dump();
  }
  return json::from_text(text + ']');
}

/// Writes the text to `to` and flushes. Throws failed_run with the system's reason and with `name`,
/// which is the destination's name.
void write_text(std::FILE* to, std::string_view text, const std::string& name);

} // namespace farcall::tool
