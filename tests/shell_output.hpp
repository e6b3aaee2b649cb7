// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdio>
#include <string>

namespace farcall::test {

/// Runs shell commands until the first one fails. Returns all of their output, and the status if it
/// is not 0.
inline std::string shell_output(const std::string& commands) {
  std::string said;
  // NOLINTNEXTLINE(cert-env33-c): a shell is what is tested
  std::FILE* const out = ::popen(("exec 2>&1; set -e\n" + commands).c_str(), "r");
  if (out == nullptr) return "popen";
  std::array<char, 4096> piece{};
  for (std::size_t got = 0; (got = std::fread(piece.data(), 1, piece.size(), out)) > 0;)
    said.append(piece.data(), got);
  const int status = ::pclose(out);
  return status == 0 ? said : said + "[status " + std::to_string(status) + "]";
}

} // namespace farcall::test
