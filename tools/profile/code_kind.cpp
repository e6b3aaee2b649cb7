// SPDX-License-Identifier: Apache-2.0
#include "code_kind.hpp"

#include "activity.hpp"
#include "text.hpp"

#include <algorithm>
#include <iterator>

namespace farcall::tool {

namespace {

/// True if a name begins with a word of the list.
template <std::size_t Size>
bool begins_with(std::string_view name, const std::string_view (&words)[Size]) {
  return std::ranges::any_of(words, [&](std::string_view w) { return name.starts_with(w); });
}

/// True for a file in a folder of a layer of farcall, such as "…/farcall/call/invoke.hpp".
bool is_source_of_farcall(std::string_view file) {
  static constexpr std::string_view layers[] = {"base",   "memory", "trace", "transport", "job",
                                                "am",     "call",   "async", "copy",      "offload",
                                                "server", "files",  "gpu",   "native",    "c"};
  constexpr std::string_view folder = "/farcall/";
  const std::size_t at = file.rfind(folder);
  if (at == std::string_view::npos) return false;
  const std::string_view below = file.substr(at + folder.size());
  const std::string_view layer = below.substr(0, below.find('/'));
  return std::ranges::find(layers, layer) != std::end(layers);
}

} // namespace

code_kinds::code_kinds(const profile& seen) {
  for (const profile_thread& thread : seen.threads) {
    if (!thread.program.empty()) programs_.push_back(thread.program);
  }
  std::sort(programs_.begin(), programs_.end());
  programs_.erase(std::unique(programs_.begin(), programs_.end()), programs_.end());
}

code_kind code_kinds::kind_of(const profile_frame& frame) const {
  // A name stays mangled if it cannot be demangled.
  static constexpr std::string_view of_farcall[] = {"farcall::", "_ZN7farcall", "_ZNK7farcall",
                                                    "_ZZN7farcall"};
  static constexpr std::string_view of_libraries[] = {"std::", "__gnu_cxx::", "_ZNSt", "_ZSt",
                                                      "_start"};
  static constexpr std::string_view folders[] = {"/usr/lib", "/lib", "/usr/local/lib", "["};
  static constexpr std::string_view headers[] = {"/usr/include/", "/usr/lib/"};
  const std::string_view name = without_result(frame.function);
  if (begins_with(name, of_farcall) || is_source_of_farcall(frame.file) ||
      base_name(frame.module).starts_with("libfarcall"))
    return code_kind::farcall;
  if (frame.module.empty() || begins_with(name, of_libraries) || begins_with(frame.file, headers))
    return code_kind::library;
  if (std::binary_search(programs_.begin(), programs_.end(), frame.module))
    return code_kind::program;
  return begins_with(frame.module, folders) ? code_kind::library : code_kind::program;
}

bool passes_call_on(std::string_view function) {
  static constexpr std::string_view names[] = {
      "std::__invoke",     "std::invoke",     "std::apply",
      "std::__apply_impl", "std::function",   "std::_Function_handler",
      "std::visit",        "std::__do_visit", "std::__detail::__variant"};
  return begins_with(without_result(function), names);
}

} // namespace farcall::tool
