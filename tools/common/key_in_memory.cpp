// SPDX-License-Identifier: Apache-2.0
#include "key_in_memory.hpp"
#include "outcome.hpp"

#include <farcall/base/error.hpp>
#include <farcall/base/memory_file.hpp>
#include <farcall/base/wipe.hpp>
#include <farcall/transport/tcp/secret.hpp>

#include <array>
#include <cerrno>
#include <span>

#include <fmt/format.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

unique_fd private_file() {
  unique_fd file{make_memory_file("farcall-key", MFD_CLOEXEC)};
  if (!file || fchmod(file.get(), S_IRUSR | S_IWUSR) != 0)
    throw failed_run(fmt::format("cannot keep a key in memory: {}", reason_text(errno)));
  return file;
}

} // namespace

key_in_memory::key_in_memory()
    : file_{private_file()}, path_{fmt::format("/proc/{}/fd/{}", getpid(), file_.get())} {
  tcp::write_key(file_.get());
}

key_in_memory::key_in_memory(std::string& line)
    : file_{private_file()}, path_{fmt::format("/proc/{}/fd/{}", getpid(), file_.get())} {
  const bool done =
      write(file_.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const int reason = errno;
  wipe(std::span(line));
  if (!done) throw failed_run(fmt::format("cannot keep the key: {}", reason_text(reason)));
}

std::string key_in_memory::line() const {
  std::array<char, 4096> text{};
  const ssize_t got = pread(file_.get(), text.data(), text.size(), 0);
  if (got <= 0) throw failed_run("cannot read the key in memory: " + reason_text(errno));
  std::string line{text.data(), static_cast<std::size_t>(got)};
  wipe(std::span(text));
  return line;
}

} // namespace farcall::tool
