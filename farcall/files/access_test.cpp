// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/files/access.hpp>
#include <farcall/files/files_test_support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace farcall::files::access_test {
namespace {

namespace fs = std::filesystem;
using test::content_of;
using test::scratch_tree;
using test::write_file;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<prefix> parse(std::string_view text) { return parse_prefixes(text, "host_files"); }

/// Opens a file and closes it again. Returns 0, or -errno.
int try_open(const access_list& list, const std::string& path, int flags = O_RDONLY) {
  const int fd = list.open(path, flags, 0644);
  if (fd < 0) return fd;
  ::close(fd);
  return 0;
}

TEST(prefixes, are_paths_with_a_mode) {
  const std::vector<prefix> all = parse("/data:ro,/home/me,/srv/a//b/./c/:rw");
  const std::vector<prefix> expected{{"/data", false}, {"/home/me", true}, {"/srv/a/b/c", true}};
  EXPECT_EQ(all, expected);
  EXPECT_EQ(parse(text_of(all)), all);
  EXPECT_EQ(parse("here").front().path, fs::absolute("here").string());
}

TEST(prefixes, that_make_no_sense_are_refused) {
  for (const char* text : {"", "/a,,/b", ":ro", "/", "/..", "/a,/a:ro", "/a:rw,/a/b:ro"}) {
    EXPECT_THROW((void)parse(text), setting_error) << text;
  }
  EXPECT_EQ(parse("/a:ro,/a/b:rw,/ab").size(), 3U) << "writable beneath read-only";
  EXPECT_THROW((void)parse("/" + std::string(5000, 'x')), setting_error);
}

TEST(prefixes, have_at_most_4000_bytes_as_absolute_paths) {
  const std::string longest = "/" + std::string(3995, 'x');
  EXPECT_EQ(text_of(parse(longest)).size(), 3999U);
  const auto names_the_limit =
      ThrowsMessage<setting_error>(AllOf(HasSubstr("bytes as a list"), HasSubstr("may have 4000")));
  EXPECT_THAT([&] { (void)parse(longest + "xx"); }, names_the_limit);
  EXPECT_THAT([&] { (void)parse(std::string(9000, 'x')); }, names_the_limit);
  // The absolute paths of short names may be long.
  std::string names = "x100";
  for (int i = 101; i < 600; ++i)
    names += ",x" + std::to_string(i);
  EXPECT_LT(names.size(), 2600U);
  EXPECT_THAT([&] { (void)parse(names); }, names_the_limit);
}

TEST(prefixes, are_found_by_whole_words) {
  const std::vector<prefix> all = parse("/data:ro,/data/scratch,/home/me/x");
  const auto rest = [&](std::string_view path) -> std::string {
    const auto found = find_prefix(all, path);
    return found ? found->of->path + "|" + std::string(found->rest) : "none";
  };
  EXPECT_EQ(rest("/data"), "/data|");
  EXPECT_EQ(rest("/data/"), "/data|");
  EXPECT_EQ(rest("//data///a//b/"), "/data|a//b/");
  EXPECT_EQ(rest("/data/./scratch/f"), "/data/scratch|f");
  EXPECT_EQ(rest("/database"), "none");
  EXPECT_EQ(rest("/home/me"), "none");
  EXPECT_EQ(rest("data/x"), "none");
  EXPECT_EQ(rest(""), "none");
  EXPECT_EQ(rest("/"), "none");
  EXPECT_EQ(rest("/etc/../data/x"), "/data|x");
  EXPECT_EQ(rest("/../data/x"), "/data|x");
  EXPECT_EQ(rest("/data/../etc/passwd"), "/data|../etc/passwd") << "refused by the host";
  EXPECT_EQ(rest("/data/../data/scratch/x"), "/data|../data/scratch/x");
}

TEST(access_lists, open_what_is_beneath) {
  const scratch_tree tree;
  write_file(tree / "in/deep/file", "abc");
  fs::create_symlink("deep/file", tree / "in/link");
  const access_list list(parse(tree / "in"));
  EXPECT_EQ(content_of(list.open(tree / "in/deep/file", O_RDONLY, 0)), "abc");
  EXPECT_EQ(content_of(list.open(tree / "in/link", O_RDONLY, 0)), "abc");
  EXPECT_EQ(content_of(list.open(tree / "in/deep/../deep/file", O_RDONLY, 0)), "abc");
  EXPECT_EQ(try_open(list, tree / "in", O_RDONLY | O_DIRECTORY), 0);
  EXPECT_EQ(try_open(list, tree / "in/new", O_WRONLY | O_CREAT | O_EXCL), 0);
  EXPECT_EQ(try_open(list, tree / "in/new", O_WRONLY | O_CREAT | O_EXCL), -EEXIST);
  EXPECT_EQ(try_open(list, tree / "in/none"), -ENOENT);
  EXPECT_EQ(try_open(list, tree / "in/deep/file/x"), -ENOTDIR);
  EXPECT_EQ(try_open(list, tree / "in/deep", O_WRONLY), -EISDIR);
  EXPECT_EQ(try_open(list, tree / "in/link", O_RDONLY | O_NOFOLLOW), -ELOOP);
  EXPECT_EQ(try_open(list, tree / ("in/" + std::string(300, 'x'))), -ENAMETOOLONG);
  EXPECT_EQ(try_open(list, tree / ("in/" + std::string(5000, 'x'))), -ENAMETOOLONG);
}

TEST(access_lists, keep_paths_inside_their_prefix) {
  const scratch_tree tree;
  write_file(tree / "secret", "secret");
  write_file(tree / "inside/secret", "secret");
  fs::create_directories(tree / "in/folder");
  fs::create_symlink("../secret", tree / "in/out");
  fs::create_symlink(tree / "secret", tree / "in/absolute");
  fs::create_symlink("..", tree / "in/up");
  fs::create_symlink("/", tree / "in/whole");
  fs::create_symlink("/proc/self/fd/0", tree / "in/magic");
  fs::create_symlink("loop", tree / "in/loop");
  const access_list list(parse(tree / "in"));
  for (const char* path :
       {"in/../secret", "in/folder/../../secret", "in/out", "in/absolute", "in/up/secret",
        "in/up/in/folder", "in/whole/etc/passwd", "in/magic", "secret", "inside/secret", "in/.."}) {
    EXPECT_EQ(try_open(list, tree / path), -EACCES) << path;
    EXPECT_EQ(list.open_name(tree / path, true), -EACCES) << path;
  }
  EXPECT_EQ(try_open(list, "/etc/passwd"), -EACCES);
  EXPECT_EQ(try_open(list, "in/folder"), -EACCES) << "not absolute";
  EXPECT_EQ(try_open(list, tree / "in/loop"), -ELOOP);
  EXPECT_EQ(try_open(list, tree / "in/up/new", O_WRONLY | O_CREAT), -EACCES);
  EXPECT_EQ(try_open(list, tree / "in/../new", O_WRONLY | O_CREAT), -EACCES);
  EXPECT_FALSE(fs::exists(tree / "new"));
}

TEST(access_lists, do_not_follow_the_links_of_proc) {
  const access_list list(parse("/proc:ro"));
  const scratch_tree tree;
  write_file(tree / "secret", "secret");
  const unique_fd open_here(::open((tree / "secret").c_str(), O_RDONLY));
  EXPECT_EQ(try_open(list, "/proc/self/fd/" + std::to_string(open_here.get())), -ELOOP);
  EXPECT_EQ(try_open(list, "/proc/self/cwd/."), -ELOOP);
  EXPECT_EQ(try_open(list, "/proc/self/exe"), -ELOOP);
}

TEST(access_lists, open_special_files_only_by_their_own_prefix) {
  const scratch_tree tree;
  fs::create_directories(tree / "in");
  ASSERT_EQ(::mkfifo((tree / "in/pipe").c_str(), 0600), 0);
  const unique_fd socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (tree / "in/socket").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const access_list list(parse((tree / "in") + ",/dev:ro"));
  // Opening a pipe without a writer would block for ever.
  EXPECT_EQ(try_open(list, tree / "in/pipe"), -EACCES);
  EXPECT_EQ(try_open(list, tree / "in/socket"), -EACCES);
  EXPECT_EQ(try_open(list, "/dev/zero"), -EACCES);
  const access_list zero(parse("/dev/zero"));
  EXPECT_EQ(try_open(zero, "/dev/zero", O_RDWR), 0);
  EXPECT_EQ(try_open(zero, "/dev/zero/"), -ENOTDIR);
  EXPECT_EQ(try_open(zero, "/dev/null"), -EACCES);
}

TEST(access_lists, refuse_writes_to_read_only_prefixes) {
  const scratch_tree tree;
  write_file(tree / "in/file", "abc");
  fs::create_directories(tree / "in/scratch");
  fs::create_symlink("scratch", tree / "in/link");
  const access_list list(parse((tree / "in:ro,") + (tree / "in/scratch")));
  EXPECT_EQ(content_of(list.open(tree / "in/file", O_RDONLY | O_CREAT, 0)), "abc");
  EXPECT_EQ(try_open(list, tree / "in/file", O_WRONLY), -EACCES);
  EXPECT_EQ(try_open(list, tree / "in/file", O_RDWR), -EACCES);
  EXPECT_EQ(try_open(list, tree / "in/file", O_RDONLY | O_TRUNC), -EACCES);
  EXPECT_EQ(try_open(list, tree / "in/none", O_RDONLY | O_CREAT), -ENOENT);
  EXPECT_EQ(try_open(list, tree / "in/file", O_RDONLY | O_CREAT | O_EXCL), -EEXIST);
  EXPECT_EQ(try_open(list, tree / "in/none", O_RDONLY | O_CREAT | O_EXCL), -EACCES);
  EXPECT_EQ(try_open(list, tree / "in", O_TMPFILE | O_RDWR), -EACCES);
  EXPECT_EQ(try_open(list, tree / "in/scratch/new", O_WRONLY | O_CREAT), 0);
  EXPECT_EQ(try_open(list, tree / "in/link/new", O_WRONLY | O_CREAT), -EACCES);
  access_list::parent parent;
  EXPECT_EQ(list.open_parent(tree / "in/file", parent), -EACCES);
  EXPECT_EQ(list.open_parent(tree / "in/scratch/new", parent), 0);
  EXPECT_EQ(parent.name, "new");
}

TEST(access_lists, find_the_folder_of_new_and_removed_files) {
  const scratch_tree tree;
  fs::create_directories(tree / "in/a");
  fs::create_symlink("..", tree / "in/up");
  const access_list list(parse(tree / "in"));
  access_list::parent parent;
  EXPECT_EQ(list.open_parent(tree / "in/a/b//", parent), 0);
  EXPECT_EQ(parent.name, "b");
  EXPECT_TRUE(parent.wants_folder);
  EXPECT_EQ(list.open_parent(tree / "in", parent), -EBUSY);
  EXPECT_EQ(list.open_parent(tree / "in/.", parent), -EINVAL);
  EXPECT_EQ(list.open_parent(tree / "in/a/..", parent), -EACCES);
  EXPECT_EQ(list.open_parent(tree / "in/../x", parent), -EACCES);
  EXPECT_EQ(list.open_parent(tree / "in/up/x", parent), -EACCES);
  EXPECT_EQ(list.open_parent("/etc/passwd", parent), -EACCES);
}

TEST(access_lists, open_the_file_that_now_has_the_name) {
  const scratch_tree tree;
  write_file(tree / "file", "old");
  write_file(tree / "real", "abc");
  fs::create_symlink("real", tree / "link");
  const access_list list(parse((tree / "file,") + (tree / "link:ro")));
  write_file(tree / "new", "new");
  fs::rename(tree / "new", tree / "file");
  EXPECT_EQ(content_of(list.open(tree / "file", O_RDONLY, 0)), "new");
  struct stat s{};
  const unique_fd name(list.open_name(tree / "file", true));
  ASSERT_EQ(::fstat(name.get(), &s), 0);
  EXPECT_EQ(s.st_size, 3);
  // A link and its file are both names of the prefix, but a file that became a link is not.
  EXPECT_EQ(content_of(list.open(tree / "link", O_RDONLY | O_NOFOLLOW, 0)), "abc");
  fs::remove(tree / "file");
  EXPECT_EQ(try_open(list, tree / "file"), -ENOENT);
  EXPECT_EQ(list.open_name(tree / "file", true), -ENOENT);
  fs::create_symlink("real", tree / "file");
  EXPECT_EQ(try_open(list, tree / "file"), -ELOOP);
  fs::remove(tree / "file");
  fs::create_directories(tree / "file/folder");
  EXPECT_EQ(try_open(list, tree / "file"), -EACCES);
  EXPECT_EQ(list.open_name(tree / "file", true), -EACCES);
  EXPECT_EQ(try_open(list, tree / "file/folder"), -ENOTDIR);
}

TEST(access_lists, make_the_file_of_a_prefix_once) {
  const scratch_tree tree;
  write_file(tree / "file", "abc");
  ASSERT_EQ(::mkfifo((tree / "pipe").c_str(), 0600), 0);
  const access_list list(parse((tree / "file,") + (tree / "pipe")));
  EXPECT_EQ(try_open(list, tree / "file", O_RDWR | O_CREAT | O_EXCL), -EEXIST);
  EXPECT_EQ(try_open(list, tree / "pipe", O_RDWR | O_CREAT | O_EXCL), -EEXIST);
  EXPECT_EQ(try_open(list, tree / "file", O_RDWR | O_CREAT), 0);
  fs::remove(tree / "file");
  EXPECT_EQ(try_open(list, tree / "file", O_RDWR | O_CREAT | O_EXCL), 0);
}

/// Opening a pipe would otherwise wait for the other end.
TEST(access_lists, do_not_wait_for_the_end_of_a_pipe) {
  const scratch_tree tree;
  ASSERT_EQ(::mkfifo((tree / "pipe").c_str(), 0600), 0);
  const access_list list(parse(tree / "pipe"));
  EXPECT_EQ(try_open(list, tree / "pipe", O_WRONLY), -EAGAIN);
  EXPECT_EQ(try_open(list, tree / "pipe", O_WRONLY | O_NONBLOCK), -ENXIO);
  const unique_fd reader(list.open(tree / "pipe", O_RDONLY, 0));
  EXPECT_TRUE(reader);
  EXPECT_EQ(try_open(list, tree / "pipe", O_WRONLY), 0);
}

/// `:ro` would mean nothing for a folder that targets may write to by another path.
TEST(access_lists, refuse_a_read_only_link_into_a_writable_folder) {
  const scratch_tree tree;
  write_file(tree / "srv/d/a", "abc");
  fs::create_symlink("srv/d", tree / "data");
  fs::create_symlink("srv/d/a", tree / "file");
  for (const char* name : {"data", "file"}) {
    EXPECT_THROW(access_list(parse((tree / "srv:rw,") + (tree / name) + ":ro")), setting_error);
    EXPECT_NO_THROW(access_list(parse((tree / "srv:ro,") + (tree / name) + ":ro")));
    EXPECT_NO_THROW(access_list(parse((tree / "srv:ro,") + (tree / name) + ":rw")));
  }
  EXPECT_THROW(access_list(parse((tree / "srv/d:rw,") + (tree / "data:ro"))), setting_error);
}

TEST(access_lists, refuse_long_paths_at_once) {
  const scratch_tree tree;
  const access_list list(parse((tree / "")));
  const std::string path = "/" + std::string(std::size_t{1} << 20, 'x');
  access_list::parent parent;
  EXPECT_EQ(try_open(list, path), -ENAMETOOLONG);
  EXPECT_EQ(list.open_name(path, true), -ENAMETOOLONG);
  EXPECT_EQ(list.open_parent(path, parent), -ENAMETOOLONG);
  EXPECT_FALSE(list.is_writable(path));
}

TEST(access_lists, need_existing_prefixes) {
  const scratch_tree tree;
  EXPECT_THROW(access_list(parse(tree / "none")), setting_error);
}

} // namespace
} // namespace farcall::files::access_test
