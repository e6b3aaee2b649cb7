// SPDX-License-Identifier: Apache-2.0
#include "io_test_support.hpp"

#include <tests/sanitizer.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csetjmp>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

/// Tests of calls in signal handlers, of handlers and cancellation that end calls, and of calls on
/// small stacks.
namespace farcall::test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Le;

class handlers : public hidden_files_job {};

INSTANTIATE_TEST_SUITE_P(over, handlers, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

constexpr int signals_sent = 200;

/// State that the handlers share with the program that they interrupt.
std::atomic<int> handled{0};
std::atomic<int> failed{0};
int log_file = -1;
std::array<char, 4096> opened_by_handler{};
sigjmp_buf back;

void use_files(int /*signal*/) {
  const int before = errno;
  struct stat s{};
  if (::write(log_file, "line\n", 5) != 5) ++failed;
  const int fd = ::open(opened_by_handler.data(), O_RDONLY);
  if (fd < 0 || ::fstat(fd, &s) != 0 || ::close(fd) != 0) ++failed;
  if (::stat("relative", &s) != 0) ++failed;
  ++handled;
  errno = before;
}

void leave(int /*signal*/) {
  ++handled;
  ::siglongjmp(back, 1);
}

/// Sends signals to the calling thread, each when the one before it was handled, while it calls
/// `use`. A handler may jump to `back`.
template <class Use>
void interrupt(void (*handler)(int), const Use& use) {
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = handler;
  ::sigaction(SIGUSR1, &action, &before);
  handled = 0;
  failed = 0;
  std::atomic<bool> is_ready{false};
  const pthread_t self = ::pthread_self();
  std::thread sender([self, &is_ready] {
    while (!is_ready.load())
      std::this_thread::yield();
    for (int i = 0; i < signals_sent; ++i) {
      ::pthread_kill(self, SIGUSR1);
      while (handled.load() <= i)
        std::this_thread::yield();
    }
  });
  (void)::sigsetjmp(back, 1);
  is_ready = true;
  while (handled.load() < signals_sent)
    use();
  sender.join();
  ::sigaction(SIGUSR1, &before, nullptr);
}

std::vector<std::int64_t> use_files_in_handlers(const std::string& in) {
  log_file = ::open((in + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  (in + "/a").copy(opened_by_handler.data(), opened_by_handler.size() - 1);
  const int fd = ::open((in + "/a").c_str(), O_RDWR);
  const int folder = ::open("/", O_RDONLY | O_DIRECTORY);
  (void)::chdir(in.c_str());
  int wrong = 0;
  interrupt(use_files, [&] {
    std::array<char, 3> bytes{};
    struct stat s{};
    if (::pread(fd, bytes.data(), 3, 0) != 3 || ::pwrite(fd, "abc", 3, 0) != 3) ++wrong;
    if (::stat("relative", &s) != 0 || ::access("none", F_OK) == 0) ++wrong;
  });
  (void)::fchdir(folder);
  for (const int each : {fd, folder, log_file})
    ::close(each);
  return {wrong, failed.load()};
}

TEST_P(handlers, may_use_files) {
  write_file(at_host("a"), "abc");
  write_file(at_host("relative"), "");
  EXPECT_THAT(sync(target_, &use_files_in_handlers, in_), ElementsAre(0, 0));
  EXPECT_EQ(content_of_file(at_host("log")).size(), 5U * signals_sent);
  const auto as_client = +[](const std::string& in) { return in_child(use_files_in_handlers, in); };
  EXPECT_THAT(sync(target_, as_client, in_), ElementsAre(0, 0));
  EXPECT_EQ(content_of_file(at_host("log")).size(), 10U * signals_sent);
}

std::string folder_of_handler; // NOLINT(cert-err58-cpp)

void use_folders(int /*signal*/) {
  const int before = errno;
  std::array<char, 2> bytes{};
  const std::array<iovec, 2> parts{iovec{bytes.data(), 1}, iovec{bytes.data() + 1, 1}};
  const int folder = ::open(folder_of_handler.c_str(), O_RDONLY | O_DIRECTORY);
  if (::fchdir(folder) != 0 || ::close(folder) != 0) ++failed;
  const int fd = ::open("a", O_RDONLY);
  if (::readv(fd, parts.data(), 2) != 2 || bytes[1] != 'b' || ::close(fd) != 0) ++failed;
  ++handled;
  errno = before;
}

std::vector<std::int64_t> interrupt_malloc(const std::string& in) {
  folder_of_handler = in;
  const int before = ::open("/", O_RDONLY | O_DIRECTORY);
  std::array<void*, 64> kept{};
  std::size_t next = 0;
  interrupt(use_folders, [&] {
    for (std::size_t i = 0; i < 200; ++i) {
      void*& place = kept[next++ % kept.size()];
      std::free(place);
      place = std::malloc(i * 17 % 200);
    }
  });
  for (void* const each : kept)
    std::free(each);
  (void)::fchdir(before);
  return {failed.load(), ::close(before)};
}

TEST_P(handlers, may_interrupt_malloc_in_programs) {
  write_file(at_host("a"), "abc");
  const auto as_client = +[](const std::string& in) { return in_child(interrupt_malloc, in); };
  EXPECT_THAT(sync(target_, as_client, in_), ElementsAre(0, 0));
}

std::vector<std::int64_t> leave_by_handlers(const std::string& in) {
  const int fd = ::open((in + "/a").c_str(), O_RDWR);
  std::atomic<int> wrong{0};
  interrupt(leave, [&] {
    char byte = 0;
    if (::pread(fd, &byte, 1, 0) != 1) ++wrong;
  });
  char byte = 0;
  const bool is_usable = ::pread(fd, &byte, 1, 1) == 1 && byte == 'b';
  return {wrong.load(), is_usable ? 0 : errno, ::close(fd)};
}

TEST_P(handlers, may_leave_calls) {
  write_file(at_host("a"), "abc");
  EXPECT_THAT(sync(target_, &leave_by_handlers, in_), ElementsAre(0, 0, 0));
  const auto as_client = +[](const std::string& in) { return in_child(leave_by_handlers, in); };
  EXPECT_THAT(sync(target_, as_client, in_), ElementsAre(0, 0, 0));
}

std::vector<std::int64_t> cancel_calls(const std::string& in) {
  const std::string path = in + "/a";
  const int fd = ::open(path.c_str(), O_RDWR);
  struct shared {
    int fd;
    std::atomic<int> begun;
  } s{fd, 0};
  const auto use = +[](void* given) -> void* {
    auto* const of = static_cast<shared*>(given);
    for (char byte = 0;;) {
      if (::pread(of->fd, &byte, 1, 0) == 1) ++of->begun;
      ::pthread_testcancel();
    }
  };
  for (int i = 0; i < 20; ++i) {
    s.begun = 0;
    pthread_t thread{};
    ::pthread_create(&thread, nullptr, use, &s);
    while (s.begun.load() < i)
      std::this_thread::yield();
    ::pthread_cancel(thread);
    ::pthread_join(thread, nullptr);
  }
  char byte = 0;
  return {::pread(fd, &byte, 1, 0), ::close(fd)};
}

TEST_P(handlers, may_cancel_threads) {
  write_file(at_host("a"), "abc");
  EXPECT_THAT(sync(target_, &cancel_calls, in_), ElementsAre(1, 0));
  const auto as_client = +[](const std::string& in) { return in_child(cancel_calls, in); };
  EXPECT_THAT(sync(target_, as_client, in_), ElementsAre(1, 0));
}

// ---- small stacks ----

/// Number of a call, and the folder that it uses, for call_one().
int which_call = 0;
std::string call_folder;

void call_one() {
  const std::string& in = call_folder;
  struct stat s{};
  std::array<iovec, 2> parts{};
  switch (which_call) {
  case 0:
    ::close(::open((in + "/a").c_str(), O_RDONLY));
    break;
  case 1:
    (void)::stat((in + "/a").c_str(), &s);
    break;
  case 2:
    (void)::rename((in + "/b").c_str(), (in + "/c").c_str());
    break;
  case 3:
    std::free(::realpath((in + "/a").c_str(), nullptr));
    break;
  case 4:
    (void)!::readv(STDIN_FILENO, parts.data(), 2);
    break;
  case 5:
    (void)::link((in + "/none").c_str(), (in + "/d").c_str());
    break;
  case 6:
    (void)::chdir(in.c_str());
    break;
  default:
    (void)::stat("relative", &s);
    break;
  }
}

/// Returns the number of bytes of stack that call_one() uses.
std::int64_t stack_of_call() {
  static std::array<unsigned char, 65536> stack;
  static ucontext_t here;
  static ucontext_t there;
  stack.fill(0xa5);
  ::getcontext(&there);
  there.uc_stack.ss_sp = stack.data();
  there.uc_stack.ss_size = stack.size();
  there.uc_link = &here;
  ::makecontext(&there, call_one, 0);
  ::swapcontext(&here, &there);
  std::size_t untouched = 0;
  while (untouched < stack.size() && stack[untouched] == 0xa5)
    ++untouched;
  return static_cast<std::int64_t>(stack.size() - untouched);
}

std::vector<std::int64_t> measure_stacks(const std::string& in) {
  std::vector<std::int64_t> used;
  for (const std::string& folder : {in, std::string("/tmp")}) {
    call_folder = folder;
    for (which_call = 0; which_call < 8; ++which_call) {
      // Libc's own realpath() needs more.
      if (which_call == 3 && folder != in) continue;
      // The loader finds functions in the first call.
      (void)stack_of_call();
      used.push_back(stack_of_call());
    }
  }
  return used;
}

TEST_P(handlers, may_have_small_stacks) {
  if constexpr (under_sanitizer) GTEST_SKIP() << "sanitizers enlarge the frames of the test itself";
  write_file(at_host("a"), "abc");
  const auto as_client = +[](const std::string& in) { return in_child(measure_stacks, in); };
  EXPECT_THAT(sync(target_, as_client, in_), Each(Le(4096)));
}

} // namespace
} // namespace farcall::test
