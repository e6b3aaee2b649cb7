// SPDX-License-Identifier: Apache-2.0
#include "outcome.hpp"

#include <farcall/base/error.hpp>

#include <cerrno>
#include <cstdio>

namespace farcall::tool {

std::string text_of_failed_exec(const std::string& program, int reason) {
  // The program itself exists, so ENOENT means that its interpreter or loader is missing.
  return "cannot start " + program + ": " +
         (reason == ENOENT ? "the interpreter that it names is missing (its first line, or the "
                             "loader that it was linked for)"
                           : reason_text(reason));
}

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw failed_run("cannot write to standard output: " + reason_text(errno));
  }
}

} // namespace farcall::tool
