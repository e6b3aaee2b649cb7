#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ham::detail {

/// Pieces of `text` between delimiters, behind what `pieces` has.
std::vector<std::string>& split(const std::string& text, char delimiter,
                                std::vector<std::string>& pieces);
[[nodiscard]] std::vector<std::string> split(const std::string& text, char delimiter);

/// HAM's options: what the user says by HAM_OPTIONS, else by the command line, which stays as it
/// is.
class options {
 public:
  /// Of the arguments of main(), which must stay.
  options(int* argc_ptr, char** argv_ptr[]) : argc_(argc_ptr), argv_(argv_ptr) {}

  /// Reads them; warns of those that are unknown. Throws farcall::setting_error.
  void parse();

  [[nodiscard]] int* argc_ptr() const { return argc_; }
  [[nodiscard]] char*** argv_ptr() const { return argv_; }

  /// Processor for this process; less than 0 for any.
  [[nodiscard]] const int& cpu_affinity() const { return cpu_; }
  /// Processes of the job, the host included.
  [[nodiscard]] const std::optional<std::uint64_t>& process_count() const { return processes_; }
  /// The user asks for the list of options.
  [[nodiscard]] bool help() const { return help_; }

 private:
  int* argc_;
  char*** argv_;
  int cpu_ = -1;
  std::optional<std::uint64_t> processes_;
  bool help_ = false;
};

} // namespace ham::detail
