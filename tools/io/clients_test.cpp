// SPDX-License-Identifier: Apache-2.0
#include "io_test_support.hpp"

#include "tests/child.hpp"
#include "tests/faults/support.hpp"
#include "tests/shell_output.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <error.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/// Tests with programs that a target starts, and children of its forks: ordinary programs, which
/// know nothing of the host.
namespace farcall::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// The host's folders have other names than the host tells its targets, so that calls that are not
/// forwarded fail to find them.
class clients : public forwarding_job {
 protected:
  clients() {
    fs::create_directories(tree_ / "local");
    fs::rename(tree_ / "in", tree_ / "host-in");
    fs::rename(tree_ / "read", tree_ / "host-read");
  }

  /// Returns the name of a file at the host.
  [[nodiscard]] std::string in(const std::string& name) const {
    return tree_ / ("host-in/" + name);
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    return tree_ / ("host-read/" + name);
  }

  /// Returns the output of a shell on the target, and its status if that is not 0. The host's
  /// folders are $I and, read-only, $R; $L is a folder of the target; $E is this program.
  std::string shell(const std::string& commands) {
    const auto run = +[](const std::string& tree, const std::string& text) -> std::string {
      ::setenv("I", (tree + "/in").c_str(), 1);
      ::setenv("R", (tree + "/read").c_str(), 1);
      ::setenv("L", (tree + "/local").c_str(), 1);
      ::setenv("E", fs::read_symlink("/proc/self/exe").c_str(), 1);
      return shell_output(text);
    };
    return sync(target_, run, fs::path(tree_ / ".").parent_path().string(), commands);
  }

  /// Counts the files in the folder that this process, the host, has open.
  [[nodiscard]] std::size_t open_at_host(const std::string& folder) const {
    std::size_t count = 0;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      const std::string path = fs::read_symlink(entry.path(), ignored).string();
      // The prefix's own descriptor does not count.
      if (path.starts_with(folder + "/")) ++count;
    }
    return count;
  }
};

