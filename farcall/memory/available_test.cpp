// SPDX-License-Identifier: Apache-2.0
#include <farcall/memory/available.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <sys/sysinfo.h>
#include <unistd.h>

namespace farcall::available_test {
namespace {

/// A tree with the files of a system.
// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): GoogleTest ends it by its base
class available : public ::testing::Test {
 protected:
  available()
      : root_(std::filesystem::path(::testing::TempDir()) /
              ("farcall-available-test-" + std::to_string(::getpid()))) {
    write("proc/meminfo", "MemTotal: 2000 kB\nMemAvailable:   1000 kB\nCached: 10 kB\n");
  }
  ~available() override { std::filesystem::remove_all(root_); }

  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  [[nodiscard]] std::uint64_t bytes() const { return available_memory(root_).value_or(0); }

  std::filesystem::path root_;
};

TEST_F(available, memory_is_what_the_system_says) { EXPECT_EQ(bytes(), 1000U * 1024); }

TEST_F(available, memory_cannot_be_told_without_files) {
  std::filesystem::remove_all(root_);
  EXPECT_EQ(available_memory(root_), std::nullopt);
}

TEST_F(available, memory_ends_at_the_limit_of_a_group) {
  write("proc/self/cgroup", "0::/jobs/one\n");
  write("sys/fs/cgroup/jobs/one/memory.max", "500000\n");
  write("sys/fs/cgroup/jobs/one/memory.current", "400000\n");
  EXPECT_EQ(bytes(), 100'000U);
  // Pages that cache files can be reclaimed.
  write("sys/fs/cgroup/jobs/one/memory.stat", "anon 1\ninactive_file 30000\nactive_file 20000\n");
  EXPECT_EQ(bytes(), 150'000U);
  write("sys/fs/cgroup/jobs/one/memory.current", "600000\n");
  EXPECT_EQ(bytes(), 0U);
  write("sys/fs/cgroup/jobs/one/memory.max", "max\n");
  EXPECT_EQ(bytes(), 1000U * 1024);
}

TEST_F(available, memory_ends_at_the_limit_of_outer_groups) {
  write("proc/self/cgroup", "0::/jobs/one\n");
  write("sys/fs/cgroup/jobs/one/memory.max", "500000\n");
  write("sys/fs/cgroup/jobs/one/memory.current", "400000\n");
  write("sys/fs/cgroup/jobs/memory.max", "700000\n");
  write("sys/fs/cgroup/jobs/memory.current", "650000\n");
  EXPECT_EQ(bytes(), 50'000U);
}

TEST_F(available, memory_ends_at_the_group_of_a_container) {
  write("proc/self/cgroup", "0::/docker/0123\n");
  write("sys/fs/cgroup/memory.max", "300000\n");
  write("sys/fs/cgroup/memory.current", "100000\n");
  EXPECT_EQ(bytes(), 200'000U);
}

TEST_F(available, memory_in_groups_of_version_1) {
  write("proc/self/cgroup", "9:cpu,memory:/batch\n1:name=systemd:/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "900000\n");
  EXPECT_EQ(bytes(), 1000U * 1024);
  write("sys/fs/cgroup/memory/batch/memory.limit_in_bytes", "500000\n");
  write("sys/fs/cgroup/memory/batch/memory.usage_in_bytes", "450000\n");
  write("sys/fs/cgroup/memory/batch/memory.stat", "cache 5\ntotal_inactive_file 10000\n");
  EXPECT_EQ(bytes(), 60'000U);
}

TEST(available_memory, is_no_more_than_the_machine_has) {
  struct sysinfo machine{};
  ASSERT_EQ(::sysinfo(&machine), 0);
  ASSERT_TRUE(available_memory());
  EXPECT_GT(*available_memory(), 0U);
  EXPECT_LE(*available_memory(), std::uint64_t{machine.totalram} * machine.mem_unit);
}

} // namespace
} // namespace farcall::available_test
