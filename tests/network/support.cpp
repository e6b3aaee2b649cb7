// SPDX-License-Identifier: Apache-2.0
#include "tests/network/support.hpp"

#include <farcall/base/settings.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/tcp/secret.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::test {

scratch_folder::scratch_folder() {
  path_ = std::filesystem::temp_directory_path() / "farcall-network-XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), "mkdtemp");
  }
}

scratch_folder::~scratch_folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string scratch_folder::make_key(bool is_wanted) const {
  if (!is_wanted) return {};
  std::string key = file("key");
  tcp::write_key_file(key);
  return key;
}

server_options local_server(const std::string& key) {
  server_options o;
  o.listen = {"127.0.0.1", 0};
  o.program = running_program;
  o.arguments = {"farcall_network_tests"};
  o.access.key = key;
  o.plain = key.empty();
  return o;
}

std::uint16_t port_of(const server& s) { return s.addresses().front().port; }

std::string url_of(const server& s) { return s.addresses().front().url(); }

job_options network_job(const std::string& targets, const std::string& key) {
  job_options o;
  o.targets = targets;
  o.key = key;
  return o;
}

outcome outcome_of(const std::string& command) {
  outcome o;
  FILE* out = ::popen(command.c_str(), "re");
  char piece[4096];
  for (std::size_t got = 0; (got = ::fread(piece, 1, sizeof piece, out)) != 0;)
    o.text.append(piece, got);
  const int status = ::pclose(out);
  o.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return o;
}

std::string content_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void mark(const std::string& file) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, "x", 1) != 1) std::abort();
  ::close(fd);
}

std::size_t marks(const std::string& file) {
  struct stat status{};
  return ::stat(file.c_str(), &status) == 0 ? static_cast<std::size_t>(status.st_size) : 0;
}

captured_log::captured_log()
    : file_(::memfd_create("log", MFD_CLOEXEC)), before_(::dup(STDERR_FILENO)) {
  ::fcntl(file_, F_SETFL, O_APPEND);
  ::fcntl(before_, F_SETFD, FD_CLOEXEC);
  ::dup2(file_, STDERR_FILENO);
}

captured_log::~captured_log() {
  ::dup2(before_, STDERR_FILENO);
  const std::string said = text();
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, said.data(), said.size());
  ::close(before_);
  ::close(file_);
}

std::string captured_log::text() const {
  struct stat status{};
  ::fstat(file_, &status);
  std::string all(static_cast<std::size_t>(status.st_size), '\0');
  const ssize_t got = ::pread(file_, all.data(), all.size(), 0);
  all.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return all;
}

bool captured_log::comes_to_say(const std::string& words) const {
  return comes_true([&] { return text().find(words) != std::string::npos; },
                    std::chrono::seconds(10));
}

std::size_t captured_log::count(const std::string& words) const {
  const std::string all = text();
  std::size_t n = 0;
  for (auto at = all.find(words); at != std::string::npos; at = all.find(words, at + 1))
    ++n;
  return n;
}

std::size_t open_descriptors() { return holdings::now().descriptors; }

holdings settled_holdings() {
  for (;;) {
    const holdings before = holdings::now();
    ::usleep(100'000);
    if (before == holdings::now()) return before;
  }
}

} // namespace farcall::test
