// SPDX-License-Identifier: Apache-2.0
#include "symbolizer.hpp"

#include "perf_map.hpp"
#include "rust_name.hpp"
#include "source_frames.hpp"
#include <tools/common/elf_file.hpp>

#include <farcall/base/text.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

namespace farcall::tool {

namespace {

namespace fs = std::filesystem;

/// Returns the paths at which a module's separate debug file may be installed. The paths follow the
/// conventions of Linux distributions.
std::vector<std::string> debug_files(const module_file& module, const elf_file& elf) {
  std::vector<std::string> files;
  const std::string& id = elf.build_id();
  if (id.size() > 2)
    files.push_back(
        fmt::format("/usr/lib/debug/.build-id/{}/{}.debug", id.substr(0, 2), id.substr(2)));
  if (!elf.debug_link().empty() && elf.debug_link().find('/') == std::string::npos) {
    const std::string folder = fs::path(module.path).parent_path().string();
    files.push_back(fmt::format("{}/{}", folder, elf.debug_link()));
    files.push_back(fmt::format("{}/.debug/{}", folder, elf.debug_link()));
    files.push_back(fmt::format("/usr/lib/debug{}/{}", folder, elf.debug_link()));
  }
  return files;
}

/// Returns the CRC-32 of the file, computed as for ".gnu_debuglink". Returns nothing if the file
/// cannot be read, or is too large for debug information.
std::optional<std::uint32_t> checksum_of(int file) {
  constexpr off_t largest = off_t{16} << 30;
  std::vector<unsigned char> buffer(std::size_t{1} << 20);
  uLong sum = crc32(0, nullptr, 0);
  for (off_t at = 0; at < largest;) {
    const ssize_t got = pread(file, buffer.data(), buffer.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {};
    if (got == 0) return static_cast<std::uint32_t>(sum);
    sum = crc32(sum, buffer.data(), static_cast<uInt>(got));
    at += got;
  }
  return {};
}

bool is_same_file(int one, int other) {
  struct stat of_one{};
  struct stat of_other{};
  return fstat(one, &of_one) == 0 && fstat(other, &of_other) == 0 &&
         of_one.st_dev == of_other.st_dev && of_one.st_ino == of_other.st_ino;
}

/// True if the debug file belongs to the module. If both files have a build id, these must be
/// equal. Otherwise the debug file's checksum must be the one in the module's ".gnu_debuglink".
bool belongs_to(const elf_file& elf, const elf_file& debug, int debug_file) {
  if (!elf.build_id().empty() && !debug.build_id().empty())
    return elf.build_id() == debug.build_id();
  const auto wanted = elf.debug_link_checksum();
  return wanted && checksum_of(debug_file) == wanted;
}

/// Opens the first installed debug file that belongs to the module. The module's own file is
/// skipped.
unique_fd open_debug_file(const module_file& module, const elf_file& elf) {
  for (const std::string& path : debug_files(module, elf)) {
    std::error_code failure;
    if (!fs::is_regular_file(path, failure)) continue;
    unique_fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (!file || is_same_file(file.get(), module.file.get())) continue;
    const elf_file found(file.get());
    if (found.is_valid() && belongs_to(elf, found, file.get())) return file;
  }
  return {};
}

/// Cache of demangled names, so that each name is demangled only once.
class function_names {
 public:
  const std::string& of(std::string_view mangled) {
    const auto [at, is_new] = names_.try_emplace(mangled);
    if (is_new) at->second = plain(mangled);
    return at->second;
  }

 private:
  /// Returns the demangled name, without a suffix such as in "name.cold" or "name.part.0". The
  /// compiler gives such names to the parts of a function that it has split.
  static std::string plain(std::string_view mangled) {
    constexpr auto none = std::string_view::npos;
    const std::string_view end = mangled.ends_with("@plt") ? "@plt" : "";
    mangled.remove_suffix(end.size());
    const std::size_t dot = mangled.starts_with("_Z") ? mangled.find('.') : none;
    std::string name = readable_function(mangled.substr(0, dot));
    name += end;
    name.resize(std::min(name.size(), elf_file::max_name));
    return name;
  }

  std::unordered_map<std::string_view, std::string> names_;
};

} // namespace

namespace {

std::vector<symbol> compiled_functions(const module_file& module,
                                       std::span<const std::uint64_t> offsets) {
  const perf_map functions(module.file.get());
  std::vector<symbol> symbols;
  for (const std::uint64_t address : offsets) {
    const std::string_view name = functions.function_at(address);
    source_frame frame;
    frame.function = name.empty() ? address_text(address) : std::string(name);
    symbols.push_back({address, {std::move(frame)}});
  }
  return symbols;
}

} // namespace

std::string address_text(std::uint64_t address) { return fmt::format("{:#x}", address); }

std::vector<symbol> symbolize(const module_file& module, std::span<const std::uint64_t> offsets) {
  if (is_perf_map(module.path)) return compiled_functions(module, offsets);
  std::vector<symbol> symbols(offsets.size());
  elf_file elf(module.file.get());
  unique_fd debug;
  if (elf.is_valid() && (!elf.has_full_symbols() || !elf.has_debug_information())) {
    debug = open_debug_file(module, elf);
    elf_file separate(debug.get());
    if (!elf.has_full_symbols() && separate.has_full_symbols()) elf.take_functions_of(separate);
  }
  std::vector<std::uint64_t> addresses(offsets.size());
  for (std::size_t i = 0; i < offsets.size(); ++i)
    addresses[i] = symbols[i].address = elf.address_of(offsets[i]).value_or(offsets[i]);
  // Sort the addresses for the lookup. They may be in another order than the offsets, because
  // segments may be ordered differently in memory and in the file.
  std::vector<std::size_t> order(offsets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(addresses[i], i); });
  std::ranges::sort(addresses);
  const int with_lines = elf.has_debug_information() ? module.file.get() : debug.get();
  if (with_lines >= 0) {
    const std::string why = read_source_frames_apart(
        with_lines, addresses, [&](std::size_t index, std::vector<source_frame> frames) {
          symbols[order[index]].frames = std::move(frames);
        });
    if (!why.empty()) {
      fmt::print(stderr,
                 "farcall prof: the debug information of {} is damaged, so lines and inlined "
                 "functions are missing: {}\n",
                 valid_text(module.path), why);
    }
  }
  function_names names;
  for (symbol& s : symbols) {
    if (s.frames.empty()) s.frames.emplace_back();
    source_frame& outermost = s.frames.back();
    // Prefer the name in the symbol table, because it has the types of the arguments. The name in
    // the debug information lacks them.
    if (const std::string_view name = elf.function_at(s.address); !name.empty())
      outermost.function = names.of(name);
    for (source_frame& frame : s.frames) {
      if (frame.function.empty()) frame.function = address_text(s.address);
    }
  }
  return symbols;
}

} // namespace farcall::tool
