#pragma once

#include "json.hpp"
#include "pinning.hpp"

#include <optional>
#include <string>
#include <vector>

namespace farcall::tool {

/// The circumstances that a figure is worth nothing without.
struct environment {
  std::string cpu_model;
  std::string architecture;
  std::string kernel;
  std::string compiler;   ///< of this program
  std::string build_type; ///< Release, Debug, …
  std::string hypervisor; ///< empty on bare metal
  std::string governor;   ///< frequency governor; empty where the kernel has none
  std::string load;       ///< one-minute load average when it was read: other work on the machine
  std::string clock_source;
  std::vector<int> cpus;                    ///< that this process may use
  std::string transparent_huge_pages;       ///< for private memory: always, madvise or never
  std::string transparent_huge_pages_shmem; ///< for shared memory
  long huge_pages_total = 0;                ///< the 2 MiB pool
  long huge_pages_free = 0;
  long memory_mib = 0;
  long memory_available_mib = 0;
};

[[nodiscard]] environment read_environment();

/// One JSON object for the "env" member of every benchmark.
[[nodiscard]] json environment_json(const environment& env, std::optional<core_pair> cores);

/// The lines that a benchmark prints above its table.
[[nodiscard]] std::string environment_text(const environment& env, std::optional<core_pair> cores);

/// The first line of a small file such as those under /proc and /sys, without its newline; empty
/// when it cannot be read.
[[nodiscard]] std::string first_line_of(const std::string& path);

/// The word in brackets of a kernel choice such as "always [madvise] never"; the whole text when
/// there is none.
[[nodiscard]] std::string bracketed_choice(const std::string& text);

/// The number after `key` in a file of "Key:  123 kB" lines, -1 when it is not there.
[[nodiscard]] long value_in_file(const std::string& path, const std::string& key);

} // namespace farcall::tool
