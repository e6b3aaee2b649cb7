// SPDX-License-Identifier: Apache-2.0
#include "demangle_apart.hpp"

#include <tools/common/elf_file.hpp>

#include <farcall/base/symbol_name.hpp>
#include <farcall/base/unique_fd.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <exception>
#include <fstream>
#include <system_error>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

/// Limits the memory of this process to a little more than it has, and its processor time.
void limit_process() {
  constexpr rlim_t more_bytes = rlim_t{64} << 20;
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t bytes = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + more_bytes;
  const rlimit memory{bytes, bytes};
  const rlimit seconds{1, 1};
  ::setrlimit(RLIMIT_AS, &memory);
  ::setrlimit(RLIMIT_CPU, &seconds);
}

[[noreturn]] void demangle_into(int pipe, const std::string& name) {
  try {
    limit_process();
    const std::string text = demangle_unlimited(name.c_str());
    if (text.size() <= elf_file::max_name) {
      for (std::size_t at = 0; at < text.size();) {
        const ssize_t put = ::write(pipe, text.data() + at, text.size() - at);
        if (put <= 0) break;
        at += static_cast<std::size_t>(put);
      }
    }
  } catch (const std::exception&) {
    // The parent gets no text, and keeps the mangled name.
  }
  ::_exit(0);
}

} // namespace

std::string demangle_apart(const std::string& name) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return name;
  const unique_fd from(ends[0]);
  unique_fd to(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return name;
  if (child == 0) demangle_into(to.get(), name);
  to.reset();
  std::string text;
  std::array<char, 4096> piece{};
  for (;;) {
    const ssize_t got = ::read(from.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const bool has_ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return has_ended_well && !text.empty() ? text : name;
}

std::string first_names(std::string_view mangled) {
  if (!mangled.starts_with("_Z")) return std::string(mangled);
  std::size_t at = std::min(mangled.find_first_not_of('Z', 2), mangled.size());
  const bool is_local = at > 2;
  if (at < mangled.size() && mangled[at] == 'N')
    at = std::min(mangled.find_first_not_of("rVKRO", at + 1), mangled.size());
  std::string text;
  for (;;) {
    const std::string_view rest = mangled.substr(at);
    std::string_view name = "std";
    std::size_t length = 2;
    if (!rest.starts_with("St")) {
      std::size_t bytes = 0;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), bytes);
      const auto digits = static_cast<std::size_t>(end - rest.data());
      if (error != std::errc() || bytes == 0 || bytes > rest.size() - digits) break;
      name = rest.substr(digits, bytes);
      length = digits + bytes;
    }
    if (name.starts_with("_GLOBAL__N")) name = "(anonymous namespace)";
    text += (text.empty() ? "" : "::") + std::string(name);
    at += length;
  }
  if (text.empty()) return std::string(mangled);
  if (at < mangled.size() && mangled[at] == 'I') text += "<…>";
  return is_local ? text + "::{…}" : text;
}

} // namespace farcall::tool
