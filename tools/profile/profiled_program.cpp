// SPDX-License-Identifier: Apache-2.0
#include <farcall/farcall.hpp>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>
#include <string_view>
#include <thread>

#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/// Program that the profiler's tests sample. Its first argument selects the work.
namespace {

using number = unsigned long;

/// Multiplies `turns` times. Each multiplication needs the result of the previous one, so that a
/// turn takes equal time in all functions. Hence a function's share of the time is its share of the
/// turns.
[[gnu::always_inline]] inline number turn(number turns) {
  number value = turns;
  for (number i = 0; i < turns; ++i) {
    value = value * 6364136223846793005U + 1;
    asm volatile("" : "+r"(value));
  }
  return value;
}

/// Number of turns in a unit of work, which takes some ten microseconds. The unit is so long that a
/// round of shares() takes much longer than loading and closing the library, even on a busy
/// machine.
constexpr number unit = 12'000;
volatile number result;

[[gnu::noinline]] void forty() { result = turn(40 * unit); }
[[gnu::noinline]] static void twenty() { result = turn(20 * unit); }
inline __attribute__((always_inline)) void twelve_inlined() { result = turn(12 * unit); }
[[gnu::noinline]] void around_twelve() {
  twelve_inlined();
  asm volatile("");
}
[[gnu::noinline]] void ten_recursive(int depth) {
  result = turn(unit);
  if (depth > 1) ten_recursive(depth - 1);
  asm volatile("");
}
[[gnu::noinline]] void five() { result = turn(5 * unit); }
[[gnu::noinline]] void four() { result = turn(4 * unit); }
[[gnu::noinline]] void two() { result = turn(2 * unit); }
[[gnu::noinline]] void one() { result = turn(unit); }
[[gnu::noinline]] void in_thread() { result = turn(unit); }
[[gnu::noinline]] void child_work() { result = turn(unit); }
[[gnu::noinline]] void executed_work() { result = turn(unit); }

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

template <class Work>
void work_for(double seconds, clockid_t clock, Work work) {
  while (seconds_of(clock) < seconds)
    work();
}

/// Works in rounds of 100 units, six of which are done by a library that is loaded in each round
/// and closed again. Also works in a second thread, for a tenth of the time.
int shares(double seconds, const char* library) {
  std::thread other([&] { work_for(seconds / 10, CLOCK_THREAD_CPUTIME_ID, in_thread); });
  work_for(seconds, CLOCK_THREAD_CPUTIME_ID, [&] {
    forty();
    twenty();
    around_twelve();
    ten_recursive(10);
    five();
    four();
    two();
    one();
    void* const loaded = dlopen(library, RTLD_NOW);
    if (loaded == nullptr) std::exit(3);
    auto* const work = reinterpret_cast<number (*)(number)>(dlsym(loaded, "library_work"));
    result = work(6 * unit);
    dlclose(loaded);
  });
  other.join();
  return 0;
}

[[gnu::noinline]] int compare(const void* left, const void* right) {
  result = turn(unit);
  return *static_cast<const int*>(left) - *static_cast<const int*>(right);
}

/// Sorts with the C library's qsort(), which calls compare() of this program, and which has no
/// frame pointers.
[[gnu::noinline]] int sorts() {
  work_for(0.2, CLOCK_PROCESS_CPUTIME_ID, [] {
    int values[] = {5, 2, 8, 1, 9, 3, 7, 4, 6};
    std::qsort(values, std::size(values), sizeof values[0], compare);
  });
  return 0;
}

int forks(char** arguments) {
  const pid_t child = fork();
  if (child == 0) {
    work_for(0.15, CLOCK_PROCESS_CPUTIME_ID, child_work);
    _exit(0);
  }
  const pid_t executed = fork();
  if (executed == 0) {
    execl(arguments[0], arguments[0], "executed", nullptr);
    _exit(1);
  }
  int status = 0;
  waitpid(child, nullptr, 0);
  waitpid(executed, &status, 0);
  return WEXITSTATUS(status);
}

/// Forbids perf_event_open, and also ptrace unless `what` is "perf", for this process. Then
/// executes a program, to which the prohibition also applies.
int without(const char* what, char** command) {
  sock_filter program[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 2, 0),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                    std::string_view(what) == "perf" ? ~0U : unsigned{SYS_ptrace},
                                    1, 0),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)};
  const sock_fprog filter{sizeof program / sizeof program[0], program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 77;
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) != 0) return 77;
  execv(command[0], command);
  return 1;
}

/// Function that is offloaded. It runs for a longer time than waiting threads spin before they
/// yield their processors.
int twice(int value) {
  result = turn(100 * unit);
  return 2 * value;
}

/// Makes offloads until standard input is closed. Fails if a result is wrong.
int job(int argc, char** argv) {
  farcall::job job{argc, argv, farcall::job_options{.targets = "shm:2"}};
  bool is_open = true;
  std::thread watch([&] {
    char c = 0;
    (void)!read(STDIN_FILENO, &c, 1);
    std::atomic_ref(is_open).store(false);
  });
  int calls = 0;
  for (; std::atomic_ref(is_open).load(); ++calls) {
    for (const farcall::node& target : job.targets()) {
      if (farcall::sync(target, twice, calls) != 2 * calls) return 1;
    }
  }
  watch.join();
  return calls > 0 ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
  farcall::serve_if_target();
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "shares" && argc > 3) return shares(std::atof(argv[2]), argv[3]);
  if (what == "sorts") return sorts();
  if (what == "forks") return forks(argv);
  if (what == "executed") {
    work_for(0.15, CLOCK_PROCESS_CPUTIME_ID, executed_work);
    return 5;
  }
  if (what == "killed") {
    work_for(0.1, CLOCK_PROCESS_CPUTIME_ID, one);
    std::raise(SIGKILL);
  }
  if (what == "works") work_for(0.3, CLOCK_PROCESS_CPUTIME_ID, forty);
  if (what == "without" && argc > 3) return without(argv[2], argv + 3);
  if (what == "job") return job(argc, argv);
  return 0;
}
