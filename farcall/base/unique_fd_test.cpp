// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/unique_fd.hpp>
#include <tests/child.hpp>

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace farcall::test::unique_fd_test {
namespace {

struct two_ends {
  two_ends() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ours = unique_fd(ends[0]);
    theirs = unique_fd(ends[1]);
  }
  /// True if the other end is closed in all processes.
  [[nodiscard]] bool has_ended() const {
    pollfd look{ours.get(), POLLIN, 0};
    return ::poll(&look, 1, 0) == 1;
  }
  unique_fd ours;
  unique_fd theirs;
};

/// A child process that stays until it is told to end, and checks which descriptors it has.
class staying_child {
 public:
  explicit staying_child(const std::function<bool()>& is_good)
      : child_([&] {
          char byte = 0;
          const bool good = is_good();
          return ::read(gate_.theirs.get(), &byte, 1) == 1 && good ? 0 : 1;
        }) {}
  [[nodiscard]] int end() {
    EXPECT_EQ(::write(gate_.ours.get(), "x", 1), 1);
    return child_.wait();
  }

 private:
  two_ends gate_;
  forked_child child_;
};

TEST(unique_fd, is_kept_by_children) {
  two_ends s;
  staying_child child([] { return true; });
  s.theirs.reset();
  EXPECT_FALSE(s.has_ended());
  EXPECT_EQ(child.end(), 0);
}

TEST(unique_fd, children_close_marked_descriptors) {
  two_ends s;
  s.theirs.close_on_fork();
  staying_child child([] { return true; });
  s.theirs.reset();
  EXPECT_TRUE(eventually([&] { return s.has_ended(); }));
  EXPECT_EQ(child.end(), 0);
}

TEST(unique_fd, is_replaced_harmlessly_in_a_child) {
  two_ends s;
  s.theirs.close_on_fork();
  forked_child child([&] {
    const int fd = s.theirs.get();
    if (::fcntl(fd, F_GETFD) != FD_CLOEXEC) return 1;
    if (::send(fd, "x", 1, 0) != -1 || errno != ENOTSOCK) return 2;
    s.theirs.reset();
    return ::fcntl(fd, F_GETFD) == -1 && errno == EBADF ? 0 : 3;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(::write(s.theirs.get(), "x", 1), 1);
}

TEST(unique_fd, stays_marked_when_moved) {
  two_ends s;
  s.theirs.close_on_fork();
  unique_fd moved = std::move(s.theirs);
  staying_child child([] { return true; });
  moved.reset();
  EXPECT_TRUE(eventually([&] { return s.has_ended(); }));
  EXPECT_EQ(child.end(), 0);
}

TEST(unique_fd, a_reused_number_is_not_marked) {
  two_ends s;
  s.theirs.close_on_fork();
  const unique_fd zero(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  const int number = s.theirs.get();
  s.theirs.reset();
  const unique_fd other(::fcntl(zero.get(), F_DUPFD_CLOEXEC, number));
  ASSERT_EQ(other.get(), number);
  forked_child reader([&] {
    char byte = 'x';
    return ::read(number, &byte, 1) == 1 && byte == 0 ? 0 : 1;
  });
  EXPECT_EQ(reader.wait(), 0);
}

TEST(unique_fd, released_descriptors_stay_open_in_children) {
  two_ends s;
  s.theirs.close_on_fork();
  const unique_fd taken(s.theirs.release());
  staying_child child([&] { return ::write(taken.get(), "x", 1) == 1; });
  EXPECT_EQ(child.end(), 0);
}

TEST(unique_fd, children_close_it_at_the_limit_of_descriptors) {
  two_ends s;
  s.theirs.close_on_fork();
  forked_child parent([&] {
    rlimit none{};
    none.rlim_cur = none.rlim_max = 0;
    if (::setrlimit(RLIMIT_NOFILE, &none) != 0) return 1;
    return forked_child([&] {
             return ::send(s.theirs.get(), "x", 1, 0) == -1 && (errno == EBADF || errno == ENOTSOCK)
                        ? 0
                        : 2;
           })
        .wait();
  });
  EXPECT_EQ(parent.wait(), 0);
}

} // namespace
} // namespace farcall::test::unique_fd_test
