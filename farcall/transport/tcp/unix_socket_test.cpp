// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/socket.hpp>
#include <farcall/transport/tcp/unix_socket.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::tcp::unix_socket_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class unix_socket : public testing::Test {
 public:
  ~unix_socket() override { std::filesystem::remove_all(folder_); }

 protected:
  unix_socket() {
    std::string name = testing::TempDir() + "farcall-unix-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    path_ = folder_ / "socket";
  }
  [[nodiscard]] bool is_there() const { return std::filesystem::exists(path_); }
  [[nodiscard]] auto listening() const {
    return [this] { (void)listen_at(path_); };
  }

  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(unix_socket, is_for_its_owner_only_whatever_the_umask) {
  for (const mode_t mask : {0U, 022U, 077U}) {
    const mode_t before = ::umask(mask);
    const unique_fd listener = listen_at(path_);
    ::umask(before);
    struct stat file{};
    ASSERT_EQ(::stat(path_.c_str(), &file), 0);
    EXPECT_EQ(file.st_mode & 07777U, 0600U) << mask;
  }
}

TEST_F(unix_socket, takes_connections_and_knows_whose_they_are) {
  const std::vector<unique_fd> listeners = listen_on({path_});
  ASSERT_EQ(listeners.size(), 1U);
  EXPECT_EQ(local_address(listeners.front().get()), (address{path_}));
  const unique_fd near = connect_to({path_}, clock::now() + std::chrono::seconds(20));
  const auto far = accept_from(listeners.front().get());
  ASSERT_TRUE(far);
  EXPECT_EQ(peer_address(near.get()).text(), path_);
  const std::string own = "a process of user " + std::to_string(::geteuid());
  for (const int fd : {near.get(), far->get()}) {
    EXPECT_EQ(peer_user(fd), ::geteuid());
    EXPECT_FALSE(is_of_another_user(fd));
    EXPECT_EQ(peer_text(fd), own);
    EXPECT_NO_THROW(set_options(fd, std::chrono::seconds(5)));
  }
}

TEST_F(unix_socket, left_by_an_ended_process_is_replaced) {
  (void)listen_at(path_);
  ASSERT_TRUE(is_there());
  const unique_fd listener = listen_at(path_);
  EXPECT_NO_THROW((void)connect_to({path_}, clock::now() + std::chrono::seconds(20)));
}

TEST_F(unix_socket, with_a_listener_is_not_replaced) {
  const unique_fd listener = listen_at(path_);
  EXPECT_THAT(listening(), ThrowsMessage<error>(AllOf(HasSubstr(path_), HasSubstr("another"))));
  EXPECT_NO_THROW((void)connect_to({path_}, clock::now() + std::chrono::seconds(20)));
}

TEST_F(unix_socket, with_a_listener_is_not_disturbed_by_checks) {
  {
    const unique_fd listener = listen_at(path_);
    EXPECT_FALSE(is_left_behind(path_));
    EXPECT_FALSE(accept_from(listener.get())) << "a connection has come";
    EXPECT_THROW((void)listen_at(path_), error);
    EXPECT_FALSE(accept_from(listener.get())) << "a connection has come";
  }
  EXPECT_TRUE(is_left_behind(path_));
  // The state between bind() and listen().
  const socket_address at = socket_address::of_path(path_);
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  const unique_fd bound(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(bound.get(), at.data(), at.size()), 0);
  EXPECT_FALSE(is_left_behind(path_));
}

TEST_F(unix_socket, is_no_file_that_was_left_behind) {
  EXPECT_FALSE(is_left_behind(path_));
  std::ofstream(path_) << "precious";
  EXPECT_FALSE(is_left_behind(path_));
  EXPECT_FALSE(is_left_behind(folder_));
  EXPECT_FALSE(is_left_behind("/" + std::string(200, 'x')));
}

