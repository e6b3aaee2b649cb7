// SPDX-License-Identifier: Apache-2.0
#include "mount_test_support.hpp"

#include "tests/faults/support.hpp"
#include "tests/network/proxy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/// Tests of programs that use a mount while its host is stopped, or while the connection to the
/// host is cut.
namespace farcall::test::mount_cuts_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;

constexpr std::chrono::seconds bound{10};

// ---- programs ----

/// Work of a program in a folder of the host, until an operation fails. Returns errno.
using work = int (*)(const std::string& in);

int read_a_file(const std::string& in) {
  for (;;) {
    char byte = 0;
    const unique_fd fd(::open((in + "/f").c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd || ::read(fd.get(), &byte, 1) != 1) return errno;
  }
}

int write_a_file(const std::string& in) {
  const std::string text(10'000, 'w');
  const unique_fd fd(::open((in + "/w").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!fd) return errno;
  while (::pwrite(fd.get(), text.data(), text.size(), 0) > 0 && ::fsync(fd.get()) == 0) {
  }
  return errno;
}

int read_a_pipe(const std::string& in) {
  char byte = 0;
  const unique_fd fd(::open((in + "/../pipe").c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return errno;
  return ::read(fd.get(), &byte, 1) < 0 ? errno : 0;
}

int change_names(const std::string& in) {
  const std::string from = in + "/from";
  const std::string to = in + "/to";
  for (;;) {
    if (::mkdir(from.c_str(), 0755) != 0 || ::rename(from.c_str(), to.c_str()) != 0 ||
        ::rmdir(to.c_str()) != 0)
      return errno;
  }
}

/// Reads pages of a shared mapping that the system has to fetch. Ends by SIGBUS if it cannot.
int read_a_mapping(const std::string& in) {
  constexpr std::size_t bytes = 100'000;
  const unique_fd fd(::open((in + "/m").c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return errno;
  for (;;) {
    const void* const mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
    if (mapped == MAP_FAILED) return errno;
    (void)static_cast<const volatile char*>(mapped)[bytes / 2];
    if (::munmap(const_cast<void*>(mapped), bytes) != 0 ||
        ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED) != 0)
      return errno;
  }
}

const std::map<std::string, work>& all_work() {
  static const std::map<std::string, work> all{{"reads", read_a_file},
                                               {"writes", write_a_file},
                                               {"waits", read_a_pipe},
                                               {"names", change_names},
                                               {"maps", read_a_mapping}};
  return all;
}

/// Starts a program of the target for each kind of work. When the work of one has failed, it makes
/// a file in `reports` that has the work's name and contains errno. Returns the processes.
std::vector<pid_t> start_programs(const std::string& in, const std::string& reports) {
  std::vector<pid_t> started;
  for (const auto& [name, run] : all_work()) {
    const pid_t child = ::fork();
    if (child != 0) {
      started.push_back(child);
      continue;
    }
    // Like another program: without the target's descriptors and handlers.
    (void)::close_range(STDERR_FILENO + 1, ~0U, 0);
    (void)::signal(SIGBUS, SIG_DFL);
    (void)::setsid();
    (void)!::chdir(in.c_str());
    const std::string error = std::to_string(run(in));
    const int report = ::creat((reports + "/" + name).c_str(), 0600);
    (void)!::write(report, error.data(), error.size());
    ::_exit(0);
  }
  return started;
}

/// Makes the files that the programs use. Returns the host's end of the pipe.
unique_fd make_files(const scratch_tree& tree) {
  write_file(tree / "in/f", "text");
  write_file(tree / "in/w", "");
  write_file(tree / "in/m", std::string(100'000, 'm'));
  EXPECT_EQ(::mkfifo((tree / "pipe").c_str(), 0600), 0);
  return unique_fd(::open((tree / "pipe").c_str(), O_RDWR | O_CLOEXEC));
}

std::string host_files_of(const std::string& tree) { return tree + "/in," + tree + "/pipe"; }

/// Checks the reports of the programs, whose mounts have ended. Skips the program named `ended`,
/// which has ended before.
void expect_errors(const scratch_tree& reports, const std::string& ended = "") {
  for (const auto& [name, run] : all_work()) {
    // A fault of a mapping ends the process.
    if (name == "maps" || name == ended) continue;
    EXPECT_THAT(content_of_file(reports / name),
                AnyOf(std::to_string(EIO), std::to_string(ENOTCONN), std::to_string(ECONNABORTED)))
        << name;
  }
}

// ---- connections that are cut ----

enum class cut : std::uint8_t { reset, finish, silence };

class mounts_whose_connection_is_cut : public ::testing::TestWithParam<cut> {};

std::string name_of_cut(const ::testing::TestParamInfo<cut>& info) {
  return info.param == cut::reset ? "reset" : info.param == cut::finish ? "finish" : "silence";
}

INSTANTIATE_TEST_SUITE_P(by, mounts_whose_connection_is_cut,
                         ::testing::Values(cut::reset, cut::finish, cut::silence), name_of_cut);

server_options mounting_server() {
  server_options served;
  served.listen = {"127.0.0.1", 0};
  served.program = FARCALL_MOUNT_PROGRAM;
  served.arguments = {"farcall-mount", fs::read_symlink("/proc/self/exe")};
  served.plain = true;
  return served;
}

TEST_P(mounts_whose_connection_is_cut, fail_and_end_with_the_target) {
  if (const std::string why_not = why_no_mounts(); !why_not.empty())
    GTEST_SKIP() << "this system allows no mounts: " << why_not;
  const scratch_tree tree;
  const scratch_tree reports;
  const unique_fd pipe = make_files(tree);
  const mounting_variables mounting;
  const subreaper reaper;
  server served(mounting_server());
  proxy between(served.addresses().front().port);
  job_options options;
  options.targets = between.url();
  options.heartbeat_timeout = std::chrono::seconds(2);
  options.host_files = host_files_of(fs::path(tree / ".").parent_path());
  job j(options);
  const node target = j.targets().front();
  std::vector<pid_t> all = sync(target, start_programs, tree / "in", reports / "");
  const pid_t target_process = sync(target, ::getpid);
  const std::vector<pid_t> helpers = helpers_of(target_process);
  ASSERT_EQ(helpers.size(), 1U);
  all.insert(all.end(), helpers.begin(), helpers.end());
  all.push_back(target_process);
  if (GetParam() == cut::reset) between.reset();
  if (GetParam() == cut::finish) between.finish();
  if (GetParam() == cut::silence) between.fall_silent();
  EXPECT_TRUE(all_end_within(all, bound)) << "no process may wait for the mount for ever";
  expect_errors(reports);
}

// ---- hosts that are stopped ----

/// Host whose target starts programs. Prints the processes of the programs, the target and its
/// helper.
int host_to_be_stopped() {
  const std::string tree = std::getenv("FARCALL_TEST_TREE");
  const std::string reports = std::getenv("FARCALL_TEST_REPORTS");
  job_options options;
  options.targets = std::getenv("FARCALL_TEST_TARGETS");
  options.heartbeat_timeout = std::chrono::seconds(2);
  options.host_files = host_files_of(tree);
  job j(options);
  const node target = j.targets().front();
  std::vector<pid_t> all = sync(target, start_programs, tree + "/in", reports);
  const pid_t target_process = sync(target, ::getpid);
  all.push_back(target_process);
  for (const pid_t each : helpers_of(target_process))
    all.push_back(each);
  std::string line;
  for (const pid_t each : all)
    line += std::to_string(each) + " ";
  say(line);
  ::pause();
  return 0;
}
const role the_host_to_be_stopped("host of mounts to be stopped", host_to_be_stopped);

class hosts_of_mounts_that_are_stopped : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why_not = why_no_mounts(); !why_not.empty())
      GTEST_SKIP() << "this system allows no mounts: " << why_not;
    pipe_ = make_files(tree_);
  }

  /// Starts a host, and returns the processes of its target.
  std::vector<pid_t> start(const std::string& targets) {
    const scoped_variable where("FARCALL_TEST_TREE", fs::path(tree_ / ".").parent_path().c_str());
    const scoped_variable to("FARCALL_TEST_REPORTS", (reports_ / "").c_str());
    const scoped_variable which("FARCALL_TEST_TARGETS", targets.c_str());
    host_.emplace("host of mounts to be stopped");
    std::vector<pid_t> processes = pids_in(host_->line());
    EXPECT_EQ(processes.size(), all_work().size() + 2);
    return processes;
  }

  scratch_tree tree_;
  scratch_tree reports_;
  unique_fd pipe_;
  const mounting_variables mounting_;
  const subreaper reaper_;
  std::optional<role_process> host_;
};

TEST_F(hosts_of_mounts_that_are_stopped, are_given_up_by_targets_of_a_server) {
  const server served(mounting_server());
  const std::vector<pid_t> all =
      start("tcp://127.0.0.1:" + std::to_string(served.addresses().front().port));
  stop_process(host_->pid());
  EXPECT_TRUE(all_end_within(all, bound)) << "no process may wait for the mount for ever";
  expect_errors(reports_);
}

TEST_F(hosts_of_mounts_that_are_stopped, may_go_on_and_end_their_targets) {
  const std::vector<pid_t> all = start("shm");
  stop_process(host_->pid());
  // Programs of the same machine wait for a stopped host, as they do for a stopped process that
  // serves any other mount.
  ASSERT_EQ(::write(pipe_.get(), "x", 1), 1);
  host_->kill(SIGCONT);
  EXPECT_TRUE(eventually([&] { return content_of_file(reports_ / "waits") == "0"; }))
      << "a read that waits goes on";
  for (const char* const each : {"reads", "writes", "names"})
    EXPECT_FALSE(fs::exists(reports_ / each)) << each << " has failed";
  stop_process(host_->pid());
  host_->kill(SIGKILL);
  EXPECT_TRUE(all_end_within(all, bound)) << "no process may wait for the mount for ever";
  expect_errors(reports_, "waits");
}

} // namespace
} // namespace farcall::test::mount_cuts_test
