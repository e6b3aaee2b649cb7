// SPDX-License-Identifier: Apache-2.0
#include "perf_map.hpp"

#include <tools/common/elf_file.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <iterator>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

constexpr std::size_t max_map_bytes = std::size_t{64} << 20;

/// Removes a hexadecimal number and the following space from the line, and returns the number in
/// `value`. Returns false if the line does not begin like this.
bool take_number(std::string_view& line, std::uint64_t& value) {
  if (line.starts_with("0x")) line.remove_prefix(2);
  const char* const end = line.data() + line.size();
  const auto [rest, error] = std::from_chars(line.data(), end, value, 16);
  if (error != std::errc{} || rest == end || *rest != ' ') return false;
  line.remove_prefix(static_cast<std::size_t>(rest - line.data()) + 1);
  return true;
}

} // namespace

perf_map::perf_map(int file) {
  std::string buffer(std::size_t{1} << 16, '\0');
  while (text_.size() < max_map_bytes) {
    const ssize_t got = pread(file, buffer.data(), buffer.size(), static_cast<off_t>(text_.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text_.append(buffer, 0, static_cast<std::size_t>(got));
  }
  for (std::string_view rest = text_; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    read_line(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  std::ranges::stable_sort(functions_, {}, &function::address);
}

void perf_map::read_line(std::string_view line) {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  if (!take_number(line, address) || !take_number(line, bytes)) return;
  functions_.push_back({address, bytes, line.substr(0, elf_file::max_name)});
}

std::string_view perf_map::function_at(std::uint64_t address) const {
  const auto next = std::ranges::upper_bound(functions_, address, {}, &function::address);
  if (next == functions_.begin()) return {};
  const function& found = *std::prev(next);
  return address - found.address < found.bytes ? found.name : std::string_view();
}

std::string perf_map_path(pid_t process) { return fmt::format("/tmp/perf-{}.map", process); }

bool is_perf_map(std::string_view path) {
  return path.starts_with("/tmp/perf-") && path.ends_with(".map");
}

unique_fd open_perf_map(pid_t process) {
  struct stat owner{};
  if (stat(fmt::format("/proc/{}", process).c_str(), &owner) != 0) return {};
  unique_fd file(open(perf_map_path(process).c_str(),
                      O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW));
  struct stat status{};
  if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return status.st_uid == owner.st_uid || status.st_uid == 0 ? std::move(file) : unique_fd();
}

} // namespace farcall::tool
