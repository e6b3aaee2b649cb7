// SPDX-License-Identifier: Apache-2.0

// Operations of targets on files of the host, over shared memory and over connections.
#include <farcall/base/unique_fd.hpp>
#include <farcall/files/file_calls.hpp>
#include <farcall/files/file_messages.hpp>
#include <farcall/files/files_test_support.hpp>
#include <farcall/files/host_files.hpp>
#include <farcall/files/host_requests.hpp>
#include <farcall/offload/job_state.hpp>
#include <farcall/server/server.hpp>
#include <farcall/transport/process.hpp>
#include <tests/jobs.hpp>
#include <tests/sanitizer.hpp>
#include <tests/vanishing_memory.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall::test::host_operations_test {
namespace {

namespace fs = std::filesystem;
using files::at_position;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using results = std::vector<std::int64_t>;

/// A job whose target may use two folders, "in" and the read-only "read", and a pipe.
class host_operations : public ::testing::TestWithParam<const char*> {
 protected:
  host_operations() {
    fs::create_directories(tree_ / "in");
    fs::create_directories(tree_ / "read");
    (void)::mkfifo((tree_ / "pipe").c_str(), 0600);
    // The tests call the operations themselves, so that no library has to be preloaded.
    const scoped_variable forward("FARCALL_IO_FORWARD", "never");
    job_options options;
    options.targets = GetParam();
    options.crash_report = "off";
    if (options.targets == "tcp") {
      server_options served;
      served.listen = {"127.0.0.1", 0};
      served.program = running_program;
      served.arguments = {"farcall_files_tests"};
      served.plain = true;
      server_.emplace(std::move(served));
      options.targets = "tcp://127.0.0.1:" + std::to_string(server_->addresses().front().port);
    }
    options.host_files = (tree_ / "in,") + (tree_ / "read:ro,") + (tree_ / "pipe");
    job_.emplace(options);
    target_ = job_->targets().front();
  }

