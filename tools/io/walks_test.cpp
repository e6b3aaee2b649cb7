// SPDX-License-Identifier: Apache-2.0
#include "io_test_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/ipc.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/// Tests of functions of libc that open or list files by hidden calls, and of ways to a folder of
/// the host other than its path.
namespace farcall::test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

/// Returns the function of this name that a call in this program reaches; null if there is none.
template <class Function>
Function* function_of_libc(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

class walks : public hidden_files_job {
 protected:
  walks() {
    for (const char* name : {"a/one", "a/two", "b/one"})
      write_file(at_host(name), name);
    fs::create_symlink("a", tree_ / "host-in/link");
  }
};

INSTANTIATE_TEST_SUITE_P(over, walks, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

std::vector<std::string> found_by_glob(const std::string& pattern, int flags) {
  glob_t found{};
  std::vector<std::string> seen;
  if (const int result = ::glob(pattern.c_str(), flags, nullptr, &found); result != 0)
    return {"result " + std::to_string(result)};
  for (std::size_t i = 0; i < found.gl_pathc; ++i)
    seen.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  return seen;
}

TEST_P(walks, find_patterns) {
  const auto use = +[](const std::string& in) {
    std::vector<std::string> all = found_by_glob(in + "/*/one", GLOB_MARK);
    for (std::string& each : all)
      each = each.substr(in.size());
    const int before = ::open(".", O_RDONLY | O_DIRECTORY);
    (void)::chdir(in.c_str());
    for (const std::string& each : found_by_glob("*", GLOB_MARK))
      all.push_back(each);
    (void)::fchdir(before);
    ::close(before);
    return all;
  };
  EXPECT_THAT(sync(target_, use, in_),
              ElementsAre("/a/one", "/b/one", "/link/one", "a/", "b/", "link/"));
}

std::vector<std::string> visited; // NOLINT(cert-err58-cpp)
std::size_t root_bytes = 0;

TEST_P(walks, visit_trees) {
  const auto use = +[](const std::string& in, int flags) {
    visited.clear();
    root_bytes = in.size();
    const auto visit = +[](const char* path, const struct stat* s, int kind, FTW* where) {
      static const char* const kinds = "FDNSLPB";
      std::string line(path + root_bytes);
      line += std::string(" ") +
              (kind == FTW_SL   ? 'L'
               : kind == FTW_DP ? 'P'
                                : kinds[kind]) +
              std::to_string(where->level) + " " + (path + where->base);
      if (kind == FTW_F) line += " " + std::to_string(s->st_size);
      visited.push_back(line);
      return 0;
    };
    const int result = ::nftw(in.c_str(), visit, 5, flags);
    visited.push_back(std::to_string(result));
    return visited;
  };
  const std::vector<std::string> seen = sync(target_, use, in_, int{FTW_PHYS});
  EXPECT_THAT(seen, UnorderedElementsAre(" D0 in", "/a D1 a", "/a/one F2 one 5", "/a/two F2 two 5",
                                         "/b D1 b", "/b/one F2 one 5", "/link L1 link", "0"));
  EXPECT_EQ(seen.front(), " D0 in");
  const std::vector<std::string> deep = sync(target_, use, in_, FTW_PHYS | FTW_DEPTH);
  EXPECT_EQ(deep.at(deep.size() - 2), " P0 in");
  const auto none = +[](const std::string& path) {
    const auto visit = +[](const char*, const struct stat*, int) { return 7; };
    return std::vector<int>{::ftw((path + "/none").c_str(), visit, 5) == -1 ? errno : 0,
                            ::ftw(path.c_str(), visit, 5)};
  };
  EXPECT_THAT(sync(target_, none, in_), ElementsAre(ENOENT, 7));
}

TEST_P(walks, come_from_folders_above_a_prefix) {
  const auto use = +[](const std::string& in) {
    std::vector<std::int64_t> seen;
    struct stat s{};
    int folder = ::open("/", O_RDONLY | O_DIRECTORY);
    // Like rsync: opens each folder of the path from the one before it.
    for (std::size_t at = 1; at < in.size();) {
      const std::size_t end = std::min(in.find('/', at), in.size());
      const int next = ::openat(folder, in.substr(at, end - at).c_str(), O_RDONLY | O_DIRECTORY);
      seen.push_back(next >= 0 ? 0 : errno);
      ::close(folder);
      folder = next;
      at = end + 1;
    }
    seen.push_back(is_forwarded(folder) ? 0 : 1);
    seen.push_back(error_of(::fstatat(folder, "a/one", &s, 0)));
    ::close(folder);
    const std::string above = in.substr(0, in.rfind('/'));
    folder = ::open(above.c_str(), O_RDONLY | O_DIRECTORY);
    seen.push_back(error_of(::mkdirat(folder, "in/new", 0755)));
    seen.push_back(error_of(::mkdirat(folder, "outside", 0755)));
    ::close(folder);
    return seen;
  };
  EXPECT_THAT(sync(target_, use, in_), ::testing::Each(0));
  EXPECT_TRUE(fs::exists(at_host("new")));
  EXPECT_TRUE(fs::exists(tree_ / "outside"));
}

TEST_P(walks, enter_prefixes_below_missing_folders) {
  write_file(tree_ / "host-up/per/sub/a", "abc");
  fs::create_symlink("sub", tree_ / "host-up/per/link");
  fs::create_symlink(upper_ + "/sub/a", tree_ / "host-up/per/absolute");
  const auto use = +[](const std::string& upper) {
    const auto real = [&](const std::string& path) -> std::string {
      std::array<char, PATH_MAX> to{};
      if (::realpath(path.c_str(), to.data()) == nullptr) return std::to_string(errno);
      const std::string found(to.data());
      return found.starts_with(upper) ? found.substr(upper.size()) : found;
    };
    std::vector<std::string> seen{real(upper), real(upper + "/link/../link/./a"),
                                  real(upper + "/absolute"), real(upper + "/none")};
    const int before = ::open(".", O_RDONLY | O_DIRECTORY);
    seen.push_back(std::to_string(error_of(::chdir((upper + "/link").c_str()))));
    seen.push_back(real("."));
    seen.push_back(std::to_string(error_of(::chdir("../sub"))));
    struct stat s{};
    seen.push_back(std::to_string(error_of(::stat("a", &s))));
    (void)::fchdir(before);
    ::close(before);
    return seen;
  };
  EXPECT_THAT(sync(target_, use, upper_),
              ElementsAre("", "/sub/a", "/sub/a", std::to_string(ENOENT), "0", "/sub", "0", "0"));
}

std::vector<std::int64_t> rename_open_folders(const std::string& in) {
  struct stat s{};
  const std::string from = in + "/a";
  const int folder = ::open(from.c_str(), O_RDONLY | O_DIRECTORY);
  const int before = ::open(".", O_RDONLY | O_DIRECTORY);
  (void)::chdir((in + "/b").c_str());
  std::vector<std::int64_t> seen{error_of(::rename(from.c_str(), (in + "/moved").c_str())),
                                 error_of(::rename((in + "/b").c_str(), (in + "/gone").c_str())),
                                 // Others take the names.
                                 error_of(::mkdir(from.c_str(), 0755)),
                                 error_of(::mkdir((in + "/b").c_str(), 0755))};
  const int made = ::openat(folder, "new", O_WRONLY | O_CREAT, 0644);
  seen.push_back(made < 0 ? errno : 0);
  ::close(made);
  seen.push_back(error_of(::fstatat(folder, "one", &s, 0)));
  seen.push_back(error_of(::renameat(folder, "one", folder, "renamed")));
  seen.push_back(error_of(::linkat(folder, "renamed", folder, "hard", 0)));
  seen.push_back(error_of(::stat("one", &s)));
  seen.push_back(error_of(::mkdir("within", 0755)));
  (void)::fchdir(before);
  ::close(before);
  const int below = ::openat(folder, "../gone/within", O_RDONLY | O_DIRECTORY);
  seen.push_back(below < 0 ? errno : error_of(::mkdirat(below, "deep", 0755)));
  ::close(below);
  ::close(folder);
  // A folder that was removed.
  const int empty = ::open(from.c_str(), O_RDONLY | O_DIRECTORY);
  (void)::rmdir(from.c_str());
  (void)::mkdir(from.c_str(), 0755);
  seen.push_back(error_of(::mkdirat(empty, "x", 0755)));
  ::close(empty);
  return seen;
}

TEST_P(walks, follow_folders_that_are_renamed) {
  const auto expected = ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ENOENT);
  EXPECT_THAT(sync(target_, &rename_open_folders, in_), expected);
  for (const char* name : {"moved/new", "moved/renamed", "moved/hard", "gone/within/deep"})
    EXPECT_TRUE(fs::exists(at_host(name))) << name;
  EXPECT_TRUE(fs::is_empty(at_host("a")));
  EXPECT_TRUE(fs::is_empty(at_host("b")));
  for (const char* name : {"a", "b", "moved", "gone"})
    fs::remove_all(at_host(name));
  write_file(at_host("a/one"), "");
  write_file(at_host("b/one"), "");
  const auto as_client = +[](const std::string& in) { return in_child(rename_open_folders, in); };
  EXPECT_THAT(sync(target_, as_client, in_), expected);
}

/// Enters folders that were renamed, and whose names others have taken.
std::vector<std::int64_t> enter_renamed_folders(const std::string& in) {
  struct stat s{};
  std::array<char, PATH_MAX> name{};
  const std::string from = in + "/a";
  const int before = ::open(".", O_RDONLY | O_DIRECTORY);
  const int folder = ::open(from.c_str(), O_RDONLY | O_DIRECTORY);
  std::vector<std::int64_t> seen{error_of(::mkdir((from + "/sub").c_str(), 0755)),
                                 error_of(::rename(from.c_str(), (in + "/moved").c_str())),
                                 error_of(::mkdir(from.c_str(), 0755))};
  seen.push_back(error_of(::fchdir(folder)));
  seen.push_back(error_of(::stat("one", &s)));
  // As for the system's folders, the name is the one from before; as a path, it is another folder.
  seen.push_back(::getcwd(name.data(), name.size()) != nullptr && name.data() == from ? 0 : 1);
  seen.push_back(::realpath("one", name.data()) == nullptr ? errno : 0);
  seen.push_back(error_of(::chdir("sub")));
  seen.push_back(error_of(::stat("../one", &s)));
  seen.push_back(error_of(::rename((in + "/moved/sub").c_str(), (in + "/deep").c_str())));
  seen.push_back(error_of(::mkdir("within", 0755)));
  seen.push_back(error_of(::chdir("..")));
  seen.push_back(error_of(::stat("deep/within", &s)));
  // A program that is started there finds it, too.
  seen.push_back(error_of(::fchdir(folder)));
  seen.push_back(std::system("test -e one")); // NOLINT(cert-env33-c,concurrency-mt-unsafe)
  (void)::fchdir(before);
  ::close(before);
  ::close(folder);
  return seen;
}

TEST_P(walks, enter_folders_that_were_renamed) {
  const auto expected = ElementsAre(0, 0, 0, 0, 0, 0, ENOENT, 0, 0, 0, 0, 0, 0, 0, 0);
  EXPECT_THAT(sync(target_, &enter_renamed_folders, in_), expected);
  EXPECT_TRUE(fs::is_empty(at_host("a")));
  for (const char* name : {"a", "moved", "deep"})
    fs::remove_all(at_host(name));
  write_file(at_host("a/one"), "");
  const auto as_client = +[](const std::string& in) { return in_child(enter_renamed_folders, in); };
  EXPECT_THAT(sync(target_, as_client, in_), expected);
}

TEST_P(walks, begin_programs_with_file_actions) {
  const auto use = +[](const std::string& in) {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addchdir_np(&actions, (in + "/a").c_str());
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "new", O_WRONLY | O_CREAT, 0644);
    ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    std::array<std::string, 2> words{"cat", "one"};
    std::array<char*, 3> list{words[0].data(), words[1].data(), nullptr};
    pid_t child = 0;
    std::vector<int> seen{::posix_spawnp(&child, "cat", &actions, nullptr, list.data(), environ)};
    int status = -1;
    (void)::waitpid(child, &status, 0);
    seen.push_back(status);
    seen.push_back(
        ::posix_spawnp(&child, "no-such-program", &actions, nullptr, list.data(), environ));
    ::posix_spawn_file_actions_addopen(&actions, 0, (in + "/none").c_str(), O_RDONLY, 0);
    seen.push_back(::posix_spawnp(&child, "cat", &actions, nullptr, list.data(), environ));
    ::posix_spawn_file_actions_destroy(&actions);
    // Without files of the host.
    seen.push_back(::posix_spawnp(&child, "true", nullptr, nullptr, list.data(), environ));
    (void)::waitpid(child, &status, 0);
    seen.push_back(status);
    return seen;
  };
  EXPECT_THAT(sync(target_, use, in_), ElementsAre(0, 0, ENOENT, ENOENT, 0, 0));
  EXPECT_EQ(content_of_file(at_host("a/new")), "a/one");
}

