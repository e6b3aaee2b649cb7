#include <farcall/files/file_calls.hpp>
#include <farcall/files/files_test_support.hpp>
#include <tests/jobs.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/// Tests what calls on one open file of a target do to calls on other files, and to other open
/// files of the same file.
namespace farcall::test::buffered_file_test {
namespace {

namespace fs = std::filesystem;
using files::at_position;

class buffered_files : public ::testing::Test {
 protected:
  buffered_files() {
    fs::create_directories(tree_ / "in");
    EXPECT_EQ(::mkfifo((tree_ / "pipe").c_str(), 0600), 0);
  }

  void start() {
    job_options options = with_targets("shm");
    options.host_files = (tree_ / "in,") + (tree_ / "pipe");
    job_.emplace(options);
    target_ = job_->targets().front();
  }

  scratch_tree tree_;
  std::optional<job> job_;
  node target_;
};

std::uint64_t open_there(const std::string& path, int flags) {
  farcall_io_opened opened{};
  return files::of_this_target().open(path, flags, 0644, &opened) == 0 ? opened.file : 0;
}

/// Writes to a pipe that is full, and uses another file meanwhile. Returns the errors.
std::string use_beside_a_full_pipe(const std::string& pipe, const std::string& path) {
  static std::atomic<bool> begun{false};
  auto& f = files::of_this_target();
  const std::uint64_t file = open_there(pipe, O_WRONLY);
  std::thread([file] {
    begun.store(true);
    (void)files::of_this_target().write(file, "x", 1, at_position);
  }).detach();
  while (!begun.load())
    std::this_thread::yield();
  for (int i = 0; i < 100; ++i) {
    farcall_io_status status{};
    if (f.stat(path, 0, &status) != 0) return "stat";
    if (f.truncate(path, i) != 0) return "truncate";
    const std::uint64_t other = open_there(path, O_RDONLY);
    if (other == 0 || f.close(other) != 0) return "open";
  }
  return "";
}

TEST_F(buffered_files, do_not_wait_for_a_full_pipe) {
  write_file(tree_ / "in/a", "abc");
  const unique_fd pipe(::open((tree_ / "pipe").c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  std::array<char, 65536> bytes{};
  while (::write(pipe.get(), bytes.data(), bytes.size()) > 0) {
  }
  start();
  auto used = async(target_, use_beside_a_full_pipe, tree_ / "pipe", tree_ / "in/a");
  EXPECT_TRUE(used.wait_for(std::chrono::seconds(20)));
  // The pipe has space again, so that the write ends in any case.
  EXPECT_GT(::read(pipe.get(), bytes.data(), bytes.size()), 0);
  EXPECT_EQ(used.get(), "");
}

} // namespace
} // namespace farcall::test::buffered_file_test
