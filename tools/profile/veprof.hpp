#pragma once

#include "profile.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::tool {

/// The counters of a Vector Engine's core, in the order of the columns of veprof.out.
enum class ve_counter : std::uint8_t {
  usrcc, ///< cycles
  ex,    ///< instructions
  vx,    ///< vector instructions
  fpec,  ///< floating-point operations
  ve,    ///< elements of vector instructions
  vecc,  ///< cycles with a vector instruction
  l1mcc, ///< cycles lost to misses of the first cache
  ve2,
  varec, ///< cycles with a vector instruction that computes
  vldec, ///< cycles with a vector instruction that loads
  pccc,  ///< cycles lost to conflicts at the port to memory
  pmc10,
  vlec,  ///< elements loaded by vector instructions
  vlcme, ///< of them, those that missed the last cache
  fmaec, ///< operations of fused multiplications and additions beyond the first
  ptcc,
  ttcc,
  vl,
};
inline constexpr std::size_t ve_counters = 18;

/// A function in a veprof.out.
struct veprof_row {
  double samples = 0;
  std::array<std::optional<double>, ve_counters> counters; ///< nothing: not counted
  std::string symbol;

  [[nodiscard]] std::optional<double> operator[](ve_counter counter) const {
    return counters.at(static_cast<std::size_t>(counter));
  }
};

/// What a veprof.out says; texts are empty where it says nothing.
struct veprof_file {
  std::string version;
  std::string pmmr; ///< which counters the core was told to count
  std::string host;
  std::string card;
  std::optional<double> mhz;
  std::vector<veprof_row> rows;
};

/// The profile as a veprof.out: the samples and the time of each function, the most first, the time
/// in nanoseconds as the cycles of 1000 MHz. A sampler in software counts no more. The card is "-",
/// each function has one instruction, and other counters are 0: SX-Aurora's veprof_display takes no
/// empty fields, and divides by the number of instructions. Throws std::invalid_argument
/// for a damaged profile.
[[nodiscard]] std::string veprof_text(const profile& seen, std::string_view host);

/// Reads what veprof_text() or SX-Aurora's veprof has written; of the former, only samples and time
/// are values. Throws failed_run, which names the
/// file (`name`) and the line, for a file that is none, or has lost its end.
[[nodiscard]] veprof_file parse_veprof(std::string_view text, const std::string& name);

/// A row for each function, most samples first, then by name, and the sum of the samples. Columns
/// that need counters which no row has are not there. Names of more than 20 characters have their
/// own line.
[[nodiscard]] std::string veprof_table(const veprof_file& file);

/// Reads a veprof.out and writes its table. Throws failed_run where one of them cannot be done.
void print_veprof(std::FILE* to, const std::string& path);

} // namespace farcall::tool
