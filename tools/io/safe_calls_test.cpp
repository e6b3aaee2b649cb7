// SPDX-License-Identifier: Apache-2.0
#include "io_test_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <aio.h>
#include <argp.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fts.h>
#include <grp.h>
#include <gshadow.h>
#include <malloc.h>
#include <mntent.h>
#include <printf.h>
#include <pty.h>
#include <pwd.h>
#include <sched.h>
#include <shadow.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

// The header declares C functions, but does not say so in C++.
extern "C" {
#include <sys/pidfd.h>
}

/// Calls each function of a path, a descriptor or a stream that the library leaves to libc. Libc
/// acts rightly on the placeholder or stream of a host's file. libc_exports.txt calls these
/// functions safe; the test io.exports finds functions that no test calls.
namespace farcall::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

class safe_calls : public hidden_files_job {};

INSTANTIATE_TEST_SUITE_P(over, safe_calls, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(safe_calls, fail_as_for_local_files) {
  write_file(at_host("a"), "abc");
  const auto use = +[](const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR);
    std::array<char, 256> name{};
    std::array<epoll_event, 1> events{};
    termios t{};
    itimerspec timer{};
    int number = 0;
    const auto enoent = [](int result) { return result < 0 && errno == ENOTTY ? 0 : 1; };
    std::vector<int> seen{
        enoent(::isatty(fd) == 1 ? 0 : -1),
        enoent(::tcdrain(fd)),
        enoent(::tcflow(fd, TCOON)),
        enoent(::tcflush(fd, TCIFLUSH)),
        enoent(::tcgetattr(fd, &t)),
        enoent(::tcsetattr(fd, TCSANOW, &t)),
        enoent(::tcsendbreak(fd, 0)),
        enoent(::tcgetpgrp(fd)),
        enoent(::tcsetpgrp(fd, 1)),
        enoent(::tcgetsid(fd)),
        enoent(::ttyname(fd) == nullptr ? -1 : 0),
        ::ttyname_r(fd, name.data(), name.size()) == ENOTTY ? 0 : 1,
        enoent(::ptsname(fd) == nullptr ? -1 : 0),
        ::ptsname_r(fd, name.data(), name.size()) == ENOTTY ? 0 : 1,
        ::unlockpt(fd) != 0 ? 0 : 1,
        ::grantpt(fd) != 0 ? 0 : 1,
        error_of(::epoll_wait(fd, events.data(), 1, 0)) == EINVAL ? 0 : 1,
        error_of(::epoll_pwait(fd, events.data(), 1, 0, nullptr)) == EINVAL ? 0 : 1,
        error_of(::epoll_pwait2(fd, events.data(), 1, nullptr, nullptr)) != 0 ? 0 : 1,
        error_of(::inotify_rm_watch(fd, 0)) == EINVAL ? 0 : 1,
        error_of(::timerfd_gettime(fd, &timer)) == EINVAL ? 0 : 1,
        error_of(::timerfd_settime(fd, 0, &timer, nullptr)) == EINVAL ? 0 : 1,
        error_of(::setns(fd, 0)) != 0 ? 0 : 1,
        error_of(::pidfd_getfd(fd, 0, 0)) != 0 ? 0 : 1,
        error_of(::pidfd_send_signal(fd, 0, nullptr, 0)) != 0 ? 0 : 1,
        error_of(static_cast<int>(::process_madvise(fd, nullptr, 0, 0, 0))) != 0 ? 0 : 1,
        error_of(::process_mrelease(fd, 0)) != 0 ? 0 : 1,
        error_of(::fsconfig(fd, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0)) != 0 ? 0 : 1,
        error_of(::fsmount(fd, 0, 0)) != 0 ? 0 : 1,
        ::aio_cancel(fd, nullptr) == AIO_ALLDONE ? 0 : 1,
        ::revoke(path.c_str()) != 0 ? 0 : 1,
    };
    seen.push_back(::read(fd, &number, 3) == 3 ? 0 : 1);
    ::close(fd);
    return seen;
  };
  EXPECT_THAT(sync(target_, use, in_ + "/a"), Each(0));
}

TEST_P(safe_calls, find_programs_and_libraries_on_the_target) {
  write_file(at_host("program"), "#!/bin/sh\n");
  const auto use = +[](const std::string& path) {
    std::string word = "x";
    std::array<char*, 2> words{word.data(), nullptr};
    const char* const p = path.c_str();
    std::vector<int> seen{
        error_of(::execl(p, "x", nullptr)),
        error_of(::execle(p, "x", nullptr, environ)),
        error_of(::execlp(p, "x", nullptr)),
        error_of(::execv(p, words.data())),
        error_of(::execve(p, words.data(), environ)),
        error_of(::execvp(p, words.data())),
        error_of(::execvpe(p, words.data(), environ)),
    };
    if (::dlopen(p, RTLD_NOW) != nullptr || ::dlmopen(LM_ID_BASE, p, RTLD_NOW) != nullptr)
      seen.push_back(1);
    return seen;
  };
  EXPECT_THAT(sync(target_, use, in_ + "/program"), Each(ENOENT));
}

