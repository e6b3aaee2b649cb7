// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::tcp::test_support {

/// Listens at a Unix socket as another user, during its lifetime.
class listener_of_nobody {
 public:
  listener_of_nobody() {
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    EXPECT_EQ(::chmod(folder_.c_str(), 0777), 0);
    sockaddr_un here{};
    here.sun_family = AF_UNIX;
    path().copy(here.sun_path, sizeof here.sun_path - 1);
    std::array<int, 2> told{};
    EXPECT_EQ(::pipe2(told.data(), O_CLOEXEC), 0);
    child_ = ::fork();
    if (child_ == 0) {
      const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
      const bool listens = listener >= 0 && ::setuid(nobody) == 0 &&
                           ::bind(listener, reinterpret_cast<sockaddr*>(&here), sizeof here) == 0 &&
                           ::listen(listener, 8) == 0 && ::write(told[1], "1", 1) == 1;
      if (!listens) ::_exit(1);
      for (;;)
        ::pause();
    }
    ::close(told[1]);
    char word = 0;
    is_there_ = ::read(told[0], &word, 1) == 1;
    ::close(told[0]);
  }
  listener_of_nobody(const listener_of_nobody&) = delete;
  listener_of_nobody& operator=(const listener_of_nobody&) = delete;
  ~listener_of_nobody() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] std::string path() const { return folder_ + "/socket"; }
  [[nodiscard]] bool is_there() const noexcept { return is_there_; }

 private:
  static constexpr uid_t nobody = 65534;
  std::string folder_ = testing::TempDir() + "farcall-unix-XXXXXX";
  pid_t child_ = -1;
  bool is_there_ = false;
};

} // namespace farcall::tcp::test_support
