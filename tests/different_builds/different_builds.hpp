// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/farcall.hpp>
#include <farcall/server/server.hpp>
#include <farcall/transport/process.hpp>
#include <tests/jobs.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

/// Jobs whose targets run another build of the program than the host: from another compiler, or for
/// another machine.
namespace different {

namespace fc = farcall;

/// Another build of the program.
struct other_program {
  std::string path;                  ///< empty if there is no compiler for it
  std::string preset;                ///< CMake preset, if it differs from the host's
  bool numbers_lambdas_alike = true; ///< true if its compiler numbers lambdas like the host's
  bool is_emulated = false;          ///< true if qemu runs it; the preset is the machine's name
  bool is_served = false;            ///< true if a server starts it, over TCP

  /// Returns the command line that starts the program.
  [[nodiscard]] std::vector<std::string> command() const {
    if (!is_emulated) return {path};
    std::vector<std::string> words{"qemu-" + preset};
    // Shift the addresses of one machine's programs, so that they differ from the real ones.
    if (preset == "aarch64") words.insert(words.end(), {"-B", "0x10000"});
    words.insert(words.end(), {"-L", "/usr/" + preset + "-linux-gnu", path});
    return words;
  }
  /// Returns the target's URL, if it is on this machine.
  [[nodiscard]] std::string url() const {
    if (!is_emulated) return "shm?program=" + path;
    std::string text = "exec:";
    for (const std::string& word : command())
      text += "'" + word + "' ";
    return text;
  }
  friend void PrintTo(const other_program& p, std::ostream* out) {
    *out << (p.is_served ? "tcp " : "") << p.url();
  }
};

/// Returns the path of the program that `./run cross` builds with this preset.
inline std::string path_of(const std::string& preset) {
  return DIFFERENT_CROSS_FOLDER "/" + preset + "/bin/farcall_different_target";
}
inline other_program emulated(const std::string& machine) {
  return {path_of(machine), machine, true, true};
}
inline other_program served(other_program p) {
  p.is_served = true;
  return p;
}
inline other_program of_other_library() { return {path_of("libcxx"), "libcxx", true, false}; }

/// Returns why a program cannot run here; empty if it can. Fails the test if the program is missing
/// although FARCALL_CROSS, which `./run test` sets, lists its preset as built.
inline std::string why_not_here(const other_program& p) {
  if (p.path.empty()) {
    return "there is no second compiler (clang++-19 beside g++, or g++ beside clang++)";
  }
  std::string why;
  if (!std::filesystem::exists(p.path)) {
    why = p.path + " is not built; ./run cross " + p.preset + " builds it";
  } else if (p.is_emulated &&
             std::system(("command -v qemu-" + p.preset + " > /dev/null").c_str()) != 0) {
    why = "qemu-" + p.preset + " is not installed; ./run cross " + p.preset + " installs it";
  }
  const char* built = std::getenv("FARCALL_CROSS");
  if (!why.empty() && built != nullptr && !p.preset.empty() &&
      std::string_view(built).find(p.preset) != std::string_view::npos) {
    ADD_FAILURE() << why << ", and FARCALL_CROSS=" << built << " says it is there";
  }
  return why;
}

class different_builds : public ::testing::TestWithParam<other_program> {
 protected:
  void SetUp() override {
    if (const std::string why = why_not_here(GetParam()); !why.empty()) GTEST_SKIP() << why;
    const std::string other = GetParam().url();
    // Two targets of the other build and one of this build, so that the job has identical and
    // different nodes.
    std::string targets = other + "," + other + ",shm";
    if (GetParam().is_served) {
      farcall::server_options serving;
      serving.listen = {"127.0.0.1", 0};
      serving.plain = true;
      serving.arguments = GetParam().command();
      serving.program = farcall::find_command(serving.arguments.front());
      server_.emplace(serving);
      targets = "tcp://" + server_->addresses().front().text() + "?count=2,shm";
    }
    farcall::job_options options = farcall::test::with_targets(targets);
    options.start_timeout = farcall::test::wait_limit; // emulators are slow
    job_.emplace(options);
    other_ = job_->targets()[0];
    second_ = job_->targets()[1];
    ours_ = job_->targets()[2];
  }

  std::optional<farcall::server> server_; ///< ends after the job
  std::optional<fc::job> job_;
  fc::node other_;
  fc::node second_;
  fc::node ours_;
};

} // namespace different
