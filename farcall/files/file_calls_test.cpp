// SPDX-License-Identifier: Apache-2.0
#include <farcall/files/file_calls.hpp>
#include <farcall/files/file_messages.hpp>
#include <farcall/files/files_test_support.hpp>
#include <farcall/files/host_files.hpp>
#include <farcall/files/host_requests.hpp>
#include <farcall/files/read_ahead.hpp>
#include <farcall/offload/job_state.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::test::file_calls_test {
namespace {

namespace fs = std::filesystem;
using files::at_position;
using ::testing::HasSubstr;

/// A job whose target may use two folders: "in", where it may write, and "read".
class host_files : public ::testing::Test {
 protected:
  /// Counts the descriptors of this process that refer to files in the tree.
  [[nodiscard]] std::size_t open_here() const {
    std::size_t count = 0;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      const std::string file = fs::read_symlink(entry.path(), ignored).string();
      if (file.starts_with(tree_ / "in/")) ++count;
    }
    return count;
  }

  scratch_tree tree_{"in", "read"};
  std::optional<job> job_{std::in_place, with_host_files((tree_ / "in,") + (tree_ / "read:ro"))};
  node target_ = job_->targets().front();
};

/// Functions that the tests call on targets. They return what file_calls returns.
struct opened_file {
  std::int64_t result = 0;
  std::uint64_t number = 0;
};
opened_file open_there(const std::string& path, int flags) {
  farcall_io_opened opened{};
  const std::int64_t result = files::of_this_target().open(path, flags, 0644, &opened);
  return {result, opened.file};
}
std::string read_there(const std::string& path, std::size_t bytes) {
  const opened_file file = open_there(path, O_RDONLY);
  std::string all(bytes, '\0');
  const std::int64_t got =
      files::of_this_target().read(file.number, all.data(), bytes, at_position);
  (void)files::of_this_target().close(file.number);
  all.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return all;
}
std::int64_t write_there(const std::string& path, int flags, const std::string& what) {
  const opened_file file = open_there(path, flags);
  if (file.result < 0) return file.result;
  const std::int64_t done =
      files::of_this_target().write(file.number, what.data(), what.size(), at_position);
  const std::int64_t closed = files::of_this_target().close(file.number);
  return closed < 0 ? closed : done;
}
std::string pattern(std::size_t bytes) {
  std::string all(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i)
    all[i] = static_cast<char>(content(7, i));
  return all;
}

TEST_F(host_files, are_read_and_written_by_a_target) {
  write_file(tree_ / "read/a", "from the host");
  EXPECT_EQ(sync(target_, read_there, tree_ / "read/a", std::size_t{100}), "from the host");
  EXPECT_EQ(sync(target_, read_there, tree_ / "read/a", std::size_t{4}), "from");
  EXPECT_EQ(sync(target_, write_there, tree_ / "in/b", O_WRONLY | O_CREAT | O_EXCL, "to the host"),
            11);
  EXPECT_EQ(content_of_file(tree_ / "in/b"), "to the host");
  EXPECT_EQ(sync(target_, write_there, tree_ / "in/b", O_WRONLY | O_APPEND, "!"), 1);
  EXPECT_EQ(content_of_file(tree_ / "in/b"), "to the host!");
  EXPECT_EQ(sync(target_, write_there, tree_ / "in/b", O_WRONLY | O_TRUNC, ""), 0);
  EXPECT_EQ(content_of_file(tree_ / "in/b"), "");
}

TEST_F(host_files, that_span_many_pieces_arrive_whole) {
  for (const std::size_t bytes : {std::size_t{16384}, std::size_t{16385}, files::max_piece,
                                  files::max_piece + 1, 7 * files::max_piece + 12345}) {
    const std::string all = pattern(bytes);
    EXPECT_EQ(sync(target_, write_there, tree_ / "in/large", O_WRONLY | O_CREAT | O_TRUNC, all),
              static_cast<std::int64_t>(bytes));
    EXPECT_TRUE(content_of_file(tree_ / "in/large") == all) << bytes;
    EXPECT_TRUE(sync(target_, read_there, tree_ / "in/large", bytes) == all) << bytes;
    // A read beyond the end is short; it starts at the position, which no other read has moved.
    EXPECT_TRUE(sync(target_, read_there, tree_ / "in/large", 2 * bytes) == all) << bytes;
  }
}

