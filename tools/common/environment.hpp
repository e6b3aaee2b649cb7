// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "json.hpp"
#include "pinning.hpp"

#include <optional>
#include <string>
#include <vector>

namespace farcall::tool {

/// Properties and state of the machine, as far as results of measurements depend on them.
struct environment {
  std::string cpu_model;
  std::string architecture;
  std::string kernel;
  std::string compiler;   ///< of this program
  std::string build_type; ///< Release, Debug, …
  std::string hypervisor; ///< empty on bare metal
  std::string governor;   ///< frequency governor of the CPU; empty if the kernel has none
  std::string load;       ///< one-minute load average, which shows other work on the machine
  std::string clock_source;
  std::vector<int> cpus; ///< processors that this process may use
  /// The kernel's setting of transparent huge pages for private memory: always, madvise or never.
  std::string transparent_huge_pages;
  std::string transparent_huge_pages_shmem; ///< for shared memory
  long huge_pages_total = 0;                ///< number of pages in the pool of 2 MiB pages
  long huge_pages_free = 0;
  long memory_mib = 0;
  long memory_available_mib = 0;
};

[[nodiscard]] environment read_environment();

/// Returns the "env" object that each benchmark writes into its JSON document.
[[nodiscard]] json environment_json(const environment& env, std::optional<core_pair> cores);

/// Returns the lines about the environment that a benchmark prints above its table.
[[nodiscard]] std::string environment_text(const environment& env, std::optional<core_pair> cores);

/// Returns the first line of a file without the newline. Meant for small files, such as files of
/// /proc or /sys. Returns an empty text if the file cannot be read.
[[nodiscard]] std::string first_line_of(const std::string& path);

/// Returns the word in brackets of a kernel setting such as "always [madvise] never". Returns the
/// whole text if no word is in brackets.
[[nodiscard]] std::string bracketed_choice(const std::string& text);

/// Returns the number after `key` in a file whose lines have the form "Key:  123 kB". Returns -1 if
/// the key is missing.
[[nodiscard]] long value_in_file(const std::string& path, const std::string& key);

} // namespace farcall::tool
