// SPDX-License-Identifier: Apache-2.0
#include "source_lines.hpp"

#if FARCALL_VEO_HAS_DWARF

#include "debug_info.hpp"
#include "loaded_module.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include <csignal>
#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::veo {
namespace {

constexpr const char* option = "--farcall-veo-source-lines";
constexpr std::size_t max_places = 32;
constexpr std::size_t digits = 17;

void put_address(std::array<char, digits>& text, std::uint64_t address) noexcept {
  std::size_t at = digits - 1;
  text[at] = 0;
  do {
    text[--at] = "0123456789abcdef"[address % 16];
    address /= 16;
  } while (address != 0);
  std::memmove(text.data(), text.data() + at, digits - at);
}

/// Waits at most 3 s for the end of the child process, then kills the child.
void wait_for(pid_t child) noexcept {
  constexpr timespec moment{.tv_sec = 0, .tv_nsec = 2'000'000};
  constexpr int max_moments = 1'500;
  for (int i = 0; i < max_moments; ++i) {
    if (::waitpid(child, nullptr, WNOHANG) != 0) return;
    ::nanosleep(&moment, nullptr);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

} // namespace

void write_source_lines(std::span<void* const> places) noexcept {
  char program[] = "/proc/self/exe";
  std::array<char*, 3 * max_places + 3> words{};
  std::array<std::array<char, digits>, max_places> addresses;
  std::array<std::array<char, digits>, max_places> bases;
  std::size_t count = 0;
  words[count++] = program;
  words[count++] = const_cast<char*>(option);
  for (std::size_t i = 0; i < places.size() && i < max_places; ++i) {
    Dl_info info{};
    if (::dladdr(places[i], &info) == 0 || info.dli_fname == nullptr) continue;
    // Use /proc/self/exe for a name without a slash: it is the program itself, whose recorded name
    // can be any argv[0].
    char* const file =
        std::strchr(info.dli_fname, '/') == nullptr ? program : const_cast<char*>(info.dli_fname);
    // Subtract 1 from a return address to get an address inside the call, because a return address
    // is behind the call.
    put_address(addresses[i], reinterpret_cast<std::uintptr_t>(places[i]) -
                                  reinterpret_cast<std::uintptr_t>(info.dli_fbase) -
                                  (i == 0 ? 0 : 1));
    words[count++] = file;
    words[count++] = addresses[i].data();
    put_address(bases[i], reinterpret_cast<std::uintptr_t>(info.dli_fbase));
    words[count++] = bases[i].data();
  }
  pid_t child = 0;
  if (count > 2 && ::posix_spawn(&child, program, nullptr, nullptr, words.data(), environ) == 0) {
    wait_for(child);
  }
}

bool is_for_source_lines(int argc, char** argv) noexcept {
  if (argc < 2 || std::strcmp(argv[1], option) != 0) return false;
  constexpr int hexadecimal = 16;
  for (int i = 2; i + 2 < argc; i += 3) {
    const std::uint64_t base = std::strtoull(argv[i + 2], nullptr, hexadecimal);
    // The file can be opened by its mapping, because the failed process waits and still has the
    // file mapped.
    const debug_info information(open_mapped_file(::getppid(), base, argv[i]));
    const std::string line = information.line_at(std::strtoull(argv[i + 1], nullptr, hexadecimal));
    if (!line.empty()) std::fprintf(stderr, "  at %s\n", line.c_str());
  }
  return true;
}

} // namespace farcall::veo

#else

namespace farcall::veo {

void write_source_lines(std::span<void* const> /*places*/) noexcept {}
bool is_for_source_lines(int /*argc*/, char** /*argv*/) noexcept { return false; }

} // namespace farcall::veo

#endif
