// SPDX-License-Identifier: Apache-2.0
#include "mount_test_support.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/// Tests of mounts of pipes and devices, at which programs may have to wait.
namespace farcall::test::special_prefixes_test {
namespace {

constexpr std::chrono::seconds bound{20};

class mounted_pipes : public mounting_job {
 protected:
  void SetUp() override {
    if (const std::string why_not = why_no_mounts(); !why_not.empty())
      GTEST_SKIP() << "this system allows no mounts: " << why_not;
    std::filesystem::create_directories(tree_ / "in");
    write_file(in("f"), "content");
    for (const char* const each : {"idle", "full", "unread"})
      ASSERT_EQ(::mkfifo((tree_ / each).c_str(), 0600), 0);
    idle_ = unique_fd(::open((tree_ / "idle").c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    full_ = unique_fd(::open((tree_ / "full").c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    const std::string bytes(65536, 'x');
    while (::write(full_.get(), bytes.data(), bytes.size()) > 0) {
    }
    start((tree_ / "in,") + (tree_ / "idle,") + (tree_ / "full,") + (tree_ / "unread"));
  }

  /// Expects that a call on the target ends, and returns its result.
  template <class F, class... Args>
  int ended(F* call, const Args&... args) {
    auto result = async(target_, call, args...);
    if (result.wait_for(bound)) return result.get();
    ADD_FAILURE() << "the program cannot be killed";
    return -1;
  }

  unique_fd idle_;
  unique_fd full_;
};

INSTANTIATE_TEST_SUITE_P(over, mounted_pipes, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

/// Starts a child that reads or writes a pipe, and returns when it waits in a system call.
pid_t waiting_child(const std::string& path, int flags) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int pipe = ::open(path.c_str(), flags);
    char byte = 0;
    (void)(flags == O_RDONLY ? ::read(pipe, &byte, 1) : ::write(pipe, &byte, 1));
    ::_exit(0);
  }
  const auto is_waiting = [child] {
    std::ifstream call("/proc/" + std::to_string(child) + "/stat");
    std::string line;
    std::getline(call, line);
    return line.find(") S ") != std::string::npos;
  };
  while (!is_waiting())
    std::this_thread::yield();
  return child;
}

/// Kills a child as soon as it waits in a system call on a pipe. Returns the signal that has ended
/// it.
int kill_while_waiting(const std::string& path, int flags) {
  const pid_t child = waiting_child(path, flags);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

/// Does the same with more children than the helper has threads for a mount. Returns the number of
/// children that the signal has ended.
int kill_many_while_waiting(const std::string& path) {
  std::vector<pid_t> children;
  for (int i = 0; i < 80; ++i)
    children.push_back(waiting_child(path, O_RDONLY));
  for (const pid_t child : children)
    ::kill(child, SIGKILL);
  int killed = 0;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    killed += WIFSIGNALED(status) ? 1 : 0;
  }
  return killed;
}

TEST_P(mounted_pipes, can_be_left_by_killed_programs) {
  EXPECT_EQ(ended(kill_while_waiting, tree_ / "idle", O_RDONLY), SIGKILL);
  EXPECT_EQ(ended(kill_while_waiting, tree_ / "full", O_WRONLY), SIGKILL);
  EXPECT_EQ(ended(kill_while_waiting, tree_ / "unread", O_WRONLY), SIGKILL);
  EXPECT_EQ(ended(kill_many_while_waiting, tree_ / "idle"), 80);
}

/// Uses files while programs wait for pipes. Returns 0, or 1 on failure.
int use_files_beside(const std::string& tree) {
  std::string expected;
  for (int i = 0; i < 20; ++i)
    expected += "content";
  const std::string said =
      output_of(tree, "for i in $(seq 20); do cat $T/idle > /dev/null & p=\"$p $!\"; done\n"
                      "cat $I/f > $T/full & p=\"$p $!\"; cat $I/f > $T/unread & p=\"$p $!\"\n"
                      "for i in $(seq 20); do test -e $I/$i || cat $I/f > $I/$i; done\n"
                      "for i in $(seq 20); do cat $I/$i; done; kill $p; wait");
  return said == expected ? 0 : 1;
}

TEST_P(mounted_pipes, do_not_hold_up_other_files) {
  EXPECT_EQ(ended(use_files_beside, std::filesystem::path(tree_ / ".").parent_path().string()), 0);
}

TEST_P(mounted_pipes, pass_everything_on) {
  const std::string tree = std::filesystem::path(tree_ / ".").parent_path().string();
  auto written =
      async(target_, fn<&output_of>, tree, std::string("head -c 300000 /dev/zero > $T/idle"));
  std::array<char, 65536> to{};
  std::size_t seen = 0;
  EXPECT_TRUE(eventually([&] {
    const ssize_t got = ::read(idle_.get(), to.data(), to.size());
    if (got > 0) seen += static_cast<std::size_t>(got);
    return seen >= 300'000;
  }));
  EXPECT_EQ(seen, 300'000U);
  EXPECT_EQ(written.get(), "");
  // The target opens the pipe only now, because it would take bytes that are to be seen here.
  ASSERT_EQ(::write(idle_.get(), "later", 5), 5);
  EXPECT_EQ(sync(target_, fn<&output_of>, tree, std::string("head -c 5 < $T/idle")), "later");
}

TEST_P(mounted_pipes, are_opened_for_writing_when_they_have_a_reader) {
  const auto write = +[](const std::string& path) {
    const int pipe = ::open(path.c_str(), O_WRONLY);
    return ::write(pipe, "text", 4) == 4 && ::close(pipe) == 0 ? 0 : errno;
  };
  const auto open_at_once = +[](const std::string& path) {
    return ::open(path.c_str(), O_WRONLY | O_NONBLOCK) < 0 ? errno : 0;
  };
  EXPECT_EQ(sync(target_, open_at_once, tree_ / "unread"), ENXIO);
  auto written = async(target_, write, tree_ / "unread");
  const unique_fd reader(::open((tree_ / "unread").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  EXPECT_EQ(written.get(), 0);
  std::array<char, 5> to{};
  EXPECT_EQ(::read(reader.get(), to.data(), to.size()), 4);
}

/// A device with blocks, whose contents are in a file.
class loop_device {
 public:
  explicit loop_device(const std::string& file) {
    const unique_fd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
    const unique_fd backing(::open(file.c_str(), O_RDWR | O_CLOEXEC));
    const int number = control ? ::ioctl(control.get(), LOOP_CTL_GET_FREE) : -1;
    path_ = "/dev/loop" + std::to_string(number);
    if (number >= 0) device_ = unique_fd(::open(path_.c_str(), O_RDWR | O_CLOEXEC));
    if (device_ && ::ioctl(device_.get(), LOOP_SET_FD, backing.get()) != 0) device_.reset();
  }
  loop_device(const loop_device&) = delete;
  loop_device& operator=(const loop_device&) = delete;
  ~loop_device() {
    if (device_) ::ioctl(device_.get(), LOOP_CLR_FD, 0);
  }

  [[nodiscard]] bool exists() const noexcept { return static_cast<bool>(device_); }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string read(off_t offset, std::size_t bytes) const {
    std::string to(bytes, '\0');
    const ssize_t got = ::pread(device_.get(), to.data(), bytes, offset);
    to.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return to;
  }

 private:
  std::string path_;
  unique_fd device_;
};

class mounted_devices : public mounting_job {
 protected:
  void SetUp() override {}
};

INSTANTIATE_TEST_SUITE_P(over, mounted_devices, ::testing::Values("shm"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(mounted_devices, have_offsets_and_a_size) {
  if (const std::string why_not = why_no_mounts(); !why_not.empty())
    GTEST_SKIP() << "this system allows no mounts: " << why_not;
  write_file(tree_ / "blocks", std::string(8192, 'a') + std::string(57344, 'b'));
  const loop_device device(tree_ / "blocks");
  if (!device.exists()) GTEST_SKIP() << "this system gives no loop devices";
  start(device.path());
  EXPECT_EQ(shell("dd if=" + device.path() +
                  " bs=4096 skip=1 count=2 2> /dev/null | tr -d a | "
                  "wc -c; stat -c %s " +
                  device.path() + "; printf new | dd of=" + device.path() +
                  " bs=4096 seek=3 conv=notrunc 2> /dev/null; tail -c 1 " + device.path()),
            "4096\n65536\nb");
  EXPECT_EQ(device.read(0, 3), "aaa");
  EXPECT_EQ(device.read(12'288, 4), "newb");
}

} // namespace
} // namespace farcall::test::special_prefixes_test
