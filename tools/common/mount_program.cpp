// SPDX-License-Identifier: Apache-2.0
#include "mount_program.hpp"
#include "io_library.hpp"
#include "outcome.hpp"

#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/files/io_socket.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

namespace farcall::tool {

namespace fs = std::filesystem;

namespace {

/// Runs a program with one argument, and returns its output and its exit status.
std::pair<std::string, int> run(const std::string& program, std::string argument) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {reason_text(errno), -1};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::string name = program;
  std::array<char*, 3> words{name.data(), argument.data(), nullptr};
  pid_t child = 0;
  const int failed = posix_spawn(&child, program.c_str(), &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string said;
  std::array<char, 1000> piece{};
  for (ssize_t got = 0; failed == 0 && (got = read(ends[0], piece.data(), piece.size())) > 0;)
    said.append(piece.data(), static_cast<std::size_t>(got));
  close(ends[0]);
  if (failed != 0) return {reason_text(failed), -1};
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  while (said.ends_with('\n'))
    said.pop_back();
  return {said, status};
}

/// Returns the rest of the line that begins with a text, or an empty text if there is none.
std::string line_after(const std::string& text, const std::string& beginning) {
  std::size_t at = text.starts_with(beginning) ? 0 : text.find('\n' + beginning);
  if (at == std::string::npos) return {};
  at = text.find(beginning, at) + beginning.size();
  return text.substr(at, text.find('\n', at) - at);
}

} // namespace

mount_check check_mounts() {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  const fs::path file = folder / "farcall-mount";
  if (!fs::exists(file)) {
    return {"",
            fmt::format("there is no {}: install libfuse3-dev, and build and install farcall "
                        "again",
                        file.string()),
            "", false};
  }
  const auto [said, status] = run(file.string(), "--check");
  if (status != 0)
    return {file.string(), said.empty() ? "farcall-mount --check fails" : said, "", false};
  return {file.string(), "", line_after(said, FARCALL_IO_NO_PASSTHROUGH),
          line_after(said, FARCALL_IO_RING) == "yes"};
}

std::string prepare_host_files(const std::optional<std::string>& by) {
  const setting& s = settings::row("host-files-by");
  const std::string way = by ? *by : settings_source().text(s).value_or(settings::default_of(s));
  const std::string variable = settings::variable_of(s);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing else uses the environment meanwhile
  if (setenv(variable.c_str(), way.c_str(), 1) != 0)
    throw failed_run(fmt::format("cannot set {}: {}", variable, reason_text(errno)));
  mount_check found;
  if (way != "preload") found = check_mounts();
  if (way == "mount" && !found.why_not.empty())
    throw failed_run(fmt::format("--host-files-by=mount: {}", found.why_not));
  if (way == "auto" && found.why_not.empty()) {
    // Write the line by one call, so that lines of several processes do not mix.
    const std::string line = "farcall: files of hosts are mounted for targets "
                             "(--host-files-by=auto), because this machine allows it\n";
    (void)!write(STDERR_FILENO, line.data(), line.size());
  }
  if (way == "auto" && !found.why_not.empty()) {
    log::warning("files of hosts are used through a preloaded library (--host-files-by=auto), and "
                 "not through a mount: " +
                 found.why_not);
  }
  if (way != "mount") preload_io_library();
  return found.why_not.empty() ? found.program : "";
}

} // namespace farcall::tool