TEST_P(walks, begin_programs_that_close_descriptors) {
  const auto use = +[](const std::string& in) {
    const int before = ::open(".", O_RDONLY | O_DIRECTORY);
    (void)::chdir((in + "/a").c_str());
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    std::array<std::string, 3> words{"test", "-e", "one"};
    std::array<char*, 4> list{words[0].data(), words[1].data(), words[2].data(), nullptr};
    pid_t child = 0;
    std::vector<int> seen{::posix_spawnp(&child, "test", &actions, nullptr, list.data(), environ)};
    int status = -1;
    (void)::waitpid(child, &status, 0);
    seen.push_back(status);
    // The error of the exec() arrives although the child has closed all other descriptors.
    seen.push_back(
        ::posix_spawnp(&child, "no-such-program", &actions, nullptr, list.data(), environ));
    ::posix_spawn_file_actions_destroy(&actions);
    (void)::fchdir(before);
    ::close(before);
    return seen;
  };
  EXPECT_THAT(sync(target_, use, in_), ElementsAre(0, 0, ENOENT));
}

/// Waits until a thread of this process is in read(2), if the system tells.
void wait_for_read(pid_t thread) {
  const std::string name = "/proc/self/task/" + std::to_string(thread) + "/syscall";
  for (int i = 0; i < 100'000; ++i) {
    long number = -1;
    if (std::ifstream(name) >> number && number == SYS_read) return;
    std::this_thread::yield();
  }
}

