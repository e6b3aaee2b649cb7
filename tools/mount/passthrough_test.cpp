// SPDX-License-Identifier: Apache-2.0
#include "mount_test_support.hpp"

#include "tools/io/io_model.hpp"

#include <farcall/base/unique_fd.hpp>

#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/// Tests mounts of a host on the same machine, which passes its open files to the system.
namespace farcall::test::passthrough_test {
namespace {

class passed_files_of_mounts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why_not = why_no_mounts(); !why_not.empty())
      GTEST_SKIP() << "this system allows no mounts: " << why_not;
    if (::geteuid() != 0 || !is_linux_from(6, 9))
      GTEST_SKIP() << "passthrough needs root and Linux 6.9";
    write_file(tree_ / "in/a", "0123456789");
    write_file(tree_ / "read/a", "text");
    const mounting_variables mounting;
    const scoped_variable forward("FARCALL_IO_FORWARD", "descriptors");
    job_options options = with_targets("shm");
    options.host_files = (tree_ / "in,") + (tree_ / "read:ro");
    job_.emplace(options);
    target_ = job_->targets().front();
  }

  /// Runs a shell on the target.
  std::string shell(const std::string& commands) {
    return sync(target_, fn<&output_of>, std::filesystem::path(tree_ / ".").parent_path().string(),
                commands);
  }

  scratch_tree tree_;
  std::optional<job> job_;
  node target_;
};

/// Changes a byte of a shared mapping, and keeps the mapping. Returns 0 or an error number.
int change_mapping(const std::string& path) {
  const unique_fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  void* const mapped =
      file ? ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0) : MAP_FAILED;
  if (mapped == MAP_FAILED) return errno;
  static_cast<volatile char*>(mapped)[3] = 'x';
  return is_mounted(path) ? 0 : ENOTSUP;
}

TEST_F(passed_files_of_mounts, are_mapped_by_the_system) {
  EXPECT_EQ(sync(target_, change_mapping, tree_ / "in/a"), 0);
  // Without passthrough, the change would be in the system's cache of the mount only.
  EXPECT_EQ(content_of_file(tree_ / "in/a"), "012x456789");
}

TEST_F(passed_files_of_mounts, are_read_written_and_made) {
  EXPECT_EQ(shell("cat $I/a; echo; echo new > $I/made; echo more >> $I/made; cat $I/made; "
                  "exec 3<$I/a 4<>$I/a; echo AB >&4; cat <&3; truncate -s 2 $I/a; wc -c < $I/a; "
                  "cp $I/made $I/copy; cmp $I/made $I/copy; rm $I/copy; ls $I"),
            "0123456789\nnew\nmore\nAB\n34567892\na\nmade\n");
  EXPECT_EQ(content_of_file(tree_ / "in/a"), "AB");
  EXPECT_EQ(content_of_file(tree_ / "in/made"), "new\nmore\n");
}

TEST_F(passed_files_of_mounts, follow_appends_of_other_processes) {
  EXPECT_EQ(shell("exec 3>>$I/a; echo one >> $I/a; echo two >&3; cat $I/a"),
            "0123456789one\ntwo\n");
}

TEST_F(passed_files_of_mounts, match_a_copy_in_memory) {
  const random_run chosen;
  const auto run = +[](const std::string& path, std::uint64_t seed, std::uint64_t count) {
    return file_model(path, seed, false).run(count);
  };
  EXPECT_EQ(sync(target_, run, tree_ / "in/model", chosen.seed, chosen.operations), "")
      << "FARCALL_TEST_SEED=" << chosen.seed;
}

TEST_F(passed_files_of_mounts, stay_read_only_below_read_only_prefixes) {
  EXPECT_EQ(shell("cat $R/a; echo x 2> /dev/null >> $R/a || echo refused; chmod 600 $R/a 2> "
                  "/dev/null || echo refused; cat $R/a"),
            "textrefused\nrefused\ntext");
}

TEST_F(passed_files_of_mounts, have_no_name_if_the_program_wants_none) {
  const auto use = +[](const std::string& folder) {
    const unique_fd file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    char byte = 0;
    return file && ::pwrite(file.get(), "abc", 3, 0) == 3 &&
                   ::pread(file.get(), &byte, 1, 1) == 1 && byte == 'b'
               ? 0
               : errno;
  };
  EXPECT_EQ(sync(target_, use, tree_ / "in"), 0);
}

TEST_F(passed_files_of_mounts, are_closed_at_the_host) {
  EXPECT_EQ(shell("for i in 1 2 3 4 5 6 7 8; do cat $I/a > /dev/null; done; echo done"), "done\n");
  const auto open_here = [&] {
    std::size_t count = 0;
    std::error_code ignored;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
      if (std::filesystem::read_symlink(each.path(), ignored) == tree_ / "in/a") ++count;
    }
    return count;
  };
  EXPECT_TRUE(eventually([&] { return open_here() == 0; }));
}

} // namespace
} // namespace farcall::test::passthrough_test
