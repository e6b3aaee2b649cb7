#pragma once

#include "profile.hpp"

#include <farcall/base/text.hpp>
#include <tools/common/json.hpp>

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {

/// The last part of a path.
[[nodiscard]] std::string_view base_name(std::string_view path) noexcept;

/// What a frame is shown as: "[unknown]" where its function's name is empty.
[[nodiscard]] std::string name_of(const profile_frame& frame);
/// "node 2: solver (4711)"; without the node where the process is none of a job, and with its
/// machine where that is another: "node 2: solver (4711) on ibiza".
[[nodiscard]] std::string process_name(const profile_thread& thread);
/// "worker (4712)".
[[nodiscard]] std::string thread_name(const profile_thread& thread);
/// "computes", "waits", "idle".
[[nodiscard]] std::string_view name_of(activity does) noexcept;

/// "12.3", "0.0" of nothing.
[[nodiscard]] std::string percent(std::uint64_t part, std::uint64_t whole);

/// An array of many numbers, or of texts that are JSON already; as a json of their own they would
/// take a hundred bytes each.
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

/// Writes all of it and flushes. Throws failed_run, with the system's reason, when that fails;
/// `name` says in it where to.
void write_text(std::FILE* to, std::string_view text, const std::string& name);

} // namespace farcall::tool