TEST_P(walks, begin_programs_while_signals_arrive) {
  const auto use = +[](const std::string& in) {
    // The child waits at a pipe, until a signal has interrupted the wait for its report.
    const std::string pipe = fs::path(in).parent_path() / "pipe";
    (void)::mkfifo(pipe.c_str(), 0600);
    struct sigaction action{};
    struct sigaction before{};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &action, &before);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 0, pipe.c_str(), O_RDONLY, 0);
    ::posix_spawn_file_actions_addchdir_np(&actions, in.c_str());
    const pid_t caller = ::gettid();
    const pthread_t self = ::pthread_self();
    std::thread sender([&] {
      wait_for_read(caller);
      ::pthread_kill(self, SIGUSR1);
      ::close(::open(pipe.c_str(), O_WRONLY));
    });
    std::string word = "no-such-program";
    std::array<char*, 2> list{word.data(), nullptr};
    pid_t child = 0;
    const int result =
        ::posix_spawnp(&child, word.c_str(), &actions, nullptr, list.data(), environ);
    sender.join();
    ::posix_spawn_file_actions_destroy(&actions);
    ::sigaction(SIGUSR1, &before, nullptr);
    return result;
  };
  EXPECT_EQ(sync(target_, use, in_), ENOENT);
}

TEST_P(walks, show_no_files_to_calls_of_the_system) {
  const auto use = +[](const std::string& in) {
    const int before = ::open(".", O_RDONLY | O_DIRECTORY);
    (void)::chdir((in + "/a").c_str());
    const auto by_system = [](const char* path, int flags) {
      open_how how{};
      how.flags = static_cast<std::uint64_t>(flags);
      how.mode = (flags & O_CREAT) != 0 ? 0600 : 0;
      return error_of(::syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how));
    };
    std::vector<int> seen{
        by_system("etc", O_RDONLY),
        by_system("../etc", O_RDONLY),
        by_system("../../../etc", O_RDONLY),
        by_system("farcall-made-here", O_WRONLY | O_CREAT),
        by_system("../farcall-made-here", O_WRONLY | O_CREAT),
    };
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const sockaddr_un name{AF_UNIX, "farcall-socket"};
    seen.push_back(error_of(::bind(socket, reinterpret_cast<const sockaddr*>(&name), sizeof name)));
    ::close(socket);
    struct stat s{};
    seen.push_back(error_of(::stat("one", &s)));
    (void)::chdir("..");
    seen.push_back(error_of(::stat("a/one", &s)));
    (void)::fchdir(before);
    ::close(before);
    seen.push_back(by_system(".", O_RDONLY) == 0 ? 0 : 1);
    return seen;
  };
  EXPECT_THAT(sync(target_, use, in_),
              ElementsAre(ENOENT, ENOENT, ENOENT, ENOENT, ENOENT, ENOENT, 0, 0, 0));
}

