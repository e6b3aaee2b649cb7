// SPDX-License-Identifier: Apache-2.0
#include "mount_test_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/// Tests with targets for which farcall-mount has mounted files of the host, and with the programs
/// that such targets start.
namespace farcall::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class mounted_files : public mounting_job {};

INSTANTIATE_TEST_SUITE_P(over, mounted_files, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(mounted_files, are_read_and_written_by_programs) {
  write_file(read("lines"), "b\nc\na\n");
  EXPECT_TRUE(sync(target_, fn<&is_mounted>, tree_ / "in"));
  EXPECT_EQ(shell("sort < $R/lines > $I/sorted; cat $I/sorted; echo more >> $I/sorted"),
            "a\nb\nc\n");
  EXPECT_EQ(content_of_file(in("sorted")), "a\nb\nc\nmore\n");
  EXPECT_EQ(shell("cat $T/single; echo two > $T/single; cat $T/single"), "one filetwo\n");
  EXPECT_EQ(content_of_file(tree_ / "single"), "two\n");
  EXPECT_THAT(shell("echo x > $R/new || true"), HasSubstr("Read-only file system"));
  EXPECT_THAT(shell("cat $I/none || true"), HasSubstr("No such file"));
}

TEST_P(mounted_files, may_be_large) {
  const auto write_and_read = +[](const std::string& path) -> std::string {
    constexpr std::size_t bytes = std::size_t{9} << 20;
    std::string content(bytes + 13, '\0');
    for (std::size_t i = 0; i < content.size(); ++i)
      content[i] = static_cast<char>(i * 7919 >> 8);
    int fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0644);
    for (std::size_t at = 0; at < content.size();) {
      const ssize_t done = ::write(fd, content.data() + at, content.size() - at);
      if (done <= 0) return "write";
      at += static_cast<std::size_t>(done);
    }
    if (::pwrite(fd, "xyz", 3, 5'000'000) != 3 || ::close(fd) != 0) return "close";
    content.replace(5'000'000, 3, "xyz");
    fd = ::open(path.c_str(), O_RDONLY);
    std::string back(content.size() + 1, '\0');
    std::size_t at = 0;
    for (ssize_t got = 0; (got = ::read(fd, back.data() + at, back.size() - at)) > 0;)
      at += static_cast<std::size_t>(got);
    back.resize(at);
    ::close(fd);
    return back == content ? "" : "read";
  };
  EXPECT_EQ(sync(target_, write_and_read, in("large")), "");
  EXPECT_EQ(fs::file_size(in("large")), (std::size_t{9} << 20) + 13);
}

TEST_P(mounted_files, have_names_and_attributes) {
  EXPECT_EQ(
      shell("cd $I; mkdir -p a/b; echo x > a/b/c; ln -s c a/b/link; ln a/b/c a/b/hard\n"
            "cat a/b/link a/b/hard; stat -c %h a/b/c; readlink a/b/link; chmod 640 a/b/c\n"
            "stat -c %a a/b/c; touch -d @1000000000.5 a/b/c; stat -c %.1Y a/b/c\n"
            "truncate -s 5 a/b/c; stat -c %s a/b/hard; mv a z; cat z/b/c | head -c 1; rm -r z; ls"),
      "x\nx\n2\nc\n640\n1000000000.5\n5\nx");
  EXPECT_EQ(shell("cd $I; mkfifo p 2> /dev/null || echo refused; df . > /dev/null; echo $PWD | "
                  "sed s=$I=I="),
            "refused\nI\n");
}

TEST_P(mounted_files, stay_open_while_folders_are_renamed_and_names_removed) {
  EXPECT_EQ(
      shell(
          "cd $I; mkdir -p one/two; echo first > one/two/f; exec 5<> one/two/f\n"
          "mv one other; echo second > other/two/g; cat other/two/f\n"
          "rm other/two/f; echo third >&5; cat /proc/self/fd/5; stat -Lc '%h %s' /proc/self/fd/5\n"
          "rm -r other; cat < /proc/self/fd/5; exec 5>&-; ls"),
      "first\nthird\n0 6\nthird\n");
}

TEST_P(mounted_files, are_listed_in_large_folders) {
  for (int i = 0; i < 3000; ++i)
    write_file(in("many/file" + std::to_string(i)), "");
  EXPECT_EQ(shell("ls $I/many | wc -l; ls -l $I/many | grep -c '^-rw'; ls -a $I/many | head -n 2"),
            "3000\n3000\n.\n..\n");
  EXPECT_EQ(shell("find $I -name 'file299*' | wc -l; rm -r $I/many; ls $I"), "11\n");
}

TEST_P(mounted_files, may_have_no_name) {
  const auto use = +[](const std::string& folder) -> std::string {
    const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR, 0600);
    if (fd < 0) return std::string("open: ") + std::strerror(errno);
    if (::write(fd, "unnamed", 7) != 7) return "write";
    const std::string self = "/proc/self/fd/" + std::to_string(fd);
    if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, (folder + "/named").c_str(),
                 AT_SYMLINK_FOLLOW) != 0)
      return std::string("link: ") + std::strerror(errno);
    ::close(fd);
    return content_of_file(folder + "/named");
  };
  EXPECT_EQ(sync(target_, use, tree_ / "in"), "unnamed");
  EXPECT_EQ(content_of_file(in("named")), "unnamed");
}

