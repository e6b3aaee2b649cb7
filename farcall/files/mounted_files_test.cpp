// SPDX-License-Identifier: Apache-2.0
#include <farcall/files/file_calls.hpp>
#include <farcall/files/files_test_support.hpp>
#include <farcall/files/mounted_files.hpp>
#include <tests/jobs.hpp>

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>

#include <fcntl.h>
#include <unistd.h>

/// Tests what a target keeps for the helper of a mount, and for how long.
namespace farcall::test::mounted_files_test {
namespace {

/// Connections of a helper that opens and locks a file, and is then killed.
struct killed_helper {
  files::mounted_files opened{files::of_this_target()};
  std::optional<files::mounted_files::connection> connection{opened};
};

std::optional<killed_helper>& the_helper() {
  static std::optional<killed_helper> helper;
  return helper;
}

/// Opens a file and locks it, as the helper does. Returns 0, or -errno.
std::int64_t open_and_lock(const std::string& path) {
  files::mounted_files& of_helper = the_helper().emplace().opened;
  farcall_io_opened opened{};
  const std::int64_t result = of_helper.perform({.operation = farcall_io_op_open,
                                                 .flags = O_RDWR,
                                                 .path = FARCALL_IO_TEXT(path),
                                                 .result = &opened,
                                                 .result_bytes = sizeof opened});
  if (result < 0) return result;
  const farcall_io_lock wanted{1, 0, 0, F_WRLCK};
  farcall_io_lock found{};
  return of_helper.perform({.operation = farcall_io_op_lock,
                            .flags = FARCALL_IO_LOCK_SET,
                            .file = opened.file,
                            .data = &wanted,
                            .data_bytes = sizeof wanted,
                            .result = &found,
                            .result_bytes = sizeof found});
}

TEST(mounted_files_of_a_killed_helper, are_unlocked) {
  const scratch_tree tree;
  write_file(tree / "in/a", "abc");
  job j(with_host_files(tree / "in"));
  const node target = j.targets().front();
  const unique_fd here(::open((tree / "in/a").c_str(), O_RDWR | O_CLOEXEC));
  const auto lock_here = [&] {
    struct flock whole{};
    whole.l_type = F_WRLCK;
    return ::fcntl(here.get(), F_OFD_SETLK, &whole) == 0 ? 0 : errno;
  };
  EXPECT_EQ(sync(target, open_and_lock, tree / "in/a"), 0);
  EXPECT_EQ(lock_here(), EAGAIN);
  sync(target, [] { the_helper()->connection.reset(); });
  EXPECT_EQ(lock_here(), 0);
}

} // namespace
} // namespace farcall::test::mounted_files_test
