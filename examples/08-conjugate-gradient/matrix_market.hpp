/// \file
/// Reads a symmetric positive definite matrix from a Matrix Market file.
///
/// Accepted: `matrix coordinate`, `real` or `integer`, `symmetric` or `general` when the entries
/// are symmetric all the same. Everything that conjugate gradients cannot use is refused with one
/// line that names the file, the line and the cause.
#pragma once

#include "sparse.hpp"

#include <filesystem>
#include <istream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace cg {

/// What is wrong with an input: "FILE:LINE: cause", one line without control characters.
class input_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Two entries of a `general` file count as equal when they differ by no more than this,
/// relatively.
inline constexpr double symmetry_tolerance = 1e-12;

/// Reads a file; throws input_error.
csr_matrix read_matrix_market(const std::filesystem::path& path);

/// Reads from a stream; `name` stands for the file in messages. Throws input_error.
/// Memory grows with what the stream holds, never with what its header promises.
csr_matrix parse_matrix_market(std::istream& in, std::string name);

/// `text` fit for a one-line message: control characters replaced, cut after `longest` characters.
std::string printable(std::string_view text, std::size_t longest = std::string_view::npos);

} // namespace cg
