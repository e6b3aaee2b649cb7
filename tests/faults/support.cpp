// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/support.hpp"
#include "tests/sanitizer.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::test {
namespace {

constexpr const char* role_variable = "FARCALL_TEST_ROLE";

struct known_role {
  const char* name;
  role::code run;
};

std::vector<known_role>& roles() {
  static std::vector<known_role> all;
  return all;
}

/// True for the sanitizer's symbolizer, which stays.
bool is_symbolizer(pid_t pid) {
  if (!under_sanitizer) return false;
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name.starts_with("llvm-symbolizer");
}

} // namespace

holdings holdings::now() {
  holdings h;
  std::error_code ignored;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++h.descriptors;
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:") != std::string::npos) ++h.mappings;
  }
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    // A thread may end meanwhile.
    std::ifstream children(task.path() / "children");
    for (pid_t pid = 0; children >> pid;) {
      if (!is_symbolizer(pid)) h.children.insert(pid);
    }
  }
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm", ignored)) {
    const std::string name = file.path().filename();
    // `farcall bench files`, which other tests may run meanwhile, makes folders there.
    if (name.find("farcall") != std::string::npos && !name.starts_with("farcall-bench-"))
      h.shared_files.insert(name);
  }
  return h;
}

std::string holdings::text() const {
  std::ostringstream out;
  out << descriptors << " descriptors, " << mappings << " shared mappings, children:";
  for (const pid_t pid : children)
    out << ' ' << pid;
  out << ", files:";
  for (const std::string& f : shared_files)
    out << ' ' << f;
  return out.str();
}

bool nothing_left_since(const holdings& before) {
  holdings after = holdings::now();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (!(after == before) && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    after = holdings::now();
  }
  if (after == before) return true;
  ADD_FAILURE() << "left behind: " << after.text() << "; before: " << before.text();
  return false;
}

bool has_ended(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return true;
  const auto name_end = text.rfind(')');
  return name_end != std::string::npos && text.size() > name_end + 2 &&
         (text[name_end + 2] == 'Z' || text[name_end + 2] == 'X');
}

bool all_end_within(const std::vector<pid_t>& pids, std::chrono::milliseconds bound) {
  const auto end = std::chrono::steady_clock::now() + bound;
  for (;;) {
    bool all = true;
    for (const pid_t pid : pids)
      all = all && has_ended(pid);
    if (all) return true;
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

role::role(const char* name, code run) { roles().push_back({name, run}); }

int role::run_if_asked() {
  const char* asked = std::getenv(role_variable);
  if (asked == nullptr) return -1;
  const std::string name = asked;
  // Targets of the role's jobs must not run the role.
  ::unsetenv(role_variable);
  for (const known_role& r : roles()) {
    if (name == r.name) return r.run();
  }
  return 99;
}

role_process::role_process(const std::string& name) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe");
  output_ = ends[0];
  std::string assignment = role_variable;
  assignment.append("=").append(name);
  std::vector<char*> variables;
  for (char** v = environ; *v != nullptr; ++v)
    variables.push_back(*v);
  variables.push_back(const_cast<char*>(assignment.c_str()));
  variables.push_back(nullptr);
  char program[] = "role";
  char* const arguments[] = {program, nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  const int failure =
      ::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments, variables.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (failure != 0) throw std::system_error(failure, std::generic_category(), "posix_spawn");
}

role_process::~role_process() {
  if (!ended_) {
    kill(SIGKILL);
    (void)wait();
  }
  ::close(output_);
}

std::string role_process::line() {
  std::string text;
  for (char c = 0; ::read(output_, &c, 1) == 1 && c != '\n';)
    text += c;
  return text;
}

void role_process::kill(int signal) const { ::kill(pid_, signal); }

int role_process::wait(std::chrono::seconds bound) {
  const auto end = std::chrono::steady_clock::now() + bound;
  while (!ended_) {
    if (::waitpid(pid_, &status_, WNOHANG) == pid_) {
      ended_ = true;
    } else if (std::chrono::steady_clock::now() > end) {
      kill(SIGKILL);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return WIFSIGNALED(status_) ? -WTERMSIG(status_) : WEXITSTATUS(status_);
}

void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) < 0) std::abort();
}

std::vector<pid_t> pids_in(const std::string& line) {
  std::istringstream text(line);
  std::vector<pid_t> pids;
  for (pid_t pid = 0; text >> pid;)
    pids.push_back(pid);
  return pids;
}

subreaper::subreaper() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

subreaper::~subreaper() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

} // namespace farcall::test
