// SPDX-License-Identifier: Apache-2.0
#include "counted_processes.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <string>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::tool {
namespace {

TEST(counted_processes, do_not_block_on_pipes) {
  std::string folder = std::filesystem::temp_directory_path() / "counters-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string pipe = folder + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  auto looking =
      std::async(std::launch::async, [&] { return counters_in(::getpid(), pipe).has_value(); });
  EXPECT_EQ(looking.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  const int writer = ::open(pipe.c_str(), O_WRONLY | O_NONBLOCK); // unblocks a reader that waits
  EXPECT_FALSE(looking.get());
  if (writer >= 0) ::close(writer);
  std::filesystem::remove_all(folder);
}

TEST(counted_processes, have_no_counters_in_other_files) {
  EXPECT_FALSE(counters_in(::getpid(), "/dev/null").has_value());
  EXPECT_FALSE(counters_in(::getpid(), "/no/such/file").has_value());
}

} // namespace
} // namespace farcall::tool