TEST_P(safe_calls, use_streams) {
  const auto use = +[](const std::string& in) -> std::string {
    const std::string path = in + "/users";
    std::FILE* const out = std::fopen(path.c_str(), "w+");
    std::string word = "u";
    passwd user{word.data(), word.data(), 5, 6, word.data(), word.data(), word.data()};
    if (::putpwent(&user, out) != 0) return "putpwent";
    std::rewind(out);
    if (const passwd* const found = ::fgetpwent(out); found == nullptr || found->pw_uid != 5)
      return "fgetpwent";
    std::rewind(out);
    std::array<char, 1000> space{};
    passwd* found_user = nullptr;
    if (::fgetpwent_r(out, &user, space.data(), space.size(), &found_user) != 0)
      return "fgetpwent_r";
    std::fclose(out);

    const auto anew = [&] { return std::fopen(path.c_str(), "w+"); };
    std::FILE* file = anew();
    std::array<char*, 1> members{nullptr};
    group g{word.data(), word.data(), 7, members.data()};
    group* found_group = nullptr;
    if (::putgrent(&g, file) != 0) return "putgrent";
    std::rewind(file);
    if (const group* const found = ::fgetgrent(file); found == nullptr || found->gr_gid != 7)
      return "fgetgrent";
    std::rewind(file);
    if (::fgetgrent_r(file, &g, space.data(), space.size(), &found_group) != 0)
      return "fgetgrent_r";
    std::fclose(file);

    file = anew();
    spwd shadow{word.data(), word.data(), 1, 2, 3, 4, 5, 6, 0};
    spwd* found_shadow = nullptr;
    if (::putspent(&shadow, file) != 0) return "putspent";
    std::rewind(file);
    if (::fgetspent(file) == nullptr) return "fgetspent";
    std::rewind(file);
    if (::fgetspent_r(file, &shadow, space.data(), space.size(), &found_shadow) != 0)
      return "fgetspent_r";
    std::fclose(file);

    file = anew();
    sgrp sg{word.data(), word.data(), members.data(), members.data()};
    sgrp* found_sg = nullptr;
    if (::putsgent(&sg, file) != 0) return "putsgent";
    std::rewind(file);
    if (::fgetsgent(file) == nullptr) return "fgetsgent";
    std::rewind(file);
    if (::fgetsgent_r(file, &sg, space.data(), space.size(), &found_sg) != 0) return "fgetsgent_r";
    std::fclose(file);

    file = ::setmntent(path.c_str(), "w+");
    mntent m{word.data(), word.data(), word.data(), word.data(), 0, 0};
    if (file == nullptr || ::addmntent(file, &m) != 0) return "addmntent";
    std::rewind(file);
    if (::getmntent(file) == nullptr) return "getmntent";
    std::rewind(file);
    if (::getmntent_r(file, &m, space.data(), static_cast<int>(space.size())) == nullptr)
      return "getmntent_r";
    ::endmntent(file);

    file = anew();
    ::malloc_info(0, file);
    const double size = 2048;
    const void* const argument = &size;
    printf_info info{};
    info.spec = 'f';
    if (::printf_size(file, &info, &argument) <= 0) return "printf_size";
    const argp parser{nullptr, nullptr, "WORDS", "text", nullptr, nullptr, nullptr};
    ::argp_help(&parser, file, ARGP_HELP_LONG, word.data());
    const bool is_filled = std::ftell(file) > 100;
    std::fclose(file);
    if (!is_filled) return "help";

    // The shell of popen() writes to a file of the host.
    file = ::popen(("echo abc > " + path).c_str(), "r");
    if (file == nullptr || ::pclose(file) != 0) return "pclose";
    file = std::fopen(path.c_str(), "r");
    const std::string text(space.data(), std::fread(space.data(), 1, space.size(), file));
    std::fclose(file);
    return text == "abc\n" ? "" : "popen";
  };
  EXPECT_EQ(sync(target_, use, in_), "");
}

TEST_P(safe_calls, walk_through_local_trees) {
  const auto use = +[] {
    std::string root = "/proc/self/task";
    std::array<char*, 2> roots{root.data(), nullptr};
    FTS* const walk = ::fts_open(roots.data(), FTS_PHYSICAL | FTS_NOCHDIR, nullptr);
    FTSENT* const first = ::fts_read(walk);
    const bool has_children = ::fts_children(walk, 0) != nullptr;
    const int set = ::fts_set(walk, first, FTS_SKIP);
    return std::vector<int>{has_children ? 0 : 1, set, ::fts_close(walk)};
  };
  EXPECT_THAT(sync(target_, use), ElementsAre(0, 0, 0));
}

} // namespace
} // namespace farcall::test
