// SPDX-License-Identifier: Apache-2.0
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

/// Counters of one core of a Vector Engine, in the order of the columns of veprof.out.
enum class ve_counter : std::uint8_t {
  usrcc, ///< cycles
  ex,    ///< instructions
  vx,    ///< vector instructions
  fpec,  ///< floating-point operations
  ve,    ///< elements of vector instructions
  vecc,  ///< cycles in which a vector instruction runs
  l1mcc, ///< cycles lost to misses of the first-level cache
  ve2,
  varec, ///< cycles in which a vector instruction computes
  vldec, ///< cycles in which a vector instruction loads
  pccc,  ///< cycles lost to conflicts at the memory port
  pmc10,
  vlec,  ///< number of elements that vector instructions have loaded
  vlcme, ///< number of loaded elements (`vlec`) that missed the last-level cache
  fmaec, ///< number of the second operations of all fused multiply-adds
  ptcc,
  ttcc,
  vl,
};
inline constexpr std::size_t ve_counters = 18;

/// A row of a veprof.out, with the counters of one function.
struct veprof_row {
  double samples = 0;
  std::array<std::optional<double>, ve_counters> counters; ///< empty if not counted
  std::string symbol;

  [[nodiscard]] std::optional<double> operator[](ve_counter counter) const {
    return counters.at(static_cast<std::size_t>(counter));
  }
};

/// Content of a veprof.out. A text is empty if the file does not contain it.
struct veprof_file {
  std::string version;
  std::string pmmr; ///< value that says which counters the core was configured to count
  std::string host;
  std::string card;
  std::optional<double> mhz;
  std::vector<veprof_row> rows;
};

/// Returns the profile as rows of a veprof.out, in descending order of samples. A row has the
/// samples in which its function is the innermost one, and their time. It has no other counters,
/// because a software sampler counts nothing else. The time is given in cycles of 1000 MHz, each of
/// which is a nanosecond. Throws std::invalid_argument if the profile is damaged.
[[nodiscard]] veprof_file veprof_of(const profile& seen, std::string_view host);

/// Returns the profile as the text of a veprof.out, which SX-Aurora's veprof_display can read. Each
/// function has one instruction, because veprof_display divides by the number of instructions.
/// Unknown counters are 0, because veprof_display rejects empty fields. Throws
/// std::invalid_argument if the profile is damaged.
[[nodiscard]] std::string veprof_text(const profile& seen, std::string_view host);

/// Parses the output of veprof_text() or of SX-Aurora's veprof. If veprof_text() has made the text,
/// keeps only the samples and the time, because the other counters are placeholders. Throws
/// failed_run, with the file (`name`) and the line, if the text is no veprof.out or is truncated.
[[nodiscard]] veprof_file parse_veprof(std::string_view text, const std::string& name);

/// Returns a table for users with a row for each function and the sum of the samples. Rows are in
/// descending order of samples, and then in the order of names. A column is omitted if its counters
/// are missing in all rows. A name of more than 20 characters gets a separate line.
[[nodiscard]] std::string veprof_table(const veprof_file& file);

/// Reads a veprof.out and writes it to `to` as a table. Throws failed_run if reading or writing
/// fails.
void print_veprof(std::FILE* to, const std::string& path);

} // namespace farcall::tool
