// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ham::detail {

/// Splits `text` at each delimiter, appends the parts to `pieces`, and returns `pieces`.
std::vector<std::string>& split(const std::string& text, char delimiter,
                                std::vector<std::string>& pieces);
[[nodiscard]] std::vector<std::string> split(const std::string& text, char delimiter);

/// Options of HAM. They are read from the environment variable HAM_OPTIONS if it is set, otherwise
/// from the command line. The command line is not changed.
class options {
 public:
  /// Stores pointers to the arguments of main(). These arguments must stay valid as long as this
  /// object.
  options(int* argc_ptr, char** argv_ptr[]) : argc_(argc_ptr), argv_(argv_ptr) {}

  /// Reads the options and logs a warning for each unknown option. Throws farcall::setting_error.
  void parse();

  [[nodiscard]] int* argc_ptr() const { return argc_; }
  [[nodiscard]] char*** argv_ptr() const { return argv_; }

  /// Returns the number of the processor to which this process is to be pinned; -1 if none is
  /// given.
  [[nodiscard]] const int& cpu_affinity() const { return cpu_; }
  /// Returns the number of processes of the job, including the host; none if no number is given.
  [[nodiscard]] const std::optional<std::uint64_t>& process_count() const { return processes_; }
  /// True if the user has asked for the list of options.
  [[nodiscard]] bool help() const { return help_; }

 private:
  int* argc_;
  char*** argv_;
  int cpu_ = -1;
  std::optional<std::uint64_t> processes_;
  bool help_ = false;
};

} // namespace ham::detail