TEST_P(mounted_files, are_mapped_by_the_target_and_its_children) {
  const auto use = +[](const std::string& path) -> std::string {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0644);
    constexpr std::size_t bytes = 100'000;
    if (::ftruncate(fd, bytes) != 0) return "ftruncate";
    auto* const shared =
        static_cast<char*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    if (shared == MAP_FAILED) return "mmap";
    shared[0] = 'a';
    const pid_t child = ::fork();
    if (child == 0) {
      // The child maps the file itself.
      const int own = ::open(path.c_str(), O_RDWR);
      auto* const mapped =
          static_cast<char*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0));
      const bool is_seen = mapped != MAP_FAILED && mapped[0] == 'a';
      if (is_seen) mapped[bytes - 1] = 'b';
      ::_exit(is_seen ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (status != 0) return "child";
    if (shared[bytes - 1] != 'b') return "not shared";
    shared[5] = 'c';
    ::close(fd);
    return "";
  };
  EXPECT_EQ(sync(target_, use, in("mapped")), "");
  // The end of the job writes mappings that the target still has.
  job_.reset();
  const std::string content = content_of_file(in("mapped"));
  ASSERT_EQ(content.size(), 100'000U);
  EXPECT_EQ(content[0], 'a');
  EXPECT_EQ(content[5], 'c');
  EXPECT_EQ(content.back(), 'b');
}

TEST_P(mounted_files, that_are_written_are_the_same_for_other_descriptors) {
  write_file(in("both"), std::string(20'000, 'a'));
  const auto use = +[](const std::string& path) -> std::string {
    const int reads = ::open(path.c_str(), O_RDONLY);
    const auto* const mapped =
        static_cast<char*>(::mmap(nullptr, 20'000, PROT_READ, MAP_SHARED, reads, 0));
    if (mapped == MAP_FAILED || mapped[9'000] != 'a') return "mmap";
    std::string seen(20'000, '\0');
    if (::pread(reads, seen.data(), seen.size(), 0) != 20'000) return "pread";
    const int writes = ::open(path.c_str(), O_WRONLY);
    const std::string other(10'000, 'b');
    if (::pwrite(writes, other.data(), other.size(), 5'000) != 10'000) return "pwrite";
    void* const unreadable = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (::pwrite(writes, unreadable, 10, 0) != -1 || errno != EFAULT) return "EFAULT";
    if (::pread(reads, seen.data(), seen.size(), 0) != 20'000) return "pread again";
    if (seen != std::string(5'000, 'a') + other + std::string(5'000, 'a')) return "stale";
    if (mapped[4'999] != 'a' || mapped[9'000] != 'b') return "stale mapping";
    return ::close(writes) == 0 && ::close(reads) == 0 ? "" : "close";
  };
  EXPECT_EQ(sync(target_, use, in("both")), "");
  EXPECT_EQ(content_of_file(in("both")).substr(4'999, 2), "ab");
}

TEST_P(mounted_files, are_used_by_static_programs_and_executed) {
  fs::copy_file(FARCALL_STATIC_PROGRAM, in("program"));
  EXPECT_EQ(shell("echo text > $I/t; $I/program $I/t"), "text\n");
}

TEST_P(mounted_files, have_the_contents_at_the_host_when_opened) {
  write_file(in("changing"), "old");
  EXPECT_EQ(shell("cat $I/changing"), "old");
  write_file(in("changing"), "new");
  EXPECT_EQ(shell("cat $I/changing"), "new");
  write_file(in("longer"), "12345");
  EXPECT_EQ(shell("cat $I/longer"), "12345");
  write_file(in("longer"), "1234567890");
  EXPECT_EQ(shell("cat $I/longer"), "1234567890");
  fs::remove(in("longer"));
  EXPECT_THAT(shell("cat $I/longer || true"), HasSubstr("No such file"));
}

TEST_P(mounted_files, serve_databases_and_repositories) {
  EXPECT_EQ(shell("cd $I; git init -q repo; cd repo\n"
                  "git config user.name n; git config user.email e; echo 1 > f; git add f\n"
                  "git commit -q -m one; echo 2 > f; git commit -q -a -m two; git gc -q\n"
                  "git log --format=%s; git fsck 2>&1; git status --short"),
            "two\none\n");
  EXPECT_EQ(
      shell("cd $I\n"
            "sqlite3 db 'pragma journal_mode=wal; create table t(x);'\n"
            "for i in 1 2 3 4; do (for k in $(seq 25); do echo \"insert into t values($k);\"; "
            "done | sqlite3 -cmd '.timeout 20000' db) & done; wait\n"
            "sqlite3 db 'select count(*) from t'"),
      "wal\n100\n");
}

TEST_P(mounted_files, are_copied_by_rsync) {
  write_file(read("source/a"), std::string(300'000, 'a'));
  write_file(read("source/folder/b"), "b");
  fs::create_symlink("../a", read("source/folder/link"));
  EXPECT_EQ(
      shell("rsync -aX $R/source/ $I/copy/; diff -r $R/source $I/copy; rsync -ai --checksum "
            "$R/source/ $I/copy/; readlink $I/copy/folder/link; echo more >> $I/copy/a\n"
            "rsync -ac --inplace $R/source/ $I/copy/; cmp $R/source/a $I/copy/a\n"
            "rsync -a --remove-source-files $I/copy/ $I/moved/; find $I/copy -type f; ls $I/moved"),
      "../a\na\nfolder\n");
}

TEST_P(mounted_files, end_with_the_target) {
  const pid_t target = sync(target_, ::getpid);
  EXPECT_EQ(shell("grep -c fuse.farcall /proc/self/mounts"), "3\n");
  job_.reset();
  server_.reset();
  EXPECT_TRUE(eventually([&] { return ::kill(target, 0) != 0; }));
  EXPECT_FALSE(is_mounted(tree_ / "in")) << "never in the host's namespace";
}

} // namespace
} // namespace farcall::test
