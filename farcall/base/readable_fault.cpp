// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/fault_report.hpp>
#include <farcall/base/settings.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace farcall {
namespace {

constexpr std::string_view indent = "    ";
/// Beginning of the report's last line if the line is advice. Names of functions begin otherwise.
constexpr std::string_view advice_begin = "An ";
constexpr std::string_view call_begin = "farcall::detail::remote_call<";
constexpr std::string_view call_end = ">::run(";

template <std::size_t N>
bool begins_with_any(std::string_view name, const std::array<std::string_view, N>& of) {
  return std::any_of(of.begin(), of.end(), [&](std::string_view b) { return name.starts_with(b); });
}

/// True for farcall's own functions, which the report leaves out. Functions of farcall's tests
/// count as functions of a program.
bool is_own(std::string_view name) {
  static constexpr std::array<std::string_view, 7> all{
      "farcall::detail::", "farcall::am::", "farcall::job::", "farcall::serve_",
      "farcall::(anonymous namespace)::",
      // Prefixes of mangled lambdas in templates, which no demangler can read.
      "_ZN7farcall6detail", "_ZZN7farcall6detail"};
  // Skip the result type, with which the name of a function template starts.
  if (const auto space = name.find(' '); space < name.find('(') && space < name.find('<')) {
    if (begins_with_any(name.substr(space + 1), all)) return true;
  }
  return begins_with_any(name, all);
}

/// True for functions that start a process, and for functions that abort() calls.
bool is_of_system(std::string_view name) {
  static constexpr std::array<std::string_view, 14> all{
      "_start",         "__libc_start", "start_thread",   "clone",
      "abort",          "raise",        "gsignal",        "__assert_",
      "__pthread_kill", "pthread_kill", "std::terminate", "__gnu_cxx::__verbose",
      "__cxxabiv1::",   "__cxa_"};
  if (name.starts_with("__GI_")) name.remove_prefix(5);
  return begins_with_any(name, all);
}

} // namespace

std::string readable_fault(std::string_view where) {
  std::string head;
  std::string functions;
  std::string behind;
  bool is_beyond_call = false;
  for (const std::string& line : split(where, '\n')) {
    if (!line.starts_with(indent)) {
      head = line;
      continue;
    }
    const std::string symbol = line.substr(indent.size());
    if (symbol.starts_with(advice_begin)) {
      behind = "\n" + line;
      continue;
    }
    if (is_beyond_call) continue;
    const std::string name = symbol.starts_with("_Z") ? demangle(symbol.c_str()) : symbol;
    if (const auto call = name.find(call_begin); call != std::string::npos) {
      is_beyond_call = true;
      const auto from = call + call_begin.size();
      const auto to = name.rfind(call_end);
      // If the compiler has inlined the called function into the call, no function of the program
      // comes before the call. In this case the report names the call instead.
      if (functions.empty() && to != std::string::npos && to > from)
        functions = "\n" + std::string(indent) + "a call of " + name.substr(from, to - from);
      continue;
    }
    if (!is_own(name) && !is_of_system(name)) functions.append("\n").append(indent).append(name);
  }
  if (!functions.empty()) return head + functions + behind;
  // Remove the word "in" from the text, because no function follows it.
  if (head.ends_with(", in")) head.resize(head.size() - 4);
  if (head == "in") head.clear();
  return head + behind;
}

std::string fault_in_one_line(std::string_view text) {
  std::string line;
  for (const std::string& piece : split(text, '\n')) {
    const std::string words = piece.substr(std::min(piece.find_first_not_of(' '), piece.size()));
    if (line.empty()) {
      line = words;
    } else if (words.starts_with(advice_begin)) {
      const std::size_t end = words.ends_with('.') ? words.size() - 1 : words.size();
      line += " (a" + words.substr(1, end - 1) + ")";
    } else if (!words.empty()) {
      line += (line.ends_with(", in") || line.ends_with(": in") ? " " : ", ") + words;
    }
  }
  return line;
}

} // namespace farcall
