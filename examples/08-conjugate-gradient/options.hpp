/// \file
/// Command line of the example.
#pragma once

#include "solver.hpp"

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace cg {

struct options {
  std::string matrix;                          ///< file to read; empty: a Poisson problem
  std::uint64_t edge = 32;                     ///< of the Poisson grid
  double tolerance = 1e-10;                    ///< of the relative residual
  std::optional<std::uint64_t> max_iterations; ///< none: ten per row
  preconditioner precondition = preconditioner::jacobi;
  std::string targets; ///< target URLs; empty: farcall's own default
  bool json = false;
  bool help = false;
};

/// The command line makes no sense; what() says why in one line.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Arguments that begin with `--farcall-` are left for the job. Throws usage_error.
options parse_options(int argc, const char* const* argv);

extern const char* const usage_text;

} // namespace cg
