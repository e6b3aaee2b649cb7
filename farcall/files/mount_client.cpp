// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/files/io_socket.h>
#include <farcall/files/mount_client.hpp>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <sstream>
#include <string_view>
#include <system_error>

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

namespace farcall::files {
namespace {

std::string chosen(const setting& s) {
  return settings_source().text(s).value_or(settings::default_of(s));
}

/// Takes the socket to the helper out of the environment, so that children do not inherit it.
/// Returns no socket, and sets `why_not`, if there is no helper.
unique_fd take_socket(std::string& why_not) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no handler has run yet
  const char* const found = std::getenv(FARCALL_IO_MOUNT);
  const std::string value = found != nullptr ? found : "farcall-mount has not started this process";
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no handler has run yet
  (void)::unsetenv(FARCALL_IO_MOUNT);
  int fd = -1;
  const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), fd);
  if (failed == std::errc{} && end == value.data() + value.size()) return unique_fd(fd);
  why_not = value;
  return {};
}

/// Warns of folders of this machine over which the helper has put folders in memory.
void tell_of_covers() {
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    if (line.find(" - tmpfs farcall ") == std::string::npos) continue;
    std::istringstream words(line);
    std::string folder;
    for (int word = 0; word < 5; ++word)
      words >> folder;
    const std::string text =
        "the host's files are below " + folder +
        ", which this machine has without them: files that programs make in this folder itself "
        "are lost at the end of the job; make the missing folders on this machine to keep them";
    log::write(folder == "/" ? log::level::info : log::level::warning, text);
  }
}

/// Writes one shared mapping to its file if a line of /proc/self/maps describes such a mapping.
void sync_mapping(const std::string& line, std::span<const prefix> prefixes) {
  std::istringstream words(line);
  std::string range;
  std::string rights;
  std::string skipped;
  std::string path;
  words >> range >> rights >> skipped >> skipped >> skipped;
  std::getline(words >> std::ws, path);
  // A mapping that is read-only now may have been writable before.
  if (!rights.ends_with('s') || !find_prefix(prefixes, path)) return;
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  const char* const last = range.data() + range.size();
  const auto [dash, failed] = std::from_chars(range.data(), last, begin, 16);
  if (failed != std::errc{} || dash == last) return;
  (void)std::from_chars(dash + 1, last, end, 16);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the address is text
  if (end > begin) (void)::msync(reinterpret_cast<void*>(begin), end - begin, MS_SYNC);
}

} // namespace

way_of_files chosen_way() {
  const std::string way = chosen(settings::row("host-files-by"));
  return way == "mount"     ? way_of_files::mount
         : way == "preload" ? way_of_files::preload
                            : way_of_files::automatic;
}

bool has_mount_helper() noexcept {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no handler has run yet
  return std::getenv(FARCALL_IO_MOUNT) != nullptr;
}

std::string mount_by_helper(const std::string& address) {
  const std::string cache = chosen(settings::row("host-files-cache"));
  std::string why_not;
  const unique_fd socket = take_socket(why_not);
  if (!socket) return why_not;
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::current_path(failed);
  const std::string message = address + '\0' + cache;
  if (::send(socket.get(), message.data(), message.size(), MSG_NOSIGNAL) < 0)
    return "farcall-mount's helper cannot be asked: " + reason_text(errno);
  std::array<char, 4096> reply{};
  ssize_t got = 0;
  do {
    got = ::recv(socket.get(), reply.data(), reply.size(), 0);
  } while (got < 0 && errno == EINTR);
  // The helper's reply has at least its terminating zero byte.
  if (got <= 0) return "farcall-mount's helper has ended";
  if (got > 1) return {reply.data(), static_cast<std::size_t>(got) - 1};
  if (!failed) std::filesystem::current_path(folder, failed);
  tell_of_covers();
  return {};
}

void leave_mount_helper() noexcept {
  if (!has_mount_helper()) return;
  try {
    std::string ignored;
    (void)take_socket(ignored);
  } catch (const std::bad_alloc&) {
    // The helper then ends with this process.
    return;
  }
}

void sync_mappings(std::span<const prefix> prefixes) noexcept {
  try {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
      sync_mapping(line, prefixes);
  } catch (const std::exception&) {
    // Without memory for the list, the system writes the mappings when they are unmapped.
    return;
  }
}

} // namespace farcall::files
