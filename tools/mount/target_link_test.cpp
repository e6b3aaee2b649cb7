// SPDX-License-Identifier: Apache-2.0
#include "target_link.hpp"

#include "tests/faults/support.hpp"

#include <farcall/base/unique_fd.hpp>
#include <farcall/files/io_socket.h>
#include <tests/send_descriptors.hpp>
#include <tests/support.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/// Tests of the helper's link to a target that this test plays itself.
namespace farcall::test::target_link_test {
namespace {

/// Makes a process in a namespace of processes whose /proc this process does not have. Prints if
/// the process has ended, before and after it was killed.
int observer_in_another_namespace() {
  if (::unshare(CLONE_NEWPID) != 0) {
    say("no namespace");
    return 0;
  }
  const pid_t first = ::fork();
  if (first != 0) return ::waitpid(first, nullptr, 0) == first ? 0 : 1;
  // Find a number that no process has in /proc.
  std::vector<pid_t> all;
  do {
    const pid_t made = ::fork();
    if (made == 0) {
      ::pause();
      ::_exit(0);
    }
    all.push_back(made);
  } while (std::filesystem::exists("/proc/" + std::to_string(all.back())));
  mount::target_process target("none", all.back());
  const bool is_there = !target.has_ended();
  for (const pid_t each : all) {
    ::kill(each, SIGKILL);
    ::waitpid(each, nullptr, 0);
  }
  say(!is_there ? "has ended" : target.has_ended() ? "has ended later" : "goes on");
  ::_exit(0);
}
const role the_observer("observer in another namespace", observer_in_another_namespace);

TEST(targets_in_another_namespace, end_when_their_process_ends) {
  role_process observer("observer in another namespace");
  const std::string said = observer.line();
  if (said == "no namespace") GTEST_SKIP() << "this system allows no namespaces";
  EXPECT_EQ(said, "has ended later");
}

/// Serves one connection like a target, and replies one number to all requests, with two
/// descriptors if `passes` is true.
class false_target {
 public:
  explicit false_target(std::int64_t result, bool passes = false) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name_.copy(address.sun_path + 1, name_.size());
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
    thread_ = std::thread([this, result, passes] {
      const unique_fd connection(::accept(listener_.get(), nullptr, nullptr));
      farcall_io_message asked{};
      while (::recv(connection.get(), &asked, sizeof asked, MSG_WAITALL) == sizeof asked) {
        if (asked.operation != FARCALL_IO_SHARE) send_reply(connection, result, passes);
      }
    });
  }
  false_target(const false_target&) = delete;
  false_target& operator=(const false_target&) = delete;
  ~false_target() { thread_.join(); }

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  static void send_reply(const unique_fd& connection, std::int64_t result, bool passes) {
    farcall_io_reply reply{result, 0};
    const std::array<int, 2> both{STDIN_FILENO, STDOUT_FILENO};
    const auto passed = passes ? std::span<const int>(both) : std::span<const int>();
    (void)send_descriptors(connection.get(), std::as_bytes(std::span(&reply, 1)), passed);
  }

  std::string name_ = "farcall-test-" + std::to_string(::getpid());
  unique_fd listener_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::thread thread_;
};

TEST(links_to_targets, refuse_more_bytes_than_were_asked_for) {
  const false_target other(5);
  mount::target_process target(other.name(), ::getpid());
  mount::target_link link(target);
  std::array<char, 5> to{};
  EXPECT_EQ(link.read(1, to.data(), 5, 0), 5);
  EXPECT_EQ(link.read(1, to.data(), 4, 0), -EIO);
  EXPECT_EQ(link.seek(1, 5, 0), 5) << "a position";
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd"))
    count += each.path().empty() ? 0 : 1;
  return count;
}

TEST(links_to_targets, close_descriptors_that_come_unasked) {
  const false_target other(0, true);
  mount::target_process target(other.name(), ::getpid());
  mount::target_link link(target);
  EXPECT_EQ(link.seek(1, 0, 0), 0);
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(link.seek(1, 0, 0), 0);
  EXPECT_EQ(open_descriptors(), before);
}

} // namespace
} // namespace farcall::test::target_link_test
