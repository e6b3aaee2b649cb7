// SPDX-License-Identifier: Apache-2.0
#include "io_library.hpp"
#include "outcome.hpp"

#include <farcall/base/error.hpp>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

namespace farcall::tool {

namespace fs = std::filesystem;

std::string find_io_library() {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  // Folders in which the library is looked for, relative to this command's folder: first in an
  // installation, second in a build tree.
  for (const char* const place : {FARCALL_IO_FROM_PROGRAM, "../lib"}) {
    const fs::path file = (folder / place / "libfarcall-io.so").lexically_normal();
    if (fs::exists(file)) return file.string();
  }
  throw failed_run(
      fmt::format("there is no libfarcall-io.so in {}, the library that targets preload for files "
                  "of the host; build and install the target farcall_io",
                  (folder / FARCALL_IO_FROM_PROGRAM).lexically_normal().string()));
}

void preload_io_library() {
  std::string libraries = find_io_library();
  if (libraries.find_first_of(" :") != std::string::npos) {
    throw failed_run(fmt::format("the loader cannot preload {}, because of the space or colon in "
                                 "its path; install it elsewhere",
                                 libraries));
  }
  // NOLINTBEGIN(concurrency-mt-unsafe): nothing else uses the environment meanwhile
  if (const char* before = std::getenv("LD_PRELOAD"); before != nullptr && *before != '\0')
    libraries += fmt::format(":{}", before);
  if (setenv("LD_PRELOAD", libraries.c_str(), 1) != 0)
    throw failed_run(fmt::format("cannot set LD_PRELOAD: {}", reason_text(errno)));
  // Programs with gcc's address sanitizer refuse to run if another library comes first. Their
  // functions work nevertheless, because the preloaded library calls the sanitizer's ones.
  std::string sanitizer = "verify_asan_link_order=0";
  if (const char* before = std::getenv("ASAN_OPTIONS"); before != nullptr && *before != '\0')
    sanitizer += fmt::format(":{}", before);
  if (setenv("ASAN_OPTIONS", sanitizer.c_str(), 1) != 0)
    throw failed_run(fmt::format("cannot set ASAN_OPTIONS: {}", reason_text(errno)));
  // NOLINTEND(concurrency-mt-unsafe)
}

} // namespace farcall::tool
