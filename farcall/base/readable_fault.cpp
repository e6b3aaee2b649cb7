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
constexpr std::string_view call_begin = "farcall::detail::remote_call<";
constexpr std::string_view call_end = ">::run(";

template <std::size_t N>
bool begins_with_any(std::string_view name, const std::array<std::string_view, N>& of) {
  return std::any_of(of.begin(), of.end(), [&](std::string_view b) { return name.starts_with(b); });
}

/// Functions of farcall that stand between the program's; tests are a program.
bool is_own(std::string_view name) {
  static constexpr std::array<std::string_view, 7> all{
      "farcall::detail::", "farcall::am::", "farcall::job::", "farcall::serve_",
      "farcall::(anonymous namespace)::",
      // Some lambdas in templates have a symbol that no demangler reads.
      "_ZN7farcall6detail", "_ZZN7farcall6detail"};
  // A function template has its result in front.
  if (const auto space = name.find(' '); space < name.find('(') && space < name.find('<')) {
    if (begins_with_any(name.substr(space + 1), all)) return true;
  }
  return begins_with_any(name, all);
}

/// How a process begins, and how abort() ends it.
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
    if (symbol.starts_with("An ")) {
      behind = "\n" + line;
      continue;
    }
    if (is_beyond_call) continue;
    const std::string name = symbol.starts_with("_Z") ? demangle(symbol.c_str()) : symbol;
    if (const auto call = name.find(call_begin); call != std::string::npos) {
      is_beyond_call = true;
      const auto from = call + call_begin.size();
      const auto to = name.rfind(call_end);
      // If no function stands before it, the compiler has put the function into it.
      if (functions.empty() && to != std::string::npos && to > from)
        functions = "\n" + std::string(indent) + "a call of " + name.substr(from, to - from);
      continue;
    }
    if (!is_own(name) && !is_of_system(name)) functions.append("\n").append(indent).append(name);
  }
  if (!functions.empty()) return head + functions + behind;
  // Nothing follows "in".
  if (head.ends_with(", in")) head.resize(head.size() - 4);
  if (head == "in") head.clear();
  return head + behind;
}

} // namespace farcall
