#include "command.hpp"

#include <cstdio>
#include <system_error>

namespace farcall::tool {

std::string error_text(int error_number) { return std::generic_category().message(error_number); }

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw failed_run("cannot write to standard output");
  }
}

} // namespace farcall::tool
