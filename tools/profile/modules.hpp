// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "perf_record.hpp"

#include <farcall/base/unique_fd.hpp>

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace farcall::tool {

/// True if the mapping has no file, so that its memory may hold code that the process has compiled
/// itself.
[[nodiscard]] bool is_anonymous(const map_record& mapping);

/// A file from which code was mapped.
struct module_file {
  std::string path;
  unique_fd file; ///< descriptor of the file; empty if the file could not be opened
};

/// Files that sampled processes have mapped. A file is opened when it is first seen, while the
/// process has it mapped, because it may be deleted or replaced later. Not thread-safe.
class modules {
 public:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  /// Returns the index in all() of a mapping's file. Opens the file when it is first seen, through
  /// the process's folder in /proc if the process still lives. Anonymous memory has the index of
  /// the process's perf_map, even if this file does not exist yet. Offsets in a perf_map are
  /// addresses. The kernel's library ("[vdso]") has an index in 64-bit programs. Returns `none` for
  /// other memory without a file.
  [[nodiscard]] std::uint32_t add(pid_t process, const map_record& mapping);
  /// Opens the perf_maps that did not exist yet when the code of their processes was mapped.
  void look_for_perf_maps();
  [[nodiscard]] const std::vector<module_file>& all() const { return all_; }

 private:
  using key = std::tuple<std::string, std::uint64_t, std::uint64_t>;

  [[nodiscard]] std::uint32_t add_perf_map(pid_t process);

  std::map<key, std::uint32_t> places_;
  std::vector<module_file> all_;
  std::vector<std::pair<pid_t, std::uint32_t>> without_maps_; ///< processes with anonymous code
};

/// Current executable mappings of one process.
class address_space {
 public:
  struct mapping {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    std::uint64_t file_offset = 0; ///< file offset of `start`
    std::uint32_t module = modules::none;
  };

  /// Adds a mapping. Older mappings that it overlaps are removed or shortened.
  void add(const mapping& made);
  /// Returns the mapping that holds the address. Returns null if there is none.
  [[nodiscard]] const mapping* find(std::uint64_t address) const;
  [[nodiscard]] const std::map<std::uint64_t, mapping>& all() const { return mappings_; }
  /// Returns the version number of the mappings. Each change gives a new number, which no other
  /// address space has had. A copy keeps the number until it is changed.
  [[nodiscard]] unsigned version() const { return version_; }

 private:
  std::map<std::uint64_t, mapping> mappings_; ///< mappings by start address; they do not overlap
  unsigned version_ = 0;
};

} // namespace farcall::tool
