// SPDX-License-Identifier: Apache-2.0
#include "pointed_functions.hpp"

#include <tools/common/elf_file.hpp>

#include <farcall/am/message.hpp>
#include <farcall/base/symbol_name.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/call/callable_description.hpp>

#include <fmt/format.h>

#include <fcntl.h>

namespace farcall::tool {

namespace {

/// Function handles below this number are addresses in the program's file.
constexpr std::uint32_t end_of_addresses = std::uint32_t{1} << 31;

std::string name_in_program(pid_t process, std::uint32_t address) {
  const std::string path = fmt::format("/proc/{}/exe", process);
  const unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  const std::string symbol(elf_file(file.get()).function_at(address));
  return symbol.empty() ? symbol : demangle_symbol(symbol);
}

} // namespace

void pointed_functions::add_names(job_sample::process& p) {
  for (const auto& [what, looks] : p.running) {
    const auto key = static_cast<std::uint32_t>(what);
    const auto handle = static_cast<std::uint32_t>(what >> 32);
    if (handle == 0 || handle >= end_of_addresses || key < am::first_user_key) continue;
    const std::size_t at = key - am::first_user_key;
    if (at >= p.counts.functions.size()) continue;
    const std::string& handler = p.counts.functions[at];
    if (describe_callable(handler, "").kind != "pointer") continue;
    const auto [known, is_new] = known_.try_emplace({p.file, handle});
    if (is_new) known->second = name_in_program(p.number, handle);
    if (!known->second.empty()) p.counts.named.push_back({handler, handle, known->second});
  }
}

} // namespace farcall::tool
