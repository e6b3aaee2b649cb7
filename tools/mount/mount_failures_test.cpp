// SPDX-License-Identifier: Apache-2.0
#include "mount_test_support.hpp"

#include "tests/faults/support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/// Tests in which the target, the helper or the host is killed in the middle of a request, and
/// tests of machines that differ from this one.
namespace farcall::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;

constexpr std::chrono::seconds bound{10};

class mounts_whose_processes_are_killed : public mounting_job {
 protected:
  void SetUp() override {
    if (const std::string why_not = why_no_mounts(); !why_not.empty())
      GTEST_SKIP() << "this system allows no mounts: " << why_not;
    // A pipe of the host, from which nobody reads: a request for it does not end.
    ASSERT_EQ(::mkfifo((tree_ / "pipe").c_str(), 0600), 0);
    pipe_ = unique_fd(::open((tree_ / "pipe").c_str(), O_RDWR | O_CLOEXEC));
    fs::create_directories(tree_ / "in");
    start((tree_ / "in,") + (tree_ / "pipe"));
  }

  unique_fd pipe_;
};

INSTANTIATE_TEST_SUITE_P(over, mounts_whose_processes_are_killed, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(mounts_whose_processes_are_killed, end_with_a_killed_target) {
  const pid_t target = sync(target_, ::getpid);
  const std::vector<pid_t> helpers = helpers_of(target);
  ASSERT_EQ(helpers.size(), 1U);
  const auto read = +[](const std::string& path) {
    char byte = 0;
    const int fd = ::open(path.c_str(), O_RDONLY);
    return ::read(fd, &byte, 1);
  };
  (void)shell("cat $T/pipe > /dev/null 2> /dev/null < /dev/null &");
  const auto waiting = async(target_, read, tree_ / "pipe");
  std::vector<pid_t> readers;
  ASSERT_TRUE(eventually([&] { return !(readers = processes_with(tree_ / "pipe")).empty(); }));
  ::kill(target, SIGKILL);
  EXPECT_TRUE(all_end_within({target}, bound));
  EXPECT_TRUE(all_end_within(readers, bound));
  EXPECT_TRUE(all_end_within(helpers, bound));
}

TEST_P(mounts_whose_processes_are_killed, end_with_a_target_killed_at_a_page_fault) {
  write_file(tree_ / "in/f", std::string(100'000, 'x'));
  const pid_t target = sync(target_, ::getpid);
  const std::vector<pid_t> helpers = helpers_of(target);
  ASSERT_EQ(helpers.size(), 1U);
  const auto touch = +[](const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY);
    auto* const mapped =
        static_cast<volatile char*>(::mmap(nullptr, 100'000, PROT_READ, MAP_SHARED, fd, 0));
    return mapped[50'000];
  };
  for (const pid_t each : helpers)
    stop_process(each);
  const auto waiting = async(target_, touch, tree_ / "in/f");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ::kill(target, SIGKILL);
  for (const pid_t each : helpers)
    ::kill(each, SIGCONT);
  EXPECT_TRUE(all_end_within({target}, bound));
  EXPECT_TRUE(all_end_within(helpers, bound));
}

/// Forks a child that opens a file and keeps it open. Returns the child's process number.
pid_t fork_user_of(const std::string& path) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::setsid();
  (void)::close_range(STDERR_FILENO + 1, ~0U, 0);
  (void)::open(path.c_str(), O_RDWR);
  for (;;)
    (void)::pause();
}

TEST_P(mounts_whose_processes_are_killed, are_closed_at_the_host_while_children_use_them) {
  write_file(tree_ / "in/f", "text");
  const auto open_here = [&] {
    std::size_t count = 0;
    std::error_code ignored;
    for (const auto& each : fs::directory_iterator("/proc/self/fd")) {
      if (fs::read_symlink(each.path(), ignored) == tree_ / "in/f") ++count;
    }
    return count;
  };
  const pid_t target = sync(target_, ::getpid);
  const std::vector<pid_t> helpers = helpers_of(target);
  const pid_t child = sync(target_, fork_user_of, tree_ / "in/f");
  EXPECT_TRUE(eventually([&] { return open_here() > 0; }));
  ::kill(target, SIGKILL);
  EXPECT_TRUE(all_end_within(helpers, bound)) << "the helper waits for no child";
  EXPECT_TRUE(eventually([&] { return open_here() == 0; })) << "the host keeps no file";
  EXPECT_FALSE(has_ended(child));
  ::kill(child, SIGKILL);
}

std::atomic<int> stopped_threads{0};

/// Stops all other threads of this process for ever, also the threads that serve the helper.
void stop_others() {
  struct sigaction stops{};
  stops.sa_handler = [](int) {
    stopped_threads.fetch_add(1);
    for (;;)
      ::pause();
  };
  // One of the few signals that the library's threads do not block.
  ::sigaction(SIGTRAP, &stops, nullptr);
  int asked = 0;
  for (const auto& each : fs::directory_iterator("/proc/self/task")) {
    const pid_t thread = std::stoi(each.path().filename());
    if (thread != ::gettid() && ::syscall(SYS_tgkill, ::getpid(), thread, SIGTRAP) == 0) ++asked;
  }
  while (stopped_threads.load() < asked)
    std::this_thread::yield();
}

/// Ends this process by a signal while one of its threads waits for a file that nobody serves.
int abort_while_a_thread_waits(const std::string& path) {
  stop_others();
  std::atomic<pid_t> waiter{0};
  std::thread([&] {
    waiter.store(::gettid());
    struct stat s{};
    (void)::stat(path.c_str(), &s);
  }).detach();
  const auto is_waiting = [&] {
    std::ifstream status("/proc/self/task/" + std::to_string(waiter.load()) + "/stat");
    std::string line;
    std::getline(status, line);
    return line.find(") S ") != std::string::npos || line.find(") D ") != std::string::npos;
  };
  while (waiter.load() == 0 || !is_waiting())
    std::this_thread::yield();
  // Without farcall's report of the fault, which would take long.
  ::signal(SIGABRT, SIG_DFL);
  std::abort();
}

TEST_P(mounts_whose_processes_are_killed, end_with_a_target_that_aborts) {
  const pid_t target = sync(target_, ::getpid);
  const std::vector<pid_t> helpers = helpers_of(target);
  const auto aborted = async(target_, abort_while_a_thread_waits, tree_ / "in/f");
  EXPECT_TRUE(all_end_within({target}, bound));
  EXPECT_TRUE(all_end_within(helpers, bound));
}

TEST_P(mounts_whose_processes_are_killed, fail_after_the_end_of_the_helper) {
  const pid_t target = sync(target_, ::getpid);
  const auto read = +[](const std::string& path) {
    char byte = 0;
    const int fd = ::open(path.c_str(), O_RDONLY);
    if (fd < 0) return errno;
    return ::read(fd, &byte, 1) < 0 ? errno : 0;
  };
  (void)shell("cat $T/pipe > /dev/null 2> /dev/null < /dev/null &");
  auto waiting = async(target_, read, tree_ / "pipe");
  for (const pid_t each : helpers_of(target))
    ::kill(each, SIGKILL);
  EXPECT_THAT(waiting.get(), AnyOf(ENOTCONN, ECONNABORTED, EIO));
  EXPECT_THAT(sync(target_, read, tree_ / "in/none"), AnyOf(ENOTCONN, ECONNABORTED));
  EXPECT_EQ(sync(target_, ::getpid), target) << "the target goes on";
}

/// Host whose target reads for ever from a pipe. Prints the numbers of the target and its helper.
int host_to_be_killed() {
  const std::string tree = std::getenv("FARCALL_TEST_TREE");
  job_options options = with_targets("shm");
  options.host_files = tree + "/pipe";
  job j(options);
  const pid_t target = sync(j.targets().front(), ::getpid);
  std::string pids = std::to_string(target);
  for (const pid_t each : helpers_of(target))
    pids += " " + std::to_string(each);
  const auto read = +[](const std::string& path) {
    char byte = 0;
    return ::read(::open(path.c_str(), O_RDONLY), &byte, 1);
  };
  const auto waiting = async(j.targets().front(), read, tree + "/pipe");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  say(pids);
  ::pause();
  return 0;
}
const role the_host_to_be_killed("host of mounts to be killed", host_to_be_killed);

TEST(hosts_of_mounts, end_their_targets_when_they_are_killed) {
  if (const std::string why_not = why_no_mounts(); !why_not.empty())
    GTEST_SKIP() << "this system allows no mounts: " << why_not;
  const scratch_tree tree;
  ASSERT_EQ(::mkfifo((tree / "pipe").c_str(), 0600), 0);
  const unique_fd pipe(::open((tree / "pipe").c_str(), O_RDWR | O_CLOEXEC));
  const scoped_variable where("FARCALL_TEST_TREE", fs::path(tree / ".").parent_path().c_str());
  const mounting_variables mounting;
  const subreaper reaper;
  role_process host("host of mounts to be killed");
  const std::vector<pid_t> processes = pids_in(host.line());
  ASSERT_EQ(processes.size(), 2U);
  host.kill(SIGKILL);
  EXPECT_TRUE(all_end_within(processes, bound));
}

// ---- other machines ----

/// Runs a job in a namespace of its own, in which the host's folder does not exist for the target,
/// as the user that the environment names. Prints the output of commands of the target.
int host_on_another_machine() {
  const std::string tree = std::getenv("FARCALL_TEST_TREE");
  if (const char* const user = std::getenv("FARCALL_TEST_USER")) {
    // The system's own device may be for root only.
    const std::string device = tree + "/fuse";
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mknod(device.c_str(), S_IFCHR | 0666, ::makedev(10, 229)) != 0 ||
        ::chmod(device.c_str(), 0666) != 0 ||
        ::mount(device.c_str(), "/dev/fuse", nullptr, MS_BIND, nullptr) != 0) {
      say("no namespace");
      return 0;
    }
    const auto number = static_cast<unsigned>(std::stoi(user));
    if (::setgid(number) != 0 || ::setuid(number) != 0) return 1;
  }
  job_options options = with_targets("shm");
  options.host_files = tree + "/in," + tree + "/read:ro";
  job j(options);
  const std::string commands = std::getenv("FARCALL_TEST_COMMANDS");
  say(sync(j.targets().front(), fn<&output_of>, tree, commands));
  return 0;
}
const role the_host_on_another_machine("host on another machine", host_on_another_machine);

/// Returns what a host on another machine prints, without its line ends. `wrap` starts the target.
std::string said_by_host(const std::string& commands,
                         const std::string& wrap = FARCALL_MOUNT_PROGRAM) {
  const scoped_variable text("FARCALL_TEST_COMMANDS",
                             ("{ " + commands + "; } | tr '\\n' ' '").c_str());
  const mounting_variables mounting;
  const scoped_variable starts("FARCALL_WRAP", wrap.c_str());
  role_process host("host on another machine");
  return host.line();
}

TEST(mounts, are_for_ordinary_users_too) {
  if (const std::string why_not = why_no_mounts(); !why_not.empty())
    GTEST_SKIP() << "this system allows no mounts: " << why_not;
  if (::geteuid() != 0) GTEST_SKIP() << "this test starts as root";
  const scratch_tree tree;
  fs::create_directories(tree / "in");
  write_file(tree / "read/a", "text\n");
  ASSERT_EQ(::chown((tree / "in").c_str(), 65534, 65534), 0);
  fs::permissions(tree / ".", fs::perms(0755));
  const scoped_variable where("FARCALL_TEST_TREE", fs::path(tree / ".").parent_path().c_str());
  const scoped_variable user("FARCALL_TEST_USER", "65534");
  const std::string said =
      said_by_host("cat $R/a; echo x > $I/x; cat $I/x; id -u; grep -c fuse.farcall /proc/mounts");
  if (said == "no namespace") GTEST_SKIP() << "this system allows no namespaces";
  EXPECT_EQ(said, "text x 65534 2 ");
  EXPECT_EQ(content_of_file(tree / "in/x"), "x\n");
}

TEST(mounts, need_no_folder_on_the_target_s_machine) {
  if (const std::string why_not = why_no_mounts(); !why_not.empty())
    GTEST_SKIP() << "this system allows no mounts: " << why_not;
  if (::geteuid() != 0) GTEST_SKIP() << "this test mounts as root";
  const scratch_tree tree;
  fs::create_directories(tree / "in");
  write_file(tree / "read/a", "text\n");
  const std::string above = fs::path(tree / ".").parent_path();
  const scoped_variable where("FARCALL_TEST_TREE", above.c_str());
  // The target's machine has another folder with a file, a folder and a link in its place.
  const std::string wrap =
      "unshare -m sh -c 'mount -t tmpfs none " + above + " && cd " + above +
      " && echo own > file && mkdir folder && echo inner > folder/f && ln -s file link && exec " +
      FARCALL_MOUNT_PROGRAM + " \"$@\"' sh";
  EXPECT_EQ(said_by_host("cat $R/a $T/file $T/folder/f $T/link; echo x > $I/x; ls $T; "
                         "echo more >> $T/file; cat $T/file; pwd | sed s=$T=T=",
                         wrap),
            "text own inner own file folder in link read own more T ");
  EXPECT_EQ(content_of_file(tree / "in/x"), "x\n");
  EXPECT_FALSE(fs::exists(tree / "file"));
}

} // namespace
} // namespace farcall::test