TEST_P(walks, name_files_in_each_way) {
  const auto use = +[](const std::string& in) -> std::string {
    std::string name = in + "/XXXXXX";
    // The linker warns of these functions.
    auto* const mktemp = function_of_libc<char*(char*)>("mktemp");
    auto* const tempnam = function_of_libc<char*(const char*, const char*)>("tempnam");
    auto* const getwd = function_of_libc<char*(char*)>("getwd");
    if (mktemp == nullptr || tempnam == nullptr || getwd == nullptr) return "dlsym";
    struct stat s{};
    if (mktemp(name.data()) == nullptr || ::lstat(name.c_str(), &s) == 0) return "mktemp";
    char* const chosen = tempnam(in.c_str(), "x");
    if (chosen == nullptr || !std::string(chosen).starts_with(in + "/x")) return "tempnam";
    std::free(chosen);
    std::array<char, PATH_MAX> folder{};
    const int before = ::open(".", O_RDONLY | O_DIRECTORY);
    if (::chdir(in.c_str()) != 0 || getwd(folder.data()) == nullptr || folder.data() != in)
      return "getwd";
    (void)::fchdir(before);
    ::close(before);
    const std::string file = in + "/a/one";
    if (::ftok(file.c_str(), 1) == -1) return "ftok";
    if (::pathconf(in.c_str(), _PC_NAME_MAX) != 255) return "pathconf";
    if (::lchmod(file.c_str(), 0600) != 0) return "lchmod";
    const int fd = ::open(file.c_str(), O_RDONLY);
    const bool is_right = ::fpathconf(fd, _PC_NAME_MAX) == 255 && ::isfdtype(fd, S_IFREG) == 1 &&
                          ::isfdtype(fd, S_IFSOCK) == 0;
    ::close(fd);
    return is_right ? "" : "descriptor";
  };
  EXPECT_EQ(sync(target_, use, in_), "");
}

} // namespace
} // namespace farcall::test
