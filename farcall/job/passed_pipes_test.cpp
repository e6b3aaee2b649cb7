// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/job/passed_pipes.hpp>

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

namespace farcall::passed_pipes_test {
namespace {

class job_notice : public ::testing::Test {
 protected:
  job_notice() {
    int ends[2];
    if (::pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) std::abort();
    ours_ = unique_fd(ends[0]);
    theirs_ = unique_fd(ends[1]);
    text_ = text_of_pipe(theirs_.get());
  }
  ~job_notice() override { ::unsetenv(job_notice_variable); }

  /// Returns the number of bytes that the pipe has, up to 2.
  ssize_t received() {
    char bytes[2];
    return ::read(ours_.get(), bytes, sizeof bytes);
  }

  unique_fd ours_;
  unique_fd theirs_;
  std::string text_;
};

TEST_F(job_notice, is_sent_once) {
  ::setenv(job_notice_variable, text_.c_str(), 1);
  send_job_notice();
  (void)theirs_.release(); // send_job_notice() has closed it
  EXPECT_EQ(std::getenv(job_notice_variable), nullptr);
  send_job_notice();
  EXPECT_EQ(received(), 1);
  EXPECT_EQ(received(), 0) << "all ends for writing are closed";
}

TEST_F(job_notice, goes_to_no_other_file) {
  ::setenv(job_notice_variable, text_.c_str(), 1);
  const unique_fd other(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  ::dup2(other.get(), theirs_.get());
  send_job_notice();
  EXPECT_EQ(std::getenv(job_notice_variable), nullptr);
  EXPECT_NE(::fcntl(theirs_.get(), F_GETFD), -1) << "the other file stays open";
  EXPECT_EQ(received(), 0);
}

TEST_F(job_notice, refuses_texts_that_name_no_pipe) {
  for (const char* const text : {"7", "7:x", "-1:3", "1:2:3"}) {
    ::setenv(job_notice_variable, text, 1);
    EXPECT_THROW(send_job_notice(), setting_error) << text;
  }
}

} // namespace
} // namespace farcall::passed_pipes_test