TEST_F(host_files, keep_one_position_that_follows_short_reads) {
  const std::string all = pattern(files::max_piece * 2 + 10);
  write_file(tree_ / "in/f", all);
  const auto positions = +[](const std::string& path) {
    auto& f = files::of_this_target();
    const opened_file file = open_there(path, O_RDWR);
    std::vector<char> to(8 * files::max_piece);
    std::vector<std::int64_t> seen;
    seen.push_back(f.seek(file.number, 10, SEEK_SET));
    seen.push_back(f.read(file.number, to.data(), to.size(), at_position));
    seen.push_back(f.seek(file.number, 0, SEEK_CUR));
    seen.push_back(f.read(file.number, to.data(), to.size(), 20));
    seen.push_back(f.seek(file.number, 0, SEEK_CUR));
    seen.push_back(f.read(file.number, to.data(), to.size(), at_position));
    seen.push_back(f.close(file.number));
    return seen;
  };
  const auto size = static_cast<std::int64_t>(all.size());
  EXPECT_THAT(sync(target_, positions, tree_ / "in/f"),
              ::testing::ElementsAre(10, size - 10, size, size - 20, size, 0, 0));
}

/// Offset at which every write fails.
constexpr auto beyond_all_files = INT64_MAX - static_cast<std::int64_t>(4 * files::max_piece);

TEST_F(host_files, skip_writes_after_a_failed_piece) {
  const auto beyond = +[](const std::string& path) {
    auto& f = files::of_this_target();
    const opened_file file = open_there(path, O_WRONLY | O_CREAT);
    const std::string all(4 * files::max_piece, 'x');
    std::vector<std::int64_t> seen;
    // The write may report the error at once, or leave it to fsync().
    const std::int64_t done = f.write(file.number, all.data(), all.size(), beyond_all_files);
    seen.push_back(done < 0 ? done : f.fsync(file.number, false));
    // An error is reported once; writing goes on afterwards.
    seen.push_back(f.fsync(file.number, false));
    seen.push_back(f.write(file.number, "abc", 3, 0));
    seen.push_back(f.close(file.number));
    return seen;
  };
  EXPECT_THAT(sync(target_, beyond, tree_ / "in/f"), ::testing::ElementsAre(-EFBIG, 0, 3, 0));
  EXPECT_EQ(content_of_file(tree_ / "in/f"), "abc");
}

TEST_F(host_files, report_a_failed_write_when_they_are_closed) {
  const auto beyond = +[](const std::string& path) {
    auto& f = files::of_this_target();
    const opened_file file = open_there(path, O_WRONLY | O_CREAT);
    const std::int64_t done = f.write(file.number, "x", 1, beyond_all_files);
    return std::pair(done, f.close(file.number));
  };
  EXPECT_EQ(sync(target_, beyond, tree_ / "in/f"),
            std::pair(std::int64_t{1}, std::int64_t{-EFBIG}));
  EXPECT_EQ(open_here(), 0U) << "it is closed nevertheless";
}

TEST_F(host_files, that_are_synchronous_report_errors_at_once) {
  const auto beyond = +[](const std::string& path) {
    const opened_file file = open_there(path, O_WRONLY | O_CREAT | O_DSYNC);
    return files::of_this_target().write(file.number, "x", 1, beyond_all_files);
  };
  EXPECT_EQ(sync(target_, beyond, tree_ / "in/f"), -EFBIG);
}

