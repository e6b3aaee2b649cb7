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

/// True for memory that comes from no file, and may hold code that the process has compiled.
[[nodiscard]] bool is_anonymous(const map_record& mapping);

/// A file that code was mapped from.
struct module_file {
  std::string path;
  unique_fd file; ///< none where it could not be opened
};

/// The files that sampled processes have mapped. Each is opened when it is first seen, while the
/// process has it: later it may be deleted, or another be in its place. One thread.
class modules {
 public:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  /// The place of a mapping's file; none for memory that comes from no file, except the kernel's
  /// own library ("[vdso]"), and code that the process has compiled and described in a perf_map, in
  /// which offsets are addresses. Opens it, by way of the process where that still lives.
  [[nodiscard]] std::uint32_t add(pid_t process, const map_record& mapping);
  /// Opens perf_maps that processes have written since their code was mapped.
  void look_for_perf_maps();
  [[nodiscard]] const std::vector<module_file>& all() const { return all_; }

 private:
  using key = std::tuple<std::string, std::uint64_t, std::uint64_t>;

  [[nodiscard]] std::uint32_t add_perf_map(pid_t process);

  std::map<key, std::uint32_t> places_;
  std::vector<module_file> all_;
  std::vector<std::pair<pid_t, std::uint32_t>> without_maps_; ///< processes with anonymous code
};

/// Which code is where in one process, now.
class address_space {
 public:
  struct mapping {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    std::uint64_t file_offset = 0; ///< of `start`
    std::uint32_t module = modules::none;
  };

  /// Takes the place of what was there.
  void add(const mapping& made);
  /// Null where there is none.
  [[nodiscard]] const mapping* find(std::uint64_t address) const;
  [[nodiscard]] const std::map<std::uint64_t, mapping>& all() const { return mappings_; }
  /// Another after each change, also of others; a copy has that of its original.
  [[nodiscard]] unsigned version() const { return version_; }

 private:
  std::map<std::uint64_t, mapping> mappings_; ///< by their starts; they do not overlap
  unsigned version_ = 0;
};

} // namespace farcall::tool