TEST_F(unix_socket, does_not_replace_a_file) {
  std::ofstream(path_) << "precious";
  EXPECT_THAT(listening(), ThrowsMessage<error>(AllOf(HasSubstr(path_ + ": a file is there"),
                                                      HasSubstr("remove it"))));
  EXPECT_EQ(std::filesystem::file_size(path_), 8U);
  path_ = folder_ / "link";
  std::filesystem::create_symlink(folder_ / "socket", path_);
  EXPECT_THAT(listening(), ThrowsMessage<error>(HasSubstr(path_ + ": a symbolic link is there")));
  path_ = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(listening(), ThrowsMessage<error>(HasSubstr(path_ + ": something is there")));
  path_ = folder_;
  EXPECT_THAT(listening(), ThrowsMessage<error>(AllOf(HasSubstr(path_ + ": a folder is there"),
                                                      HasSubstr(path_ + "/farcall.socket"))));
}

TEST_F(unix_socket, left_by_another_user_stays) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root makes files of others";
  (void)listen_at(path_);
  ASSERT_EQ(::chown(path_.c_str(), 1, 1), 0);
  EXPECT_THAT(listening(),
              ThrowsMessage<error>(HasSubstr(path_ + ": a socket of user 1 is there")));
  EXPECT_TRUE(is_there());
}

TEST_F(unix_socket, is_made_despite_a_locked_folder) {
  const unique_fd lock(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
  EXPECT_NO_THROW((void)listen_at(path_));
  EXPECT_THAT(listening(), ThrowsMessage<error>(AllOf(HasSubstr(path_), HasSubstr("locked"))));
  EXPECT_TRUE(is_there());
}

TEST_F(unix_socket, with_a_full_backlog_is_tried_again) {
  const unique_fd listener = listen_at(path_);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  std::vector<unique_fd> waiting;
  const auto fill = [&] {
    for (;;)
      waiting.push_back(start_connect(socket_address::of_path(path_)));
  };
  EXPECT_THROW(fill(), listener_busy);
  const auto soon = [] { return clock::now() + std::chrono::milliseconds(50); };
  EXPECT_THAT([&] { (void)connect_to({path_}, soon()); },
              ThrowsMessage<timeout>(HasSubstr("more connections wait")));
  std::thread takes([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    while (accept_from(listener.get())) {
    }
  });
  EXPECT_NO_THROW((void)connect_to({path_}, clock::now() + std::chrono::seconds(20)));
  takes.join();
}

TEST_F(unix_socket, needs_a_folder_and_a_path_of_bounded_length) {
  path_ = folder_ / "nowhere" / "socket";
  EXPECT_THAT(listening(), ThrowsMessage<error>(AllOf(HasSubstr(path_), HasSubstr("folder"))));
  path_ = "/" + std::string(200, 'x');
  EXPECT_THAT(listening(), ThrowsMessage<error>(HasSubstr("107")));
}

TEST_F(unix_socket, without_a_listener_fails_with_advice) {
  const auto connecting = [&] {
    (void)connect_to({path_}, clock::now() + std::chrono::seconds(20));
  };
  EXPECT_THAT(connecting, ThrowsMessage<error>(AllOf(HasSubstr(path_), HasSubstr("serve"))));
  (void)listen_at(path_);
  EXPECT_THAT(connecting, ThrowsMessage<error>(AllOf(HasSubstr(path_), HasSubstr("serve"))));
}

TEST_F(unix_socket, file_is_removed_unless_another_replaced_it) {
  unique_fd listener = listen_at(path_);
  {
    socket_file file(path_);
    const socket_file moved(std::move(file));
    file = {};
    EXPECT_TRUE(is_there());
  }
  EXPECT_FALSE(is_there());
  listener = listen_at(path_);
  {
    const socket_file file(path_);
    // Make another file while the first one exists, so that their inode numbers differ.
    const std::string aside = folder_ / "aside";
    ASSERT_EQ(::rename(path_.c_str(), aside.c_str()), 0);
    listener = listen_at(path_);
  }
  EXPECT_TRUE(is_there());
}

TEST_F(unix_socket, differs_from_a_tcp_socket) {
  const std::vector<unique_fd> listeners = listen_on({"127.0.0.1", 0});
  const unique_fd near =
      connect_to(local_address(listeners.front().get()), clock::now() + std::chrono::seconds(20));
  EXPECT_EQ(peer_user(near.get()), std::nullopt);
  EXPECT_FALSE(is_of_another_user(near.get()));
}

} // namespace
} // namespace farcall::tcp::unix_socket_test
