// SPDX-License-Identifier: Apache-2.0
#include "region.hpp"

#include <farcall/base/error.hpp>

#include <algorithm>

namespace farcall::openmp {

namespace {

constexpr std::string_view digits = "0123456789";

} // namespace

std::string region_text(std::string_view name) {
  // The compiler's form is __omp_offloading_<device>_<file>_<function>_l<line>, with _<number> at
  // the end if a line has several regions.
  constexpr std::string_view prefix = "__omp_offloading_";
  std::string whole = "function " + std::string(name);
  if (!name.starts_with(prefix)) return whole;
  std::string_view rest = name.substr(prefix.size());
  for (int part = 0; part < 2; ++part) {
    const std::size_t end = rest.find('_');
    if (end == std::string_view::npos) return whole;
    rest.remove_prefix(end + 1);
  }
  const std::size_t mark = rest.rfind("_l");
  if (mark == std::string_view::npos) return whole;
  std::string_view line = rest.substr(mark + 2);
  line = line.substr(0, line.find_first_not_of(digits));
  if (line.empty()) return whole;
  const std::string function(rest.substr(0, mark));
  return "region in " + demangle(function.c_str()) + ", line " + std::string(line);
}

std::string one_line(std::string_view text) {
  // Lines after the functions of the program: the device's own functions, and a note on addresses
  // of other nodes, which regions do not have.
  constexpr std::string_view others[] = {"ffi_call", "farcall::", "An address of another node"};
  const auto is_other = [&](std::string_view part) {
    return part.find(" in libffi.so") != std::string_view::npos ||
           std::ranges::any_of(others, [&](std::string_view o) { return part.starts_with(o); });
  };
  std::string line;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    if (part.empty()) continue;
    if (!line.empty() && is_other(part)) break;
    if (!line.empty()) line += line.ends_with(" in") ? " " : ", ";
    line += part;
  }
  return line;
}

} // namespace farcall::openmp
