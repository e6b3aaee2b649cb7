// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/files/file_view.hpp>

#include <array>
#include <charconv>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

namespace farcall::files {

file_view own_file_view() noexcept {
  file_view v;
  v.user = ::geteuid();
  struct stat s{};
  if (::stat("/proc/self/ns/mnt", &s) == 0) v.mounts = s.st_ino;
  if (::stat("/", &s) == 0) {
    v.root_device = s.st_dev;
    v.root_inode = s.st_ino;
  }
  return v;
}

std::string text_of(const file_view& view) {
  return std::to_string(view.user) + "/" + std::to_string(view.mounts) + "/" +
         std::to_string(view.root_device) + "/" + std::to_string(view.root_inode);
}

file_view parse_file_view(std::string_view text) {
  std::array<std::uint64_t, 4> numbers{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i != 0) {
      if (at == end || *at != '/') throw error("this is no view of files");
      ++at;
    }
    const auto [next, why] = std::from_chars(at, end, numbers[i]);
    if (why != std::errc{}) throw error("this is no view of files");
    at = next;
  }
  if (at != end) throw error("this is no view of files");
  return {numbers[0], numbers[1], numbers[2], numbers[3]};
}

} // namespace farcall::files