TEST_F(host_files, are_consistent_across_descriptors_and_names) {
  const auto use = +[](const std::string& in) -> std::string {
    auto& f = files::of_this_target();
    const std::uint64_t first = open_there(in + "/a", O_RDWR | O_CREAT).number;
    const std::string block(100'000, 'x');
    std::string got(block.size(), '\0');
    farcall_io_status s{};
    for (std::int64_t i = 0; i < 20; ++i) {
      if (f.write(first, block.data(), block.size(), at_position) != 100'000) return "write";
      if (f.stat(in + "/a", true, &s) != 0 || s.size != (i + 1) * 100'000) return "stat";
    }
    if (f.read(first, got.data(), got.size(), 1'900'000) != 100'000 || got != block) return "pread";
    // Two descriptors read in a row, so that the file is read ahead; then a third one changes it.
    const std::uint64_t second = open_there(in + "/a", O_RDONLY).number;
    const std::uint64_t third = open_there(in + "/a", O_RDONLY).number;
    if (f.close(first) != 0) return "close";
    for (int i = 0; i < 3; ++i) {
      if (f.read(second, got.data(), got.size(), at_position) != 100'000) return "read in a row";
      if (f.read(third, got.data(), got.size(), at_position) != 100'000) return "read in a row";
    }
    const std::uint64_t writer = open_there(in + "/a", O_WRONLY).number;
    if (f.write(writer, "new", 3, 300'000) != 3) return "pwrite";
    if (f.read(second, got.data(), 3, at_position) != 3 || got.substr(0, 3) != "new")
      return "changed";
    if (f.close(writer) != 0 || f.truncate(in + "/a", 400'000) != 0) return "truncate";
    if (f.read(third, got.data(), got.size(), at_position) != 100'000) return "before the new end";
    if (f.read(third, got.data(), got.size(), at_position) != 0) return "behind the new end";
    return "";
  };
  EXPECT_EQ(sync(target_, use, tree_ / "in"), "");
}

TEST_F(host_files, are_read_ahead_of_a_sequential_reader) {
  const std::string all = pattern(3 * files::max_piece + 12345);
  write_file(tree_ / "read/a", all);
  for (const std::size_t each : {std::size_t{1000}, std::size_t{4096}, std::size_t{300'000},
                                 files::max_piece, 2 * files::max_piece}) {
    const auto read_on = +[](const std::string& path, std::size_t bytes) {
      auto& f = files::of_this_target();
      const std::uint64_t file = open_there(path, O_RDONLY).number;
      std::string seen;
      std::string piece(bytes, '\0');
      std::int64_t got = 0;
      while ((got = f.read(file, piece.data(), bytes, at_position)) > 0) {
        seen.append(piece, 0, static_cast<std::size_t>(got));
        // Now and then go back to the start, and return.
        if (seen.size() / bytes % 50 == 7) {
          const auto here = static_cast<std::int64_t>(seen.size());
          (void)f.seek(file, 0, SEEK_SET);
          (void)f.read(file, piece.data(), 1, at_position);
          if (f.seek(file, here, SEEK_SET) != here) return std::string("seek");
        }
      }
      (void)f.close(file);
      return seen;
    };
    EXPECT_TRUE(sync(target_, read_on, tree_ / "read/a", each) == all) << each;
  }
}

TEST_F(host_files, are_not_read_ahead_by_reads_through) {
  write_file(tree_ / "in/a", std::string(1'000'000, 'a'));
  const auto opened = +[](const std::string& path) { return open_there(path, O_RDONLY).number; };
  const auto read_at = +[](std::uint64_t file, std::int64_t offset) {
    std::string got(100'000, '\0');
    const std::int64_t bytes = files::of_this_target().read_through({.file = file,
                                                                     .offset = offset,
                                                                     .bytes = got.size(),
                                                                     .result = got.data(),
                                                                     .result_bytes = got.size()});
    return std::to_string(bytes) + got.substr(0, 1);
  };
  const std::uint64_t file = sync(target_, opened, tree_ / "in/a");
  for (const std::int64_t offset : {0, 100'000, 200'000})
    EXPECT_EQ(sync(target_, read_at, file, offset), "100000a");
  write_file(tree_ / "in/a", std::string(350'000, 'b'));
  EXPECT_EQ(sync(target_, read_at, file, std::int64_t{300'000}), "50000b");
  EXPECT_EQ(sync(target_, read_at, file, std::int64_t{-5}), std::to_string(-EINVAL) + '\0');
}

TEST_F(host_files, are_read_right_if_a_thread_reports_reads_late) {
  const std::string all = pattern(files::max_piece);
  write_file(tree_ / "read/a", all);
  const auto use = +[](const std::string& path) -> std::string {
    files::host_requests host(detail::current_job());
    const std::uint64_t number = open_there(path, O_RDONLY).number;
    files::read_ahead ahead(host, number);
    std::string got(1000, '\0');
    // One thread reads in a row, so that bytes from 2000 on are read ahead.
    ahead.has_read(0, 1000);
    if (ahead.read(got.data(), 1000, 1000) != 1000) return "nothing is read ahead";
    // Another thread has read the same bytes itself, and reports it only now.
    ahead.has_read(2000, 1000);
    const std::optional<std::int64_t> n = ahead.read(got.data(), 1000, 3000);
    (void)files::of_this_target().close(number);
    const bool is_right = got == pattern(files::max_piece).substr(3000, 1000);
    return !n || (n == 1000 && is_right) ? "" : "bytes of another place";
  };
  EXPECT_EQ(sync(target_, use, tree_ / "read/a"), "");
}

TEST_F(host_files, let_a_job_end_while_threads_use_them) {
  write_file(tree_ / "read/a", "abc");
  const auto use_on = +[](const std::string& path) {
    for (int i = 0; i < 4; ++i) {
      std::thread([path] {
        while (open_there(path, O_RDONLY).result != -EIO) {
        }
      }).detach();
    }
  };
  sync(target_, use_on, tree_ / "read/a");
  ::testing::internal::CaptureStderr();
  job_.reset();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::Not(HasSubstr("is killed")));
}

TEST_F(host_files, that_are_appended_to_use_the_hosts_position) {
  const auto append = +[](const std::string& path) {
    auto& f = files::of_this_target();
    const std::uint64_t a = open_there(path, O_RDWR | O_CREAT | O_APPEND).number;
    const std::uint64_t b = open_there(path, O_WRONLY).number;
    std::vector<std::int64_t> seen;
    seen.push_back(f.write(a, "one", 3, at_position));
    seen.push_back(f.write(b, "O", 1, at_position));
    seen.push_back(f.write(a, "two", 3, at_position));
    seen.push_back(f.seek(a, 0, SEEK_CUR));
    seen.push_back(f.set_flags(b, O_APPEND));
    seen.push_back(f.write(b, "!", 1, at_position));
    seen.push_back(f.seek(b, 0, SEEK_CUR));
    seen.push_back(f.set_flags(b, 0));
    seen.push_back(f.seek(b, -1, SEEK_END));
    seen.push_back(f.write(b, "?", 1, at_position));
    seen.push_back(f.close(a));
    seen.push_back(f.close(b));
    return seen;
  };
  EXPECT_THAT(sync(target_, append, tree_ / "in/a"),
              ::testing::ElementsAre(3, 1, 3, 6, 0, 1, 7, 0, 6, 1, 0, 0));
  EXPECT_EQ(content_of_file(tree_ / "in/a"), "Onetwo?");
}

TEST_F(host_files, that_were_left_open_are_written_at_the_end) {
  const auto leave = +[](const std::string& path) {
    const std::string all(300'000, 'x');
    return files::of_this_target().write(open_there(path, O_WRONLY | O_CREAT).number, all.data(),
                                         all.size(), at_position);
  };
  EXPECT_EQ(sync(target_, leave, tree_ / "in/a"), 300'000);
  job_.reset();
  EXPECT_EQ(fs::file_size(tree_ / "in/a"), 300'000U);
}

TEST_F(host_files, give_the_errors_of_local_calls) {
  write_file(tree_ / "read/a", "abc");
  write_file(tree_ / "in/a", "abc");
  ASSERT_EQ(::mkfifo((tree_ / "in/pipe").c_str(), 0600), 0);
  fs::create_directories(tree_ / "in/folder/inner");
  fs::create_symlink("loop", tree_ / "in/loop");
  fs::create_symlink(tree_ / "read/a", tree_ / "in/out");
  const auto fails = [&](const std::string& path, int flags) {
    return sync(target_, open_there, path, flags).result;
  };
  EXPECT_EQ(fails(tree_ / "in/none", O_RDONLY), -ENOENT);
  EXPECT_EQ(fails(tree_ / "in/a/b", O_RDONLY), -ENOTDIR);
  EXPECT_EQ(fails(tree_ / "in/folder", O_WRONLY), -EISDIR);
  EXPECT_EQ(fails(tree_ / "in/a", O_RDWR | O_CREAT | O_EXCL), -EEXIST);
  EXPECT_EQ(fails(tree_ / "in/a", O_RDONLY | O_DIRECTORY), -ENOTDIR);
  EXPECT_EQ(fails(tree_ / "in/loop", O_RDONLY), -ELOOP);
  EXPECT_EQ(fails(tree_ / "in/out", O_RDONLY), -EACCES);
  EXPECT_EQ(fails(tree_ / "read/a", O_WRONLY), -EACCES);
  EXPECT_EQ(fails(tree_ / "in/../secret", O_RDONLY), -EACCES);
  EXPECT_EQ(fails("/etc/passwd", O_RDONLY), -EACCES);

  const auto others = +[](const std::string& in) {
    auto& f = files::of_this_target();
    const std::uint64_t file = open_there(in + "/a", O_RDONLY).number;
    const std::uint64_t folder = open_there(in + "/folder", O_RDONLY).number;
    const std::uint64_t writable = open_there(in + "/w", O_WRONLY | O_CREAT).number;
    char byte = 0;
    auto* const nowhere = reinterpret_cast<char*>(std::uintptr_t{64});
    return std::vector<std::int64_t>{
        f.read(1000, &byte, 1, at_position),
        f.close(1000),
        f.read(folder, &byte, 1, at_position),
        f.write(file, "x", 1, at_position),
        f.read(file, nowhere, 1, at_position),
        f.write(writable, nowhere, 1, 0),
        f.write(writable, nowhere, std::size_t{4} << 20, at_position),
        f.read(file, nowhere, std::size_t{4} << 20, 0),
        f.read(file, &byte, 1, -2),
        f.read(file, &byte, 2, INT64_MAX - 1),
        f.seek(file, -1, SEEK_SET),
        f.seek(file, 0, 77),
        f.ftruncate(file, 0),
        f.unlink(in + "/folder"),
        f.rmdir(in + "/folder"),
        f.rmdir(in),
        f.unlink(in + "/a/"),
        f.mkdir(in + "/a", 0755),
        f.rename(in + "/a", in + "/none/a", 0),
        f.rename(in + "/a", in + "/../a", 0),
        f.access(in + "/a", X_OK),
        f.truncate(in + "/folder", 0),
        f.set_mode(0, in + "/pipe", 0666),
        f.link(in + "/pipe", in + "/other", false),
    };
  };
  const bool may_all = ::geteuid() == 0;
  EXPECT_THAT(sync(target_, others, tree_ / "in"),
              ::testing::ElementsAre(-EBADF, -EBADF, -EISDIR, -EBADF, -EFAULT, -EFAULT, -EFAULT,
                                     -EFAULT, -EINVAL, -EINVAL, -EINVAL, -EINVAL, -EINVAL, -EISDIR,
                                     -ENOTEMPTY, -EBUSY, -ENOTDIR, -EEXIST, -ENOENT, -EACCES,
                                     -EACCES, -EISDIR, -EACCES, -EACCES))
      << may_all;
}

TEST_F(host_files, refuse_unknown_operations) {
  const auto use = +[]() -> std::vector<std::int64_t> {
    files::host_requests host(detail::current_job());
    constexpr files::operation none{farcall_io_operations};
    return {files::of_this_target().perform({.operation = farcall_io_operations}),
            host.ask({.what = none}), host.ask({.what = files::operation{255}})};
  };
  EXPECT_THAT(sync(target_, use), ::testing::Each(-ENOSYS));
}

TEST_F(host_files, are_named_listed_and_removed) {
  write_file(tree_ / "in/a", "abc");
  fs::create_symlink("a", tree_ / "in/link");
  const auto works = +[](const std::string& in) {
    auto& f = files::of_this_target();
    farcall_io_status s{};
    std::vector<std::int64_t> seen;
    seen.push_back(f.stat(in + "/link", true, &s));
    seen.push_back(s.size);
    seen.push_back(f.stat(in + "/link", false, &s));
    seen.push_back(S_ISLNK(s.mode) ? 1 : 0);
    char link[8];
    seen.push_back(f.read_link(in + "/link", link, sizeof link));
    seen.push_back(f.read_link(in + "/a", link, sizeof link));
    seen.push_back(f.access(in + "/a", R_OK | W_OK));
    seen.push_back(f.truncate(in + "/a", 1));
    seen.push_back(f.mkdir(in + "/new/", 0750));
    seen.push_back(f.rename(in + "/a", in + "/new/b", 0));
    seen.push_back(f.unlink(in + "/link"));
    seen.push_back(f.rmdir(in + "/new"));
    return seen;
  };
  EXPECT_THAT(sync(target_, works, tree_ / "in"),
              ::testing::ElementsAre(0, 3, 0, 1, 1, -EINVAL, 0, 0, 0, 0, 0, -ENOTEMPTY));
  EXPECT_EQ(content_of_file(tree_ / "in/new/b"), "a");
  for (int i = 0; i < 100; ++i)
    write_file(tree_ / ("in/many/" + std::to_string(i)), "");
  const auto count = +[](const std::string& path) {
    auto& f = files::of_this_target();
    const std::uint64_t folder = open_there(path, O_RDONLY | O_DIRECTORY).number;
    alignas(8) std::array<char, 1000> entries{};
    std::size_t found = 0;
    for (std::int64_t got = 0; (got = f.list(folder, entries.data(), entries.size())) > 0;) {
      for (std::int64_t at = 0; at < got;) {
        std::uint16_t length = 0;
        std::memcpy(&length, entries.data() + at + 16, sizeof length);
        at += length;
        ++found;
      }
    }
    (void)f.close(folder);
    return found;
  };
  EXPECT_EQ(sync(target_, count, tree_ / "in/many"), 102U);
}

TEST_F(host_files, are_closed_when_their_target_ends) {
  write_file(tree_ / "in/a", "abc");
  node second = job_->add("shm");
  EXPECT_EQ(sync(second, open_there, tree_ / "in/a", O_RDONLY).result, 0);
  const opened_file mine = sync(target_, open_there, tree_ / "in/a", O_RDONLY);
  EXPECT_EQ(open_here(), 2U);
  job_->remove(second);
  EXPECT_TRUE(eventually([&] { return open_here() == 1; }));
  const auto close_it = +[](std::uint64_t file) { return files::of_this_target().close(file); };
  EXPECT_EQ(sync(target_, close_it, mine.number), 0);
  EXPECT_EQ(open_here(), 0U);
}

TEST_F(host_files, cannot_be_used_by_other_targets) {
  write_file(tree_ / "in/a", "abc");
  const node second = job_->add("shm");
  const opened_file mine = sync(target_, open_there, tree_ / "in/a", O_RDONLY);
  const auto close_it = +[](std::uint64_t file) { return files::of_this_target().close(file); };
  EXPECT_EQ(sync(second, close_it, mine.number), -EBADF);
  EXPECT_EQ(sync(target_, close_it, mine.number), 0);
}

std::atomic<bool> has_run_beside{false};
void run_beside() { has_run_beside.store(true, std::memory_order_relaxed); }

TEST_F(host_files, run_no_handlers_while_they_wait) {
  write_file(tree_ / "in/a", "abc");
  const auto use = +[](const std::string& path) {
    // This handler would run on this thread if waiting for files ran handlers.
    post(this_node(), run_beside);
    for (int i = 0; i < 100; ++i)
      (void)read_there(path, 3);
    return has_run_beside.load(std::memory_order_relaxed);
  };
  EXPECT_FALSE(sync(target_, use, tree_ / "in/a"));
}

TEST_F(host_files, are_used_by_several_threads_at_once) {
  write_file(tree_ / "in/a", pattern(100'000));
  const auto use = +[](const std::string& path) {
    std::atomic<int> good{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 20; ++t) {
      threads.emplace_back([&, t] {
        std::string all(40'000, '\0');
        const opened_file file = open_there(path, O_RDONLY);
        const auto at = static_cast<std::size_t>(t) * 1000;
        const std::int64_t got = files::of_this_target().read(file.number, all.data(), all.size(),
                                                              static_cast<std::int64_t>(at));
        if (got == 40'000 && all == pattern(100'000).substr(at, 40'000)) ++good;
        (void)files::of_this_target().close(file.number);
      });
    }
    for (std::thread& t : threads)
      t.join();
    return good.load();
  };
  EXPECT_EQ(sync(target_, use, tree_ / "in/a"), 20);
}

TEST(host_files_of_jobs, are_none_unless_given) {
  job job(with_targets("shm"));
  EXPECT_THAT(text_thrown_by<remote_error>(
                  [&] { (void)sync(job.targets().front(), open_there, "/etc/passwd", O_RDONLY); }),
              HasSubstr("job_options::host_files"));
}

TEST(host_files_of_jobs, are_checked_before_targets_start) {
  EXPECT_THAT(text_thrown_by<setting_error>([] { job job(with_host_files("/no/such/folder")); }),
              HasSubstr("/no/such/folder"));
}

/// Messages hold the numbers of rows, so rows must keep their places.
TEST(operations_on_files, keep_their_numbers) {
#define FARCALL_IO_NAME(name, ...) #name " "
  constexpr std::string_view names = FARCALL_IO_OPERATIONS(FARCALL_IO_NAME);
#undef FARCALL_IO_NAME
  EXPECT_EQ(
      names,
      "open close read write seek set_flags fstat ftruncate fsync list allocate set_mode set_owner "
      "set_times space stat access truncate unlink rmdir mkdir rename read_link link symlink "
      "list_status link_open lock copy_range reopen ")
      << "add new rows to this list";
}

TEST(landing_places, accept_only_their_own_bytes) {
  std::array<std::byte, 4> here{};
  const std::array<std::byte, 8> from{std::byte{1}};
  std::uint64_t number = 0;
  {
    const files::landing_place place(here.data(), here.size());
    number = place.number();
    EXPECT_EQ(files::landing_place::put(number, from.data(), 4), 0);
    EXPECT_EQ(here[0], std::byte{1});
    EXPECT_EQ(files::landing_place::put(number, from.data(), 5), -EIO);
    EXPECT_EQ(files::landing_place::put(number + 1, from.data(), 1), -EIO);
  }
  EXPECT_EQ(files::landing_place::put(number, from.data(), 1), -EIO) << "it has gone";
}

TEST(open_flags, are_the_same_on_the_other_side) {
  for (const int flags :
       {O_RDONLY, O_WRONLY | O_CREAT | O_TRUNC, O_RDWR | O_APPEND | O_EXCL | O_CREAT,
        O_RDONLY | O_DIRECTORY, O_RDWR | O_TMPFILE, O_WRONLY | O_SYNC, O_WRONLY | O_DSYNC,
        O_RDONLY | O_NOFOLLOW | O_NONBLOCK}) {
    EXPECT_EQ(files::to_system_flags(files::to_open_flags(flags)), flags) << flags;
  }
  EXPECT_EQ(files::to_open_flags(O_CLOEXEC | O_NOCTTY), 0U);
}

} // namespace
} // namespace farcall::test::file_calls_test