  scratch_tree tree_;
  std::optional<server> server_;
  std::optional<job> job_;
  node target_;
};
INSTANTIATE_TEST_SUITE_P(over, host_operations, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

// ---- functions on the target ----

files::file_calls& calls() { return files::of_this_target(); }

/// Opens a file, and returns its number, or -errno.
std::int64_t open_there(const std::string& path, int flags) {
  farcall_io_opened opened{};
  const std::int64_t result = calls().open(path, flags, 0644, &opened);
  return result < 0 ? result : static_cast<std::int64_t>(opened.file);
}
std::uint64_t number_of(std::int64_t opened) { return static_cast<std::uint64_t>(opened); }

/// Offset at which every write fails.
constexpr auto beyond_all_files = INT64_MAX - static_cast<std::int64_t>(4 * files::max_piece);

// ---- list_status ----

struct listed {
  std::string name;
  farcall_io_status status{};
  std::int64_t next = 0;
  bool is_padded_by_zeros = true;
};

/// Lists the entries of an open folder from `offset` on, by requests of `bytes` bytes.
std::vector<listed> list_there(std::uint64_t folder, std::size_t bytes, std::int64_t offset) {
  std::vector<listed> all;
  std::string memory(bytes, '\xff');
  std::int64_t got = 0;
  while ((got = calls().list_status(folder, memory.data(), bytes, offset)) > 0) {
    for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
      farcall_io_entry head{};
      std::memcpy(&head, memory.data() + at, sizeof head);
      const std::size_t name = at + sizeof head;
      const std::size_t end = name + (head.bytes + 7) / 8 * 8;
      const std::string padding = memory.substr(name + head.bytes, end - name - head.bytes);
      all.push_back({memory.substr(name, head.bytes), head.status, head.next,
                     padding.find_first_not_of('\0') == std::string::npos});
      at = end;
    }
    offset = at_position;
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return all;
}

/// Lists a folder and returns what is wrong with the entries.
std::string check_list(const std::string& in, std::size_t bytes) {
  // Leave bytes that are not zero in the memory in which the host makes replies.
  const std::uint64_t full = number_of(open_there(in + "/full", O_RDONLY));
  std::string memory(100'000, '\0');
  if (calls().read(full, memory.data(), 100'000, 0) != 100'000) return "read";
  if (calls().read(full, memory.data(), 16'000, 0) != 16'000) return "read";
  const std::uint64_t folder = number_of(open_there(in, O_RDONLY | O_DIRECTORY));
  const std::vector<listed> all = list_there(folder, bytes, at_position);
  const auto find = [&](const std::string& name) {
    const auto at =
        std::find_if(all.begin(), all.end(), [&](const listed& e) { return e.name == name; });
    return at == all.end() ? listed{} : *at;
  };
  if (all.size() != 12) return std::to_string(all.size()) + " entries";
  for (const listed& each : all) {
    if (!each.is_padded_by_zeros) return "bytes of other data behind " + each.name;
  }
  farcall_io_status a{};
  if (calls().stat(in + "/link", false, &a) != 0) return "stat";
  const listed link = find("link");
  if (std::memcmp(&a, &link.status, sizeof a) != 0) return "status of the link";
  if (find("full").status.size != 100'000 || !S_ISDIR(find("folder").status.mode)) return "status";
  for (const char* name : {".", ".."}) {
    if (!S_ISDIR(find(name).status.mode) || find(name).status.links != 0) return name;
  }
  // Go back to the first entry, and on from another.
  if (list_there(folder, bytes, 0).size() != all.size()) return "from the beginning";
  const std::size_t rest = list_there(folder, bytes, find("full").next).size();
  if (rest >= all.size()) return "from an entry on";
  if (calls().close(folder) != 0 || calls().close(full) != 0) return "close";
  const std::int64_t of_file = calls().list_status(number_of(open_there(in + "/full", O_RDONLY)),
                                                   memory.data(), bytes, at_position);
  if (of_file != -ENOTDIR) return "a file";
  return calls().list_status(12345, memory.data(), bytes, at_position) == -EBADF ? "" : "number";
}

TEST_P(host_operations, list_entries_with_their_status) {
  write_file(tree_ / "in/full", std::string(100'000, '\xff'));
  fs::create_directories(tree_ / "in/folder");
  fs::create_symlink("full", tree_ / "in/link");
  for (std::size_t length = 1; length <= 7; ++length)
    write_file(tree_ / ("in/" + std::string(length, 'x')), "abc");
  // Small replies are in records, and large ones in blocks of memory.
  for (const std::size_t bytes : {std::size_t{4096}, std::size_t{1} << 20})
    EXPECT_EQ(sync(target_, check_list, tree_ / "in", bytes), "") << bytes;
}

TEST_P(host_operations, list_entries_whose_status_is_secret) {
  write_file(tree_ / "in/closed/a", "abc");
  fs::permissions(tree_ / "in/closed", fs::perms(0444));
  const auto names = +[](const std::string& path) {
    const std::int64_t folder = open_there(path, O_RDONLY | O_DIRECTORY);
    std::string seen;
    for (const listed& each : list_there(number_of(folder), 4096, at_position)) {
      seen += each.name + (S_ISREG(each.status.mode) ? " file" : " other");
      seen += each.status.links == 0 ? "; " : " with status; ";
    }
    return seen;
  };
  {
    const ordinary_user other;
    if (!other.is_active()) GTEST_SKIP() << "root cannot be another user here";
    EXPECT_EQ(sync(target_, names, tree_ / "in/closed"), ". other; .. other; a file; ");
  }
  fs::permissions(tree_ / "in/closed", fs::perms::owner_all);
}

// ---- link_open, reopen ----

TEST_P(host_operations, give_open_files_a_name) {
  write_file(tree_ / "in/a", "abc");
  write_file(tree_ / "read/a", "abc");
  const auto use = +[](const std::string& tree) {
    const std::uint64_t file = number_of(open_there(tree + "/in/a", O_RDWR));
    const std::uint64_t of_read = number_of(open_there(tree + "/read/a", O_RDONLY));
    results seen;
    seen.push_back(calls().write(file, "new", 3, at_position));
    for (const char* name : {"/in/b", "/in/b", "/in/none/b", "/in/c/", "/in/../d", "/read/b"})
      seen.push_back(calls().link_open(file, tree + name));
    seen.push_back(calls().link_open(of_read, tree + "/in/e"));
    seen.push_back(calls().link_open(12345, tree + "/in/e"));
    const std::int64_t unnamed = open_there(tree + "/in", O_TMPFILE | O_RDWR);
    // Some file systems have no files without a name.
    const bool has_none = unnamed == -EOPNOTSUPP || unnamed == -EISDIR;
    seen.push_back(has_none ? 0 : calls().link_open(number_of(unnamed), tree + "/in/f"));
    return seen;
  };
  EXPECT_THAT(sync(target_, use, tree_ / ""),
              ElementsAre(3, 0, -EEXIST, -ENOENT, -ENOENT, -EACCES, -EACCES, -EACCES, -EBADF, 0));
  EXPECT_EQ(content_of_file(tree_ / "in/b"), "new");
  EXPECT_FALSE(fs::exists(tree_ / "d"));
}

TEST_P(host_operations, open_files_again_that_have_no_name) {
  write_file(tree_ / "in/a", "abc");
  write_file(tree_ / "read/a", "abc");
  const auto use = +[](const std::string& tree) {
    farcall_io_opened opened{};
    std::string text(10, '\0');
    const std::uint64_t file = number_of(open_there(tree + "/in/a", O_RDONLY));
    const std::uint64_t folder = number_of(open_there(tree + "/in", O_RDONLY | O_DIRECTORY));
    const std::uint64_t of_read = number_of(open_there(tree + "/read/a", O_RDONLY));
    results seen{calls().unlink(tree + "/in/a")};
    seen.push_back(calls().reopen(file, O_RDWR | O_APPEND, &opened));
    seen.push_back(calls().write(opened.file, "def", 3, at_position));
    seen.push_back(calls().read(file, text.data(), text.size(), 0));
    seen.push_back(text.starts_with("abcdef") ? 1 : 0);
    seen.push_back(calls().close(opened.file));
    seen.push_back(calls().reopen(file, O_WRONLY | O_TRUNC, &opened));
    seen.push_back(calls().close(opened.file));
    seen.push_back(calls().read(file, text.data(), text.size(), 0));
    seen.push_back(calls().reopen(of_read, O_RDONLY, &opened));
    seen.push_back(calls().reopen(of_read, O_RDWR, &opened));
    seen.push_back(calls().reopen(of_read, O_RDONLY | O_TRUNC, &opened));
    seen.push_back(calls().reopen(folder, O_RDONLY, &opened));
    seen.push_back(calls().reopen(12345, O_RDONLY, &opened));
    return seen;
  };
  EXPECT_THAT(sync(target_, use, tree_ / ""),
              ElementsAre(0, 0, 3, 6, 1, 0, 0, 0, 0, 0, -EACCES, -EACCES, -EACCES, -EBADF));
  EXPECT_EQ(content_of_file(tree_ / "read/a"), "abc");
}

// ---- lock ----

farcall_io_lock lock_of(std::uint64_t owner, std::int64_t type) {
  farcall_io_lock made{};
  made.owner = owner;
  made.type = type;
  made.bytes = 10;
  return made;
}

TEST_P(host_operations, lock_files_of_the_host) {
  write_file(tree_ / "in/a", "abc");
  const auto use = +[](const std::string& path) {
    const std::uint64_t file = number_of(open_there(path, O_RDWR));
    const std::uint64_t again = number_of(open_there(path, O_RDWR));
    farcall_io_lock found{};
    const auto act = [&](std::uint64_t on, int command, std::uint64_t owner, std::int64_t type) {
      const farcall_io_lock wanted = lock_of(owner, type);
      return calls().lock(on, command, &wanted, &found);
    };
    results seen;
    seen.push_back(act(file, FARCALL_IO_LOCK_SET, 1, F_WRLCK));
    seen.push_back(act(again, FARCALL_IO_LOCK_SET, 1, F_WRLCK));
    seen.push_back(act(file, FARCALL_IO_LOCK_SET, 2, F_RDLCK));
    seen.push_back(act(file, FARCALL_IO_LOCK_TEST, 2, F_RDLCK));
    seen.push_back(found.type == F_WRLCK && found.bytes == 10 ? 1 : 0);
    seen.push_back(act(file, FARCALL_IO_LOCK_SET, 1, F_UNLCK));
    seen.push_back(act(file, FARCALL_IO_LOCK_TEST, 2, F_RDLCK));
    seen.push_back(found.type == F_UNLCK ? 1 : 0);
    seen.push_back(act(file, FARCALL_IO_LOCK_WHOLE, 1, F_WRLCK));
    seen.push_back(act(again, FARCALL_IO_LOCK_WHOLE, 1, F_RDLCK));
    seen.push_back(act(file, FARCALL_IO_LOCK_WHOLE, 1, F_UNLCK));
    seen.push_back(act(again, FARCALL_IO_LOCK_WHOLE, 1, F_RDLCK));
    seen.push_back(act(file, FARCALL_IO_LOCK_SET, 1, 77));
    seen.push_back(act(file, 77, 1, F_RDLCK));
    seen.push_back(act(12345, FARCALL_IO_LOCK_SET, 1, F_RDLCK));
    return seen;
  };
  EXPECT_THAT(
      sync(target_, use, tree_ / "in/a"),
      ElementsAre(0, 0, -EAGAIN, 0, 1, 0, 0, 1, 0, -EAGAIN, 0, 0, -EINVAL, -EINVAL, -EBADF));
}

TEST_P(host_operations, respect_locks_of_programs_of_the_host) {
  write_file(tree_ / "in/a", "abc");
  const unique_fd here(::open((tree_ / "in/a").c_str(), O_RDWR | O_CLOEXEC));
  struct flock own{};
  own.l_type = F_WRLCK;
  own.l_whence = SEEK_SET;
  ASSERT_EQ(::fcntl(here.get(), F_OFD_SETLK, &own), 0);
  const auto lock = +[](const std::string& path) {
    const farcall_io_lock wanted = lock_of(1, F_RDLCK);
    farcall_io_lock found{};
    return calls().lock(number_of(open_there(path, O_RDONLY)), FARCALL_IO_LOCK_SET, &wanted,
                        &found);
  };
  EXPECT_EQ(sync(target_, lock, tree_ / "in/a"), -EAGAIN);
  own.l_type = F_UNLCK;
  ASSERT_EQ(::fcntl(here.get(), F_OFD_SETLK, &own), 0);
  EXPECT_EQ(sync(target_, lock, tree_ / "in/a"), 0);
  own.l_type = F_WRLCK;
  EXPECT_NE(::fcntl(here.get(), F_OFD_SETLK, &own), 0) << "the target has it";
}

// ---- copy_range ----

TEST_P(host_operations, copy_between_files_at_the_host) {
  write_file(tree_ / "read/a", "from the host");
  const auto use = +[](const std::string& tree) {
    const std::uint64_t to = number_of(open_there(tree + "/in/b", O_RDWR | O_CREAT));
    const std::uint64_t of_read = number_of(open_there(tree + "/read/a", O_RDONLY));
    const farcall_io_source source{of_read, 5};
    const farcall_io_source behind{of_read, 100};
    const farcall_io_source none{12345, 0};
    results seen;
    seen.push_back(calls().copy_range(to, 2, 3, &source));
    seen.push_back(calls().copy_range(to, 5, 1'000'000, &source));
    seen.push_back(calls().copy_range(to, 0, 10, &behind));
    seen.push_back(calls().copy_range(to, 0, 10, &none));
    seen.push_back(calls().copy_range(12345, 0, 10, &source));
    seen.push_back(calls().copy_range(of_read, 0, 10, &source));
    seen.push_back(calls().perform({.operation = farcall_io_op_copy_range, .file = to}));
    // The error of an earlier write is reported once.
    seen.push_back(calls().write(to, "x", 1, beyond_all_files));
    seen.push_back(calls().copy_range(to, 0, 3, &source));
    seen.push_back(calls().copy_range(to, 0, 3, &source));
    return seen;
  };
  EXPECT_THAT(sync(target_, use, tree_ / ""),
              ElementsAre(3, 8, 0, -EBADF, -EBADF, -EBADF, -EINVAL, 1, -EFBIG, 3));
  EXPECT_EQ(content_of_file(tree_ / "in/b"), "thehethe host");
}

/// The writes to the source are in the lane of another thread than the copy.
TEST_P(host_operations, copy_what_was_written_to_the_source) {
  const auto use = +[](const std::string& in) -> std::string {
    const std::string all(4 * files::max_piece, 'x');
    const std::uint64_t from = number_of(open_there(in + "/a", O_RDWR | O_CREAT));
    const std::uint64_t to = number_of(open_there(in + "/b", O_RDWR | O_CREAT));
    for (int round = 0; round < 10; ++round) {
      std::thread([&] {
        (void)calls().ftruncate(from, 0);
        (void)calls().write(from, all.data(), all.size(), 0);
      }).join();
      const farcall_io_source source{from, 0};
      if (const std::int64_t got = calls().copy_range(to, 0, all.size(), &source);
          got != static_cast<std::int64_t>(all.size()))
        return std::to_string(got) + " bytes in round " + std::to_string(round);
    }
    return "";
  };
  EXPECT_EQ(sync(target_, use, tree_ / "in"), "");
}

// ---- limits ----

/// Opens a file until this fails. Returns the number of times, and the errors of further opens,
/// which would change files.
results open_to_the_limit(const std::string& in) {
  farcall_io_opened opened{};
  std::int64_t count = 0;
  std::int64_t last = 0;
  while ((last = open_there(in + "/a", O_RDONLY)) >= 0)
    ++count;
  // The first file has the number 1.
  return {count, last, open_there(in + "/a", O_WRONLY | O_TRUNC),
          open_there(in + "/new", O_WRONLY | O_CREAT | O_EXCL),
          calls().reopen(1, O_WRONLY | O_TRUNC, &opened)};
}

/// Lowers the soft limit of descriptors of this process, as long as the object lives.
class low_limit {
 public:
  low_limit() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit low{512, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  }
  low_limit(const low_limit&) = delete;
  low_limit& operator=(const low_limit&) = delete;
  ~low_limit() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

  [[nodiscard]] bool is_enough() const noexcept { return before_.rlim_max >= 4096; }

 private:
  rlimit before_{};
};

TEST(limits_of_files, protect_files_the_host_and_other_targets) {
  const scratch_tree tree;
  write_file(tree / "in/a", "abc");
  show_to_sanitizer<node_failed>();
  job_options options = with_targets("shm:2");
  options.host_files = tree / "in";
  job j(options);
  const low_limit limit;
  if (!limit.is_enough()) GTEST_SKIP() << "this system allows few descriptors";
  EXPECT_THAT(sync(j.targets().front(), open_to_the_limit, tree / "in"),
              ElementsAre(files::max_open_files, -EMFILE, -EMFILE, -EMFILE, -EMFILE));
  EXPECT_EQ(content_of_file(tree / "in/a"), "abc");
  EXPECT_FALSE(fs::exists(tree / "in/new"));
  EXPECT_EQ(sync(j.targets().back(), open_there, tree / "in/a", O_RDONLY), 1);
  std::vector<unique_fd> own;
  for (std::size_t i = 0; i < files::spare_descriptors - 1; ++i)
    own.emplace_back(::open((tree / "in/a").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(own.back());
}

// ---- pieces of reads and writes ----

/// A failed write stops the later pieces of the same write, also if a read of the same file ends in
/// between.
TEST_P(host_operations, stop_writes_behind_a_failed_one) {
  write_file(tree_ / "in/a", "abc");
  const auto use = +[](const std::string& path) {
    files::host_requests host(detail::current_job());
    const std::uint64_t file = number_of(open_there(path, O_RDWR));
    const std::string text = "new";
    const files::request writes{.what = files::operation::write,
                                .file = file,
                                .transfer = 7,
                                .data = std::as_bytes(std::span(text))};
    files::request fails = writes;
    fails.offset = beyond_all_files;
    std::string memory(10, '\0');
    const files::landing_place landing(memory.data(), memory.size());
    const files::request reads{.what = files::operation::read,
                               .file = file,
                               .bytes = memory.size(),
                               .landing = landing.number(),
                               .transfer = 9};
    return results{host.ask(fails), host.ask(reads), host.ask(writes), host.ask(reads)};
  };
  EXPECT_THAT(sync(target_, use, tree_ / "in/a"), ElementsAre(-EFBIG, 3, 0, 0));
  EXPECT_EQ(content_of_file(tree_ / "in/a"), "abc");
}

// ---- files that make others wait ----

TEST_P(host_operations, wait_for_the_other_end_of_a_pipe) {
  write_file(tree_ / "in/a", "abc");
  const auto use = +[](const std::string& tree) -> std::string {
    const std::string all(300'000, 'x');
    std::string got;
    std::int64_t written = 0;
    // The writer waits for a reader, then for space in the pipe. Meanwhile other files can be used.
    std::thread writer([&] {
      const std::uint64_t to = number_of(open_there(tree + "/pipe", O_WRONLY));
      written = calls().write(to, all.data(), all.size(), at_position);
      (void)calls().close(to);
    });
    std::vector<std::thread> others;
    std::atomic<int> good{0};
    for (std::size_t i = 0; i < files::host_requests::max_lanes; ++i) {
      others.emplace_back([&] {
        farcall_io_status s{};
        if (calls().stat(tree + "/in/a", true, &s) == 0) ++good;
      });
    }
    for (std::thread& t : others)
      t.join();
    const std::uint64_t from = number_of(open_there(tree + "/pipe", O_RDONLY));
    std::string piece(100'000, '\0');
    std::int64_t n = 0;
    while ((n = calls().read(from, piece.data(), piece.size(), at_position)) > 0)
      got.append(piece, 0, static_cast<std::size_t>(n));
    writer.join();
    if (good != files::host_requests::max_lanes) return "other threads had to wait";
    if (written != static_cast<std::int64_t>(all.size())) return "written";
    return n == 0 && got == all ? "" : "read";
  };
  EXPECT_EQ(sync(target_, use, tree_ / ""), "");
}

TEST_P(host_operations, do_not_wait_for_a_nonblocking_pipe) {
  const auto use = +[](const std::string& path) {
    char byte = 0;
    results seen{open_there(path, O_WRONLY | O_NONBLOCK)};
    const std::uint64_t file = number_of(open_there(path, O_RDONLY | O_NONBLOCK));
    const std::uint64_t to = number_of(open_there(path, O_WRONLY | O_NONBLOCK));
    seen.push_back(calls().read(file, &byte, 1, at_position));
    seen.push_back(calls().read(to, &byte, 1, at_position));
    seen.push_back(calls().write(to, "x", 1, at_position));
    seen.push_back(calls().set_flags(file, 0));
    seen.push_back(calls().read(file, &byte, 1, at_position));
    seen.push_back(calls().set_flags(file, O_NONBLOCK));
    seen.push_back(calls().read(file, &byte, 1, at_position));
    seen.push_back(calls().close(to));
    seen.push_back(calls().read(file, &byte, 1, at_position));
    return seen;
  };
  EXPECT_THAT(sync(target_, use, tree_ / "pipe"),
              ElementsAre(-ENXIO, -EAGAIN, -EBADF, 1, 0, 1, 0, -EAGAIN, 0, 0));
}

TEST_P(host_operations, let_a_job_end_while_they_wait) {
  const auto use = +[](const std::string& path) {
    const std::int64_t file = open_there(path, O_RDONLY);
    std::thread([file] {
      char byte = 0;
      (void)calls().read(number_of(file), &byte, 1, at_position);
    }).detach();
    return file < 0 ? file : 0;
  };
  EXPECT_EQ(sync(target_, use, tree_ / "pipe"), 0);
  ::testing::internal::CaptureStderr();
  job_.reset();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), Not(HasSubstr("is killed")));
}

/// The target must end by its own fault at worst.
TEST_P(host_operations, harm_no_other_node_if_memory_goes_away) {
  if constexpr (under_sanitizer)
    GTEST_SKIP() << "sanitizers report the races and faults of this test";
  const std::size_t bytes = 2 * files::max_piece + 12345;
  write_file(tree_ / "read/a", std::string(bytes, 'x'));
  const auto use = +[](const std::string& tree, std::size_t length) {
    const std::uint64_t from = number_of(open_there(tree + "/read/a", O_RDONLY));
    const std::uint64_t to = number_of(open_there(tree + "/in/b", O_RDWR | O_CREAT));
    const vanishing_memory memory(length);
    bool is_good = true;
    for (int round = 0; round < 10; ++round) {
      std::uint8_t* const at = memory.bytes().data();
      const std::int64_t got = calls().read(from, at, length, 0);
      const std::int64_t put = calls().write(to, at, length, 0);
      for (const std::int64_t each : {got, put})
        is_good = is_good && (each == -EFAULT || (each > 0 && number_of(each) <= length));
    }
    return is_good;
  };
  try {
    EXPECT_TRUE(sync(target_, use, tree_ / "", bytes));
  } catch (const node_failed& e) {
    EXPECT_EQ(e.node(), target_.id());
  }
  const auto read_all = +[](const std::string& path, std::size_t length) {
    std::string all(length + 1, '\0');
    const std::int64_t got =
        calls().read(number_of(open_there(path, O_RDONLY)), all.data(), all.size(), at_position);
    return got == static_cast<std::int64_t>(length) && all == std::string(length, 'x') + '\0';
  };
  EXPECT_TRUE(sync(job_->add("shm"), read_all, tree_ / "read/a", bytes));
  const std::string written = content_of_file(tree_ / "in/b");
  EXPECT_LE(written.size(), bytes);
  EXPECT_EQ(written.find_first_not_of(std::string("x\0", 2)), std::string::npos);
}

std::atomic<int> leases_broken{0};

TEST_P(host_operations, wait_for_the_end_of_a_lease) {
  write_file(tree_ / "in/a", "abc");
  leases_broken = 0;
  struct sigaction counts{};
  counts.sa_handler = [](int) { leases_broken.fetch_add(1); };
  counts.sa_flags = SA_RESTART;
  struct sigaction before{};
  ASSERT_EQ(::sigaction(SIGIO, &counts, &before), 0);
  const unique_fd here(::open((tree_ / "in/a").c_str(), O_RDONLY | O_CLOEXEC));
  if (::fcntl(here.get(), F_SETLEASE, F_RDLCK) != 0) GTEST_SKIP() << "no leases here";
  const auto open_to_write = +[](const std::string& path) {
    const std::int64_t opened = open_there(path, O_WRONLY);
    return std::min<std::int64_t>(opened, 0);
  };
  auto waiting = async(target_, open_to_write, tree_ / "in/a");
  EXPECT_TRUE(eventually([&] { return leases_broken.load() > 0; }));
  // The target has asked again before the lease ends.
  EXPECT_FALSE(waiting.test());
  EXPECT_EQ(::fcntl(here.get(), F_SETLEASE, F_UNLCK), 0);
  EXPECT_EQ(waiting.get(), 0);
  EXPECT_EQ(::sigaction(SIGIO, &before, nullptr), 0);
}

} // namespace
} // namespace farcall::test::host_operations_test
