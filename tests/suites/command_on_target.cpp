// SPDX-License-Identifier: Apache-2.0

// Runs a shell command on the job's first target and ends with its status:
//
//   farcall run --host-files=FOLDER farcall_command_on_target hide|keep FOLDER COMMAND
//
// FOLDER is a path prefix of the host files. With `hide` it has another name on the host,
// FOLDER.host, while the command runs, so that operations that are not forwarded find no file.

#include <farcall/farcall.hpp>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <sys/wait.h>

namespace farcall::test {
namespace {

/// Returns the status of the shell; 128 and more are signals.
int run_command(const std::string& command) {
  // NOLINTNEXTLINE(cert-env33-c): a shell runs the suites
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run_hidden(job& j, const std::string& folder, const std::string& command) {
  std::filesystem::rename(folder, folder + ".host");
  const int status = sync(j.targets().front(), run_command, command);
  std::filesystem::rename(folder + ".host", folder);
  return status;
}

} // namespace
} // namespace farcall::test

int main(int argc, char** argv) {
  namespace ft = farcall::test;
  farcall::job j{argc, argv};
  const std::string mode = argc == 4 ? argv[1] : "";
  if (mode == "hide") return ft::run_hidden(j, argv[2], argv[3]);
  if (mode == "keep")
    return farcall::sync(j.targets().front(), ft::run_command, std::string(argv[3]));
  (void)std::fprintf(stderr, "usage: farcall_command_on_target hide|keep FOLDER COMMAND\n");
  return 2;
}