INSTANTIATE_TEST_SUITE_P(over, clients, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

std::string numbers(int count) {
  std::string lines;
  for (int i = 0; i < count; ++i)
    lines += std::to_string(i * 7919 % 10'000) + "\n";
  return lines;
}

TEST_P(clients, are_given_files_by_redirections) {
  write_file(read("lines"), "b\nc\na\n");
  EXPECT_EQ(shell("sort < $R/lines > $I/sorted; cat $I/sorted"), "a\nb\nc\n");
  EXPECT_EQ(content_of_file(in("sorted")), "a\nb\nc\n");
  // All programs of a shell share one position; shell built-ins read, too; then the end of the
  // file.
  EXPECT_EQ(shell("{ read first; cat; } < $R/lines; echo $first"), "c\na\nb\n");
  EXPECT_EQ(shell("{ echo one; cat $R/lines | tail -n 1; printf two; } > $I/out\n"
                  "echo three >> $I/out; cat < $I/out /dev/stdin"),
            "one\na\ntwothree\n");
  EXPECT_EQ(shell("cat $R/lines $R/none 2> $I/said || wc -l < $I/said"), "b\nc\na\n1\n");
  EXPECT_THAT(content_of_file(in("said")), HasSubstr("No such file"));
  EXPECT_EQ(shell("exec 5> $I/five; sh -c 'echo kept >&5'; exec 5>&-; cat $I/five"), "kept\n");
  EXPECT_EQ(shell("cat > $I/here << end\nword\nend\ncat $I/here"), "word\n");
  EXPECT_THAT(shell("echo x > $R/new"), HasSubstr("ermission denied"));
}

TEST_P(clients, recognise_paths_of_the_host_textually) {
  write_file(in("a"), "abc\n");
  EXPECT_EQ(shell("cat $I/./a $L/../in//a; cd $L; cat ../in/a; awk 1 /dev/stdin < $I/a"),
            "abc\nabc\nabc\nabc\n");
  EXPECT_THAT(shell("cat ${I}n/a || true"), HasSubstr("No such file"));
  EXPECT_THAT(shell("cat $I/../in/a || true"), HasSubstr("ermission denied"));
}

TEST_P(clients, work_in_folders_of_the_host) {
  write_file(in("a"), "abc\n");
  EXPECT_EQ(
      shell("cd $I; pwd | sed s=$I=I=; cat a; mkdir sub; cd sub; cat ../a > b; pwd | sed s=$I=I=\n"
            "ls; cat b; cd ..; sh -c 'cat sub/b; cd sub; cat b'; find . -name b\n"
            "cd $L; pwd | sed s=$L=L=; echo local > c; cat c; rm c"),
      "I\nabc\nI/sub\nb\nabc\nabc\nabc\n./sub/b\nL\nlocal\n");
  EXPECT_THAT(shell("cd $I; cat ../../etc/passwd || true"), HasSubstr("ermission denied"));
  EXPECT_EQ(shell("cd $I; ln -s sub link; cd link; pwd -P | sed s=$I=I=; env pwd | sed s=$I=I="),
            "I/sub\nI/sub\n");
}

TEST_P(clients, copy_move_and_list) {
  const std::string all = numbers(8'000);
  write_file(read("folder/a"), all);
  write_file(read("folder/inner/b"), "abc");
  EXPECT_EQ(shell("cp $R/folder/a $I/a; cp $I/a $L/a; cmp $L/a $R/folder/a; rm $L/a"), "");
  EXPECT_EQ(content_of_file(in("a")), all);
  EXPECT_EQ(
      shell("cp -a $R/folder $I/copy; mv $I/copy $I/moved; cp -r $I/moved $L/there\n"
            "mv $L/there $I/back; diff -r $I/back $R/folder; find $I/back | sort | sed s=$I=="),
      "/back\n/back/a\n/back/inner\n/back/inner/b\n");
  EXPECT_EQ(shell("ls $R/folder; stat -c %s $I/a; touch -d @5 $I/a; stat -c %Y $I/a"),
            "a\ninner\n" + std::to_string(all.size()) + "\n5\n");
  EXPECT_EQ(shell("ln $I/a $I/hard; ln -s hard $I/soft; readlink -f $I/soft | sed s=$I==\n"
                  "chmod 640 $I/a; ls -l $I/hard | cut -c 1-10; rm -r $I/back $I/moved $I/soft\n"
                  "ls $I"),
            "/hard\n-rw-r-----\na\nhard\n");
  EXPECT_EQ(shell("dd if=$R/folder/a of=$I/dd bs=8k conv=fsync 2> $L/said; cmp $I/dd $R/folder/a\n"
                  "truncate -s 3 $I/dd; cat $I/dd"),
            all.substr(0, 3));
}

TEST_P(clients, pack_and_unpack) {
  const std::string all = numbers(8'000);
  write_file(read("folder/a"), all);
  write_file(read("folder/inner/b"), "abc");
  EXPECT_EQ(shell("tar -cf $I/all.tar -C $R folder; mkdir $I/x; tar -xf $I/all.tar -C $I/x\n"
                  "diff -r $I/x/folder $R/folder; tar -czf $I/all.tgz -C $I/x folder\n"
                  "tar -xzf $I/all.tgz -C $L; diff -r $L/folder $R/folder; tar -tf $I/all.tar"),
            "folder/\nfolder/inner/\nfolder/inner/b\nfolder/a\n");
  EXPECT_EQ(
      shell(
          "cp $R/folder/a $I/a; gzip $I/a; gunzip -c $I/a.gz | cmp - $R/folder/a\n"
          "gunzip $I/a.gz; cmp $I/a $R/folder/a; gzip < $I/a > $I/b.gz; zcat $I/b.gz | cmp - $I/a"),
      "");
}

TEST_P(clients, search_and_change) {
  write_file(read("numbers"), numbers(20'000));
  EXPECT_EQ(
      shell("grep -c 77 $R/numbers; head -n 1 $R/numbers; tail -n 1 $R/numbers\n"
            "wc -l < $R/numbers; sort -n -T $I $R/numbers -o $I/sorted; sort -n -c $I/sorted"),
      "560\n0\n2081\n20000\n");
  EXPECT_EQ(
      shell("cp $R/numbers $I/n; sed -i s/^0$/zero/ $I/n; head -n 1 $I/n\n"
            "awk 'NR < 3 { print > \"'$I/awk'\" }' $R/numbers; cat $I/awk; echo x | tee -a $I/awk"),
      "zero\n0\n7919\nx\n");
}

TEST_P(clients, may_be_cpython) {
  write_file(in("folder/a"), "abc");
  std::ofstream(tree_ / "local/client.py") << R"(
import mmap, os, shutil, subprocess, sys
i = sys.argv[1] + "/"
with open(i + "b", "wb") as f:
    f.write(b"x" * 3000000)
    f.write(b"end")
assert os.stat(i + "b").st_size == 3000003
fd = os.open(i + "b", os.O_RDWR)
assert os.pread(fd, 3, 3000000) == b"end"
assert os.pwrite(fd, b"END", 3000000) == 3
os.fsync(fd)
assert mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)[-3:] == b"END"
os.close(fd)
shutil.copy(i + "b", i + "c")
shutil.copy2(i + "b", i + "d")
assert open(i + "c", "rb").read()[-3:] == b"END"
shutil.copytree(i + "folder", i + "other")
assert sorted(os.listdir(i)) == ["b", "c", "d", "folder", "other"]
assert [e.stat().st_size for e in os.scandir(i + "other")] == [3]
shutil.rmtree(i + "other")
with open(i + "text", "w") as f:
    print("hello", file=f)
assert subprocess.run(["cat", i + "text"], stdout=subprocess.PIPE).stdout == b"hello\n"
with open(i + "out", "w") as f:
    subprocess.check_call(["cat", i + "text"], stdout=f)
    subprocess.check_call("cat < " + i + "text", shell=True, stdout=f)
assert open(i + "out").read() == "hello\nhello\n"
assert subprocess.check_output(["cat", "text"], cwd=i) == b"hello\n"
os.chdir(i)
assert os.getcwd() + "/" == i and open("text").read() == "hello\n"
assert os.path.realpath(i + "folder/../text") == i + "text"
try:
    open(i + "none")
except FileNotFoundError:
    print("done")
)";
  const char* const python = fs::exists("/usr/bin/python3") ? "/usr/bin/python3" : "python3";
  EXPECT_EQ(shell(std::string(python) + " $L/client.py $I"), "done\n");
}

/// Returns a variable that the target's shell has set for this program's role.
std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

int stream_client() {
  std::string word;
  std::size_t count = 0;
  while (std::cin >> word)
    ++count;
  std::cout << count << '\n' << std::flush;
  std::printf("by C\n");
  std::cerr << "said\n";
  std::ofstream(variable("I") + "/by-ofstream") << word;
  return std::cout.flush() ? 0 : 1;
}
const role stream_role("stream client", stream_client);

TEST_P(clients, may_be_programs_of_streams) {
  write_file(read("words"), numbers(20'000) + "last");
  EXPECT_EQ(shell("FARCALL_TEST_ROLE='stream client' $E < $R/words > $I/out 2> $I/err"), "");
  EXPECT_EQ(content_of_file(in("out")), "20001\nby C\n");
  EXPECT_EQ(content_of_file(in("err")), "said\n");
  EXPECT_EQ(content_of_file(in("by-ofstream")), "last");
}

/// Writes to a stream that was closed, and reports the results to the descriptor 7.
int closing_client() {
  std::printf("hello\n");
  const int closed = std::fclose(stdout);
  const int late = std::fputs("late\n", stdout);
  const int flushed = std::fflush(stdout);
  ::dprintf(7, "%d %d %d\n", closed, late == EOF || flushed == EOF ? -1 : 0,
            std::fclose(stdout) == EOF ? -1 : 0);
  return 0;
}
const role closing_role("closing client", closing_client);

TEST_P(clients, may_use_streams_that_they_have_closed) {
  EXPECT_EQ(shell("FARCALL_TEST_ROLE='closing client' $E > $I/out 7> $I/seven; cat $I/seven"),
            "0 -1 -1\n");
  EXPECT_EQ(content_of_file(in("out")), "hello\n");
}

/// Keeps pointers to stdout, whose buffering it has chosen, and redirects it.
int redirecting_client() {
  std::FILE* const kept = stdout;
  const std::string folder = variable("I");
  const int before = ::dup(STDOUT_FILENO);
  std::setvbuf(stdout, nullptr, _IOLBF, 1000);
  const int fd = ::open((folder + "/lines").c_str(), O_WRONLY | O_CREAT, 0644);
  ::dup2(fd, STDOUT_FILENO);
  ::close(fd);
  std::fprintf(stdout, "one\n");
  (void)!::write(STDOUT_FILENO, "two|", 4);
  std::fprintf(kept, "three\n");
  std::fputs("four", kept);
  std::fflush(kept);
  ::dup2(before, STDOUT_FILENO);
  std::printf("back\n");
  ::error(0, 0, "%s %d", "said", 5);
  ::_exit(0);
}
const role redirecting_role("redirecting client", redirecting_client);

TEST_P(clients, keep_buffering_and_pointers_when_they_redirect) {
  EXPECT_THAT(shell("FARCALL_TEST_ROLE='redirecting client' $E"), HasSubstr("back\n"));
  EXPECT_EQ(content_of_file(in("lines")), "one\ntwo|three\nfour");
}

/// Redirects standard streams while libc's have buffered bytes. Reads "one" and "two" from stdin.
int buffering_client() {
  const std::string folder = variable("I");
  std::array<char, 16> line{};
  (void)std::fgets(line.data(), line.size(), stdin);
  std::printf("begin\n");
  const pid_t child = ::fork();
  if (child == 0) {
    const int fd = ::open((folder + "/child").c_str(), O_WRONLY | O_CREAT, 0644);
    ::dup2(fd, STDOUT_FILENO);
    ::execlp("printf", "printf", "from the child", nullptr);
    ::_exit(127);
  }
  int status = 1;
  (void)::waitpid(child, &status, 0);
  const int before = ::dup(STDOUT_FILENO);
  ::close(STDOUT_FILENO);
  if (::open((folder + "/parent").c_str(), O_WRONLY | O_CREAT, 0644) != STDOUT_FILENO) return 1;
  std::printf("end\n");
  std::fflush(stdout);
  const int in = ::open((folder + "/parent").c_str(), O_RDONLY);
  ::dup2(in, STDIN_FILENO);
  std::string all;
  while (std::fgets(line.data(), line.size(), stdin) != nullptr)
    all += line.data();
  ::dup2(before, STDOUT_FILENO);
  std::printf("read %s", all.c_str());
  return status;
}
const role buffering_role("buffering client", buffering_client);

TEST_P(clients, keep_buffered_bytes_when_they_redirect) {
  EXPECT_EQ(shell("printf 'one\\ntwo\\n' | FARCALL_TEST_ROLE='buffering client' $E"),
            "read two\nbegin\nend\n");
  EXPECT_EQ(content_of_file(in("child")), "from the child");
  EXPECT_EQ(content_of_file(in("parent")), "begin\nend\n");
}

/// Reopens standard streams whose descriptors are free, or files of the host.
int reopening_client() {
  const std::string folder = variable("I");
  if (std::freopen(nullptr, "rb", stdin) == nullptr) return 1;
  std::array<char, 16> word{};
  if (std::scanf("%15s", word.data()) != 1) return 2;
  ::close(STDOUT_FILENO);
  if (std::freopen((folder + "/out").c_str(), "w", stdout) == nullptr) return 3;
  std::printf("%s\n", word.data());
  if (std::freopen(nullptr, "a", stdout) == nullptr) return 4;
  std::printf("more\n");
  return std::fclose(stdout) == 0 && std::freopen(nullptr, "w", stdin) == nullptr ? 0 : 5;
}
const role reopening_role("reopening client", reopening_client);

TEST_P(clients, reopen_standard_streams) {
  write_file(read("words"), "first second\n");
  EXPECT_EQ(shell("FARCALL_TEST_ROLE='reopening client' $E < $R/words"), "");
  EXPECT_EQ(content_of_file(in("out")), "first\nmore\n");
}

int wide_stream_client() {
  std::setlocale(LC_CTYPE, "C.UTF-8");
  std::wstring word;
  std::size_t count = 0;
  while (std::wcin >> word)
    ++count;
  std::wcout << count << L' ' << word << std::endl;
  std::wprintf(L"by C %ls\n", word.c_str());
  std::wcerr << L"said " << word << L'\n';
  return std::wcout.flush() ? 0 : 1;
}
const role wide_stream_role("wide stream client", wide_stream_client);

TEST_P(clients, may_be_programs_of_wide_streams) {
  write_file(read("words"), "one\ntwo \xc3\xa4\xe2\x82\xac");
  EXPECT_EQ(shell("FARCALL_TEST_ROLE='wide stream client' $E < $R/words > $I/out 2> $I/err"), "");
  EXPECT_EQ(content_of_file(in("out")), "3 \xc3\xa4\xe2\x82\xac\nby C \xc3\xa4\xe2\x82\xac\n");
  EXPECT_EQ(content_of_file(in("err")), "said \xc3\xa4\xe2\x82\xac\n");
  // Programs of util-linux use wide characters.
  EXPECT_EQ(shell("export LC_ALL=C.UTF-8; rev $R/words; echo; rev < $R/words > $I/out; rev $I/out"),
            "eno\n\xe2\x82\xac\xc3\xa4 owt\none\ntwo \xc3\xa4\xe2\x82\xac");
}

TEST_P(clients, may_be_fio) {
  if (shell("command -v fio || true").empty()) GTEST_SKIP() << "fio is not installed";
  for (const char* engine : {"sync", "psync", "vsync", "pvsync"}) {
    EXPECT_THAT(
        shell(std::string("cd $L; fio --name=x --filename=$I/fio --size=512k --bs=4k-64k "
                          "--rw=randrw --verify=crc32c --do_verify=1 --minimal --ioengine=") +
              engine + " | cut -d ';' -f 5; rm $I/fio"),
        "0\n")
        << engine;
  }
}

/// Writes and reads lists of parts, in a sandbox that forbids the copies of process_vm_readv(2).
int vector_client() {
  const std::string path = variable("I") + "/parts";
  std::vector<char> block(100'000, 'x');
  std::array<iovec, 3> parts{};
  for (iovec& part : parts)
    part = {block.data(), block.size()};
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND, 0644);
  if (::writev(fd, parts.data(), 3) != 300'000) return 1;
  std::array<sock_filter, 5> filter{{
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, SYS_process_vm_readv},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_process_vm_writev},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  }};
  const sock_fprog program{filter.size(), filter.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    return 2;
  std::array<char, 2> first{};
  std::array<char, 3> second{};
  std::array<iovec, 2> two{iovec{first.data(), 2}, iovec{second.data(), 3}};
  (void)::lseek(fd, 299'999, SEEK_SET);
  if (::writev(fd, two.data(), 2) != 5 || ::preadv(fd, two.data(), 2, 299'998) != 5) return 3;
  return first[1] == 'x' && second[0] == '\0' ? 0 : 4;
}
const role vector_role("vector client", vector_client);

TEST_P(clients, move_lists_of_parts_at_once) {
  EXPECT_THAT(shell("FARCALL_TEST_ROLE='vector client' FARCALL_IO_REPORT=1 $E"),
              AllOf(ContainsRegex("\nwrite +2 +300005 "), Not(HasSubstr("status"))));
  EXPECT_EQ(content_of_file(in("parts")), std::string(300'000, 'x') + std::string(5, '\0'));
}

TEST_P(clients, print_reports_of_their_own) {
  write_file(read("a"), "abc");
  EXPECT_THAT(shell("FARCALL_IO_REPORT=1 cat $R/a"),
              AllOf(HasSubstr("] cat: files of the host"), HasSubstr("\nread ")));
}

TEST_P(clients, are_children_of_forks) {
  write_file(in("a"), "abc");
  const auto use = +[](const std::string& path) -> std::string {
    const int fd = ::open(path.c_str(), O_RDONLY);
    const pid_t child = ::fork();
    if (child == 0) {
      char byte = 0;
      const int own = ::open(path.c_str(), O_RDONLY);
      const bool is_right = ::read(fd, &byte, 1) == 1 && byte == 'a' &&
                            ::pread(own, &byte, 1, 2) == 1 && byte == 'c' && ::close(fd) == 0 &&
                            ::close(own) == 0;
      ::_exit(is_right ? 0 : 1);
    }
    int status = 1;
    (void)::waitpid(child, &status, 0);
    char byte = 0;
    // Parent and child share one position, and the child has closed its own descriptor only.
    if (::read(fd, &byte, 1) != 1 || byte != 'b') return "the parent's";
    return ::close(fd) == 0 && status == 0 ? "" : "the child's";
  };
  EXPECT_EQ(sync(target_, use, tree_ / "in/a"), "");
}

TEST_P(clients, need_not_close_written_files) {
  const auto write_it = +[](const std::string& path) {
    const pid_t child = ::fork();
    if (child == 0) {
      const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
      const std::vector<char> much(3'000'000, 'x');
      const bool is_written = ::write(fd, much.data(), much.size()) == 3'000'000;
      ::_exit(is_written ? 0 : 1);
    }
    int status = 1;
    return ::waitpid(child, &status, 0) == child && status == 0;
  };
  for (std::uintmax_t i = 1; i <= 3; ++i) {
    EXPECT_TRUE(sync(target_, write_it, tree_ / "in/a"));
    EXPECT_EQ(fs::file_size(in("a")), i * 3'000'000);
  }
}

TEST_P(clients, are_forked_while_threads_use_files) {
  write_file(in("a"), std::string(100'000, 'x'));
  const auto use = +[](const std::string& path) {
    std::atomic<bool> is_done{false};
    std::atomic<int> wrong{0};
    const auto check = [&](int fd) {
      std::array<char, 5000> piece{};
      return ::pread(fd, piece.data(), piece.size(), 7000) == 5000 && piece[4999] == 'x';
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        while (!is_done.load(std::memory_order_relaxed)) {
          std::FILE* const stream = std::fopen(path.c_str(), "r");
          if (stream == nullptr || std::fgetc(stream) != 'x' || !check(::fileno(stream))) ++wrong;
          if (stream != nullptr) std::fclose(stream);
        }
      });
    }
    const int fd = ::open(path.c_str(), O_RDONLY);
    for (int i = 0; i < 10; ++i) {
      std::array<pid_t, 3> children{};
      for (pid_t& child : children) {
        child = ::fork();
        if (child == 0) {
          const int own = ::open(path.c_str(), O_RDONLY);
          ::_exit(check(fd) && check(own) && ::close(own) == 0 ? 0 : 1);
        }
      }
      for (const pid_t child : children) {
        int status = 1;
        if (::waitpid(child, &status, 0) != child || status != 0) ++wrong;
      }
    }
    is_done = true;
    for (std::thread& t : threads)
      t.join();
    ::close(fd);
    return wrong.load();
  };
  EXPECT_EQ(sync(target_, use, tree_ / "in/a"), 0);
}

TEST_P(clients, keep_a_file_open_until_the_last_one_closes) {
  write_file(in("a"), "abc");
  const auto open_it = +[](const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY);
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    std::array<int, 2> ends{};
    if (fd < 0 || ::pipe(ends.data()) != 0) return std::array<int, 3>{};
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(ends[0], STDIN_FILENO);
      ::close(ends[1]);
      ::dup2(fd, 9);
      ::execlp("sh", "sh", "-c", "read line; test \"$(cat <&9)\" = abc", nullptr);
      ::_exit(127);
    }
    ::close(ends[0]);
    return std::array<int, 3>{fd, ends[1], child};
  };
  const std::array<int, 3> opened = sync(target_, open_it, tree_ / "in/a");
  EXPECT_EQ(open_at_host(tree_ / "host-in"), 1U);
  const auto close_it = +[](int fd) { return ::close(fd); };
  EXPECT_EQ(sync(target_, close_it, opened[0]), 0);
  // The child has the descriptor.
  EXPECT_EQ(open_at_host(tree_ / "host-in"), 1U);
  const auto end_child = +[](int end, int child) {
    ::close(end);
    int status = 0;
    return ::waitpid(child, &status, 0) == child && status == 0;
  };
  EXPECT_TRUE(sync(target_, end_child, opened[1], opened[2]));
  EXPECT_TRUE(eventually([&] { return open_at_host(tree_ / "host-in") == 0; }));
  // A file that only the target has open is closed when close() returns.
  const auto open_and_close =
      +[](const std::string& path) { return ::close(::open(path.c_str(), O_RDONLY)); };
  EXPECT_EQ(sync(target_, open_and_close, tree_ / "in/a"), 0);
  EXPECT_EQ(open_at_host(tree_ / "host-in"), 0U);
}

TEST_P(clients, that_are_killed_have_their_files_closed) {
  const auto start = +[](const std::string& path) {
    const pid_t child = ::fork();
    if (child == 0) {
      const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT, 0644);
      const std::vector<char> much(std::size_t{4} << 20, 'x');
      while (::pwrite(fd, much.data(), much.size(), 0) > 0) {
      }
      ::_exit(1);
    }
    return child;
  };
  const pid_t child = sync(target_, start, tree_ / "in/a");
  EXPECT_TRUE(eventually([&] { return fs::exists(in("a")) && fs::file_size(in("a")) > 0; }));
  const auto end = +[](pid_t pid) {
    ::kill(pid, SIGKILL);
    int status = 0;
    return ::waitpid(pid, &status, 0) == pid && WIFSIGNALED(status);
  };
  EXPECT_TRUE(sync(target_, end, child));
  EXPECT_TRUE(eventually([&] { return open_at_host(tree_ / "host-in") == 0; }));
  EXPECT_EQ(shell("head -c 1 $I/a"), "x");
}

/// Reads until that fails, and stores the error in a file of its own machine.
int reader() {
  const std::string local = variable("L");
  const int fd = ::open((variable("I") + "/a").c_str(), O_RDONLY);
  std::ofstream(local + "/began") << ::getpid() << std::flush;
  fs::rename(local + "/began", local + "/begun");
  char byte = 0;
  while (::pread(fd, &byte, 1, 0) == 1) {
  }
  std::ofstream(local + "/ended") << errno << std::flush;
  return 0;
}
const role reader_role("reader", reader);

class clients_that_live_on : public clients {
 protected:
  clients_that_live_on() {
    write_file(in("a"), "abc");
    EXPECT_EQ(shell("FARCALL_TEST_ROLE=reader $E > $L/said 2>&1 &"), "");
    EXPECT_TRUE(eventually([&] { return fs::exists(tree_ / "local/begun"); }));
    std::ifstream(tree_ / "local/begun") >> reader_;
  }
  [[nodiscard]] std::string why_it_ended() {
    EXPECT_TRUE(all_end_within({reader_}, std::chrono::seconds(10)));
    return content_of_file(tree_ / "local/ended");
  }

  subreaper reaper_;
  pid_t reader_ = 0;
};

INSTANTIATE_TEST_SUITE_P(over, clients_that_live_on, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(clients_that_live_on, get_errors_behind_the_end_of_the_job) {
  job_.reset();
  EXPECT_EQ(why_it_ended(), std::to_string(EIO));
}

TEST_P(clients_that_live_on, get_errors_when_their_target_is_killed) {
  const auto end = +[] { ::kill(::getpid(), SIGKILL); };
  EXPECT_THROW(sync(target_, end), error);
  // If targets are killed together with the programs that they have started, there is no error to
  // read.
  EXPECT_THAT(why_it_ended(), AnyOf(std::to_string(EIO), ""));
}

/// Takes the name of a target that has ended, as another user, and serves the first client. Returns
/// 0 if the client sends nothing.
int take_name(const std::string& name) {
  constexpr uid_t other = 65534;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const unique_fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::setuid(other) != 0 ||
      ::bind(listener.get(), reinterpret_cast<sockaddr*>(&address),
             static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) != 0 ||
      ::listen(listener.get(), 1) != 0)
    return 2;
  const unique_fd client(::accept(listener.get(), nullptr, nullptr));
  char byte = 0;
  return ::read(client.get(), &byte, 1) == 0 ? 0 : 3;
}

TEST_P(clients, accept_files_from_their_own_user_only) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user, too";
  write_file(in("a"), "abc");
  const std::string told = shell("printf %s \"$FARCALL_IO_SOCKET\"");
  EXPECT_EQ(shell("(until [ -e $L/go ]; do sleep 0.05; done; cat $I/a >$L/got 2>&1 && s=0 || s=$?;"
                  " echo $s >$L/status.new; mv $L/status.new $L/status) >/dev/null 2>&1 &"),
            "");
  job_.reset();
  forked_child impostor([&] { return take_name(told.substr(0, told.find(','))); });
  // Wait until the impostor listens.
  EXPECT_TRUE(eventually([&] {
    std::ifstream sockets("/proc/net/unix");
    const std::string all(std::istreambuf_iterator<char>(sockets), {});
    return all.find("@" + told.substr(0, told.find(','))) != std::string::npos;
  }));
  write_file(tree_ / "local/go", "");
  EXPECT_TRUE(eventually([&] { return fs::exists(tree_ / "local/status"); }));
  EXPECT_EQ(content_of_file(tree_ / "local/status"), "1\n") << content_of_file(tree_ / "local/got");
  EXPECT_EQ(impostor.wait(), 0);
}

} // namespace
} // namespace farcall::test
