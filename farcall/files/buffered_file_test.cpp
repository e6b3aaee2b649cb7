// SPDX-License-Identifier: Apache-2.0
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

constexpr std::size_t part = std::size_t{256} << 10;

class buffered_files : public ::testing::Test {
 protected:
  buffered_files() {
    fs::create_directories(tree_ / "in");
    EXPECT_EQ(::mkfifo((tree_ / "pipe").c_str(), 0600), 0);
  }

  void start() {
    job_.emplace(with_host_files((tree_ / "in,") + (tree_ / "pipe")));
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

/// Reads the next bytes of a file, and returns the first one.
char read_on(std::uint64_t file) {
  static std::array<char, part> to{};
  const std::int64_t got = files::of_this_target().read(file, to.data(), part, at_position);
  return got == static_cast<std::int64_t>(part) ? to[0] : '?';
}

/// Opens a file, and reads two parts of it, so that the next part is read ahead.
std::uint64_t open_and_read(const std::string& path) {
  const std::uint64_t file = open_there(path, O_RDONLY);
  (void)read_on(file);
  (void)read_on(file);
  return file;
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

TEST_F(buffered_files, have_no_older_bytes_than_a_later_open) {
  write_file(tree_ / "in/a", std::string(8 * part, 'a'));
  start();
  const std::uint64_t first = sync(target_, open_and_read, tree_ / "in/a");
  write_file(tree_ / "in/a", std::string(8 * part, 'b'));
  EXPECT_NE(sync(target_, open_there, tree_ / "in/a", O_RDONLY), 0U);
  EXPECT_EQ(sync(target_, read_on, first), 'b');
}

TEST_F(buffered_files, have_no_older_bytes_than_a_lock) {
  write_file(tree_ / "in/a", std::string(8 * part, 'a'));
  start();
  const std::uint64_t first = sync(target_, open_there, tree_ / "in/a", O_RDONLY);
  const std::uint64_t second = sync(target_, open_and_read, tree_ / "in/a");
  write_file(tree_ / "in/a", std::string(8 * part, 'b'));
  const auto lock = +[](std::uint64_t file) {
    const farcall_io_lock wanted{1, 0, 0, F_RDLCK};
    farcall_io_lock found{};
    return files::of_this_target().lock(file, FARCALL_IO_LOCK_SET, &wanted, &found);
  };
  EXPECT_EQ(sync(target_, lock, first), 0);
  EXPECT_EQ(sync(target_, read_on, second), 'b');
}

TEST_F(buffered_files, are_not_read_ahead_if_nothing_may_be_kept) {
  write_file(tree_ / "in/a", std::string(8 * part, 'a'));
  const scoped_variable strict("FARCALL_HOST_FILES_CACHE", "strict");
  start();
  const std::uint64_t file = sync(target_, open_and_read, tree_ / "in/a");
  write_file(tree_ / "in/a", std::string(8 * part, 'b'));
  EXPECT_EQ(sync(target_, read_on, file), 'b');
}

} // namespace
} // namespace farcall::test::buffered_file_test
