#include "outcome.hpp"

#include <cstdio>

namespace farcall::tool {

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw failed_run("cannot write to standard output");
  }
}

} // namespace farcall::tool
