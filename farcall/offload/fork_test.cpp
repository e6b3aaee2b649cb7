// SPDX-License-Identifier: Apache-2.0

// Processes that fork while they have a job: the child may only destroy the objects that it has
// inherited, and the parent is not disturbed.

#include <farcall/async/call.hpp>
#include <farcall/async/coroutine.hpp>
#include <farcall/base/error.hpp>
#include <farcall/copy/buffer.hpp>
#include <farcall/copy/in_order.hpp>
#include <farcall/copy/transfer.hpp>
#include <farcall/offload/job.hpp>
#include <tests/child.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::test::fork_test {
namespace {

int negated(int v) { return -v; }

/// Status of a child that found no fault; other statuses are numbers of faults.
constexpr int good = 0;

/// Status with which AddressSanitizer reports leaks: a child that exits leaks the objects on the
/// stacks of its parent's other threads.
constexpr int leaks = 1;

[[nodiscard]] int without_leaks(int status) {
  return under_sanitizer && status == leaks ? good : status;
}

constexpr const char* no_threads_in_children =
    "ThreadSanitizer lets no child of a process with threads have some";

template <class F>
bool throws_forked(F&& f) {
  try {
    std::forward<F>(f)();
  } catch (const forked&) {
    return true;
  }
  return false;
}

/// Runs `body` in a fork of this process. Returns its status, or -1 if it crashed or hung.
template <class F>
int in_child(F&& body) {
  return forked_child(std::forward<F>(body)).wait();
}

void end_by_signal() { std::raise(SIGKILL); }

class forks : public two_targets_test {
 protected:
  forks() {
    // AddressSanitizer does not keep its locks consistent over a fork: wait until the job's threads
    // are idle.
    if (under_sanitizer) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }

  /// Checks that the parent's calls get their own replies, on lanes that exist and on new ones.
  void expect_undisturbed() {
    for (int i = 1; i <= 50; ++i) {
      ASSERT_EQ(sync(target_.within(wait_limit), negated, i), -i);
      ASSERT_EQ(sync(other_.within(wait_limit), negated, i), -i);
    }
    std::thread([&] { EXPECT_EQ(sync(target_.within(wait_limit), negated, 1), -1); }).join();
    const lane own(target_);
    EXPECT_TRUE(async(own, negated, 2).wait_for(wait_limit));
    const auto memory = target_.allocate<int>(10);
    const int sent[] = {1, 2, 3};
    put_sync(std::span<const int>(sent), memory);
    EXPECT_EQ(sync(
                  target_.within(wait_limit), [](remote_span<const int> all) { return all[2]; },
                  memory.span()),
              3);
  }
  /// Checks that the parent's failure detector still watches.
  void expect_watched() {
    future<void> never = async(other_, end_by_signal);
    EXPECT_TRUE(never.wait_for(wait_limit));
    EXPECT_THROW(never.get(), node_failed);
  }
};

// ---- what a child may not do ------------------------------------------------------------------

TEST_F(forks, leave_the_parent_its_descriptor_of_completions) {
  const int fd = job_.wait_fd();
  EXPECT_EQ(in_child([&] {
              // The descriptor would be open for as long as the child lives.
              if (::fcntl(fd, F_GETFD) != -1) return 2;
              return throws_forked([&] { (void)job_.wait_fd(); }) ? good : 1;
            }),
            good);
  job_.progress();
  const future<int> f = async(target_, negated, 1);
  pollfd watched{fd, POLLIN, 0};
  EXPECT_EQ(::poll(&watched, 1, static_cast<int>(wait_limit / std::chrono::milliseconds(1))), 1);
  expect_undisturbed();
}

TEST_F(forks, leave_the_parent_its_replies_when_the_child_calls) {
  (void)sync(target_, negated, 1);
  EXPECT_EQ(
      in_child([&] { return throws_forked([&] { (void)sync(target_, negated, 7); }) ? good : 1; }),
      good);
  EXPECT_EQ(sync(target_.within(wait_limit), negated, 5), -5);
  expect_undisturbed();
}

TEST_F(forks, refuse_every_use_in_the_child) {
  const auto memory = target_.allocate<int>(10);
  const auto own_memory = job_.host().allocate<int>(10);
  const lane fresh(target_);
  const lane used(target_);
  (void)async(used, negated, 1).get();
  int here[10] = {};
  put_sync(std::span<const int>(here),
           memory); // finds the route, which the child then knows, too
  handshake gate(target_);
  const auto blocked = [](handshake::words w) { return handshake::wait(w.local(), 0, 1) ? 1 : 2; };
  future<int> pending = async(target_, blocked, gate.span());
  future<int> timed = async(target_.within(wait_limit), blocked, gate.span());
  future<int> chained =
      async(target_, blocked, gate.span()).then([](future<int> f) { return f.get(); });
  const auto uses = [&] {
    const std::vector<std::function<void()>> all{
        [&] { (void)sync(target_, negated, 1); },
        [&] { (void)async(target_, negated, 1); },
        [&] { post(other_, negated, 1); },
        [&] { (void)sync(target_, [](std::string s) { return s; }, std::string(1 << 20, 'x')); },
        [&] { (void)async(fresh, negated, 1); },
        [&] { (void)async(used, negated, 1); },
        [&] { post(used, [](int) {}, 1); },
        [&] { const lane another(target_); },
        [&] { (void)target_.allocate<int>(1); },
        [&] { (void)job_.host().allocate<int>(1); },
        [&] { (void)sync(job_.host(), negated, 1); },
        [&] { (void)pending.test(); },
        [&] { pending.wait(); },
        [&] { (void)pending.wait_for(std::chrono::milliseconds(1)); },
        [&] { (void)pending.get(); },
        [&] { (void)timed.get(); },
        [&] { (void)chained.get(); },
        [&] { (void)put(std::span<const int>(here), memory); },
        [&] { put_sync(std::span<const int>(here), memory); },
        [&] { get_sync(memory, std::span<int>(here)); },
        [&] { (void)put(std::span<const int>(here), in_order(memory)); },
        [&] { (void)copy(memory, own_memory); },
        [&] { (void)map(memory); },
        [&] { (void)target_.alive(); },
        [&] { (void)target_.name(); },
        [&] { (void)host(); },
        [&] { (void)this_node(); },
        [&] { (void)node_at(1); },
        [&] { (void)node_count(); },
        [&] { (void)job_.add("shm"); },
        [&] { job_.remove(other_); },
        [&] { (void)job_.restart(other_); },
    };
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!throws_forked(all[i])) return static_cast<int>(i) + 1;
    }
    return good;
  };
  EXPECT_EQ(in_child(uses), good) << "the place in the list, counted from 1";
  if (!under_thread_sanitizer) {
    EXPECT_EQ(in_child([&] {
                int status = 99;
                std::thread([&] { status = uses(); }).join();
                return status;
              }),
              good)
        << "on another thread of the child";
  }
  gate.set(0);
  EXPECT_EQ(pending.get(), 1);
  EXPECT_EQ(timed.get(), 1);
  EXPECT_EQ(chained.get(), 1);
  expect_undisturbed();
  expect_watched();
}

TEST_F(forks, say_what_to_do) {
  EXPECT_EQ(in_child([&] {
              try {
                (void)sync(target_, negated, 1);
              } catch (const forked& e) {
                const std::string_view text = e.what();
                return text.find("fork") != text.npos && text.find("own") != text.npos ? good : 2;
              }
              return 1;
            }),
            good);
}

// ---- what a child may do ------------------------------------------------------------------------

/// Objects of all kinds that a program has of a job.
struct belongings {
  explicit belongings(const std::string& targets)
      : whole(std::make_unique<job>(with_targets(targets))), first(whole->targets()[0]),
        gate(std::make_unique<handshake>(first)), memory(first.allocate<int>(10)),
        large(whole->host().allocate<std::byte>(std::size_t{80} << 20)), stream(lane(first)) {
    ready.push_back(async(first, [](std::string s) { return s; }, std::string(100, 'x')));
    ready.back().wait();
    const auto blocked = [](handshake::words w) { return handshake::wait(w.local(), 0, 1); };
    pending.push_back(async(first, blocked, gate->span()));
    pending.push_back(async(*stream, blocked, gate->span()));
    pending.push_back(
        async(first, blocked, gate->span()).then([](future<bool> f) { return f.get(); }));
    // Sent in another thread's lane.
    std::thread([&] { pending.push_back(async(first, blocked, gate->span())); }).join();
    std::memset(map(large).data(), 'l', large.size());
  }

  /// Destroys the objects in an order that differs for each of the numbers 0 to 7.
  void destroy(int order) {
    const auto drop = [&](int what) {
      switch (what) {
      case 0:
        pending.clear();
        return;
      case 1:
        memory = {}, large = {}, gate.reset();
        return;
      case 2:
        stream.reset();
        return;
      case 3:
        ready.clear();
        return;
      default:
        whole.reset();
      }
    };
    for (int i = 0; i < 5; ++i)
      drop((i * (order % 4 + 1) + order) % 5);
  }

  /// Checks in the parent that all objects still work.
  [[nodiscard]] int check() {
    for (const std::byte b : map(large)) {
      if (b != std::byte{'l'}) return 11;
    }
    if (sync(whole->host(), negated, 3) != -3) return 12;
    gate->set(0);
    if (sync(first.within(wait_limit), negated, 3) != -3) return 13;
    for (future<bool>& f : pending) {
      if (!f.wait_for(wait_limit)) return 14;
      if (!f.get()) return 15;
    }
    if (ready.front().get() != std::string(100, 'x')) return 16;
    if (async(*stream, negated, 4).get() != -4) return 17;
    future<void> never = async(first, end_by_signal);
    if (!never.wait_for(wait_limit)) return 18;
    return good;
  }

  std::unique_ptr<job> whole;
  node first;
  std::unique_ptr<handshake> gate;
  buffer<int> memory;
  buffer<std::byte> large; ///< large enough that its pages are freed
  std::optional<lane> stream;
  std::vector<future<bool>> pending;
  std::vector<future<std::string>> ready;
};

class forked_belongings : public ::testing::TestWithParam<int> {};

TEST_P(forked_belongings, are_destroyed_silently) {
  belongings all("shm");
  EXPECT_EQ(in_child([&] {
              all.destroy(GetParam());
              return good;
            }),
            good);
  EXPECT_EQ(all.check(), good);
}

INSTANTIATE_TEST_SUITE_P(orders, forked_belongings, ::testing::Range(0, 8));

/// Runs a process with static objects and a job, whose child ends by `end`.
int parent_of_a_child_that_ends(void (*end)()) {
  return in_child([&]() -> int {
    static belongings all("shm");
    static thread_local auto scratch = all.whole->host().allocate<int>(10);
    (void)scratch.size();
    const pid_t child = ::fork();
    if (child == 0) {
      end();
      ::_exit(99);
    }
    int status = 0;
    if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 31;
    if (without_leaks(WEXITSTATUS(status)) != good) return 32;
    return all.check();
  });
}

TEST(forked_child_of_a_host, may_exit) {
  EXPECT_EQ(parent_of_a_child_that_ends([] { std::exit(good); }), good);
}
TEST(forked_child_of_a_host, may_exit_from_a_thread) {
  if (under_thread_sanitizer) GTEST_SKIP() << no_threads_in_children;
  EXPECT_EQ(parent_of_a_child_that_ends([] { std::thread([] { std::exit(good); }).join(); }), good);
}
TEST(forked_child_of_a_host, may_exit_quickly) {
  EXPECT_EQ(parent_of_a_child_that_ends([] { std::quick_exit(good); }), good);
}
TEST(forked_child_of_a_host, may_end_at_once) {
  EXPECT_EQ(parent_of_a_child_that_ends([] { ::_exit(good); }), good);
}
TEST(forked_child_of_a_host, may_run_another_program) {
  EXPECT_EQ(parent_of_a_child_that_ends([] { ::execl("/bin/true", "true", nullptr); }), good);
}
TEST(forked_child_of_a_host, may_fork_again) {
  EXPECT_EQ(parent_of_a_child_that_ends([] {
              const pid_t grandchild = ::fork();
              if (grandchild == 0) std::exit(good);
              int status = 0;
              ::waitpid(grandchild, &status, 0);
              std::exit(WIFEXITED(status) ? without_leaks(WEXITSTATUS(status)) : 1);
            }),
            good);
}

TEST_F(forks, let_the_child_make_a_job_of_its_own) {
  if (under_thread_sanitizer) GTEST_SKIP() << no_threads_in_children;
  EXPECT_EQ(in_child([&] {
              job own(with_targets("shm"));
              if (host() != own.host()) return 2;
              const auto memory = own.targets()[0].allocate<int>(10);
              return sync(own.targets()[0], negated, 3) == -3 &&
                             throws_forked([&] { (void)sync(target_, negated, 3); })
                         ? good
                         : 1;
            }),
            good);
  expect_undisturbed();
}

TEST_F(forks, let_the_child_serve_another_job) {
  if (under_thread_sanitizer) GTEST_SKIP() << no_threads_in_children;
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  forked_child child([&] {
    ::close(ends[0]);
    serve_as_target(ends[1]);
    return good;
  });
  ::close(ends[1]);
  {
    job_options o;
    o.existing_targets = {ends[0]};
    const job second(o);
    EXPECT_EQ(sync(second.targets()[0], negated, 3), -3);
  }
  EXPECT_EQ(child.wait(), good);
  expect_undisturbed();
}

// ---- at any time --------------------------------------------------------------------------------

TEST_F(forks, work_while_other_threads_call) {
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 3; ++t) {
    callers.emplace_back([&] {
      const lane own(other_);
      for (int i = 0; !stop; ++i) {
        future<int> on_lane = async(own, negated, i);
        wrong += sync(target_, negated, i) != -i ? 1 : 0;
        const auto memory = target_.allocate<int>(100);
        wrong += on_lane.get() != -i ? 1 : 0;
      }
    });
  }
  for (int i = 0; i < 30; ++i) {
    future<int> held = async(target_, negated, i);
    EXPECT_EQ(in_child([&] {
                if (!throws_forked([&] { (void)sync(target_, negated, 7); })) return 1;
                const future<int> dropped = std::move(held);
                return good;
              }),
              good);
    EXPECT_EQ(held.get(), -i);
  }
  stop = true;
  for (std::thread& t : callers)
    t.join();
  EXPECT_EQ(wrong, 0);
  expect_watched();
}

TEST_F(forks, work_in_threads_without_lanes) {
  std::thread([&] {
    EXPECT_EQ(in_child([&] {
                return throws_forked([&] { (void)sync(target_, negated, 7); }) ? good : 1;
              }),
              good);
  }).join();
  expect_undisturbed();
}

// ---- in handlers --------------------------------------------------------------------------------

enum class end_of_child { at_once, exits, calls, makes_a_job, returns };

/// Forks in a handler. Returns the status of the child, which also reads the view that the handler
/// got.
int fork_here(end_of_child end, std::string_view given) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (given != "given") ::_exit(3);
    if (!throws_forked([] { (void)this_node(); })) ::_exit(4);
    if (end == end_of_child::exits) std::exit(good);
    if (end == end_of_child::calls) {
      ::_exit(throws_forked([] { (void)sync(farcall::node_at(0), negated, 1); }) ? good : 5);
    }
    if (end == end_of_child::makes_a_job) {
      bool works = false;
      {
        const job own(with_targets("shm"));
        works = sync(own.targets()[0], negated, 3) == -3;
      }
      ::_exit(works ? good : 6);
    }
    if (end == end_of_child::returns) return 77;
    ::_exit(good);
  }
  int status = 0;
  const auto ended = [&] { return ::waitpid(child, &status, WNOHANG) == child; };
  if (!eventually(ended)) {
    ::kill(child, SIGKILL);
    return 98;
  }
  return WIFEXITED(status) ? without_leaks(WEXITSTATUS(status)) : 97;
}

std::vector<end_of_child> ends_of_children() {
  std::vector<end_of_child> all{end_of_child::at_once, end_of_child::exits, end_of_child::calls,
                                end_of_child::returns};
  // Left out for ThreadSanitizer: a job has threads.
  if (!under_thread_sanitizer) all.push_back(end_of_child::makes_a_job);
  return all;
}

class forks_in_handlers : public forks, public ::testing::WithParamInterface<end_of_child> {};

TEST_P(forks_in_handlers, in_a_target) {
  future<int> before = async(target_, negated, 1);
  EXPECT_EQ(sync(target_.within(wait_limit), fork_here, GetParam(), std::string("given")), good);
  EXPECT_EQ(before.get(), -1);
  expect_undisturbed();
}

TEST_P(forks_in_handlers, in_a_target_that_waits_in_another) {
  if (under_thread_sanitizer && GetParam() == end_of_child::returns) {
    GTEST_SKIP() << "it forgets in the child what orders the stacks of a thread";
  }
  EXPECT_EQ(sync(
                target_.within(wait_limit),
                [](end_of_child end) {
                  // The host calls back while this waits.
                  return sync(
                      farcall::node_at(0),
                      [](end_of_child e) {
                        return sync(farcall::node_at(1), fork_here, e, std::string("given"));
                      },
                      end);
                },
                GetParam()),
            good);
  expect_undisturbed();
}

TEST_P(forks_in_handlers, in_a_host_that_waits) {
  const pid_t parent = ::getpid();
  try {
    const int status = sync(
        target_.within(wait_limit),
        [](end_of_child end) {
          return sync(farcall::node_at(0), fork_here, end, std::string("given"));
        },
        GetParam());
    ASSERT_EQ(::getpid(), parent) << "the child's wait ended as the parent's does";
    EXPECT_EQ(status, good);
  } catch (const forked&) {
    // A child that returns from its handler continues in the wait of its parent.
    ::_exit(::getpid() == parent ? 1 : good);
  }
  expect_undisturbed();
}

TEST_P(forks_in_handlers, in_a_host_that_does_not_wait) {
  handshake done(target_);
  post(
      target_,
      [](end_of_child end, handshake::words w) {
        const int status = sync(farcall::node_at(0), fork_here, end, std::string("given"));
        handshake::set(w.local(), 0, static_cast<std::uint32_t>(status) + 1);
      },
      GetParam(), done.span());
  ASSERT_TRUE(done.wait(0));
  EXPECT_EQ(done.get(0), good + 1U);
  expect_undisturbed();
}

INSTANTIATE_TEST_SUITE_P(ends, forks_in_handlers, ::testing::ValuesIn(ends_of_children()));

// ---- what a child holds -------------------------------------------------------------------------

/// Counts the descriptors of this process whose end other processes could notice. Allocates no
/// memory: in a child, a thread of the parent may have the lock of a sanitizer's allocator.
unsigned noticed_descriptors() {
  unsigned found = 0;
  for (int fd = 0; fd < 4096; ++fd) {
    char link[32];
    char what[64];
    (void)std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t bytes = ::readlink(link, what, sizeof what);
    if (bytes < 0) continue;
    const std::string_view text(what, static_cast<std::size_t>(bytes));
    found += text.starts_with("socket:") || text == "anon_inode:[pidfd]" ||
             text == "anon_inode:[eventpoll]";
  }
  return found;
}

TEST(forked_child_of_a_host, holds_no_socket_of_it) {
  const unsigned before = noticed_descriptors();
  const job j(with_targets("shm:2"));
  ASSERT_GT(noticed_descriptors(), before);
  EXPECT_EQ(in_child([&] { return noticed_descriptors() <= before ? good : 1; }), good);
}

TEST(forked_child_of_a_host, keeps_descriptors_that_got_a_number_of_the_jobs) {
  std::vector<int> own;
  {
    const job j(with_targets("shm:2"));
  }
  for (int i = 0; i < 20; ++i)
    own.push_back(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  const job j(with_targets("shm"));
  EXPECT_EQ(in_child([&] {
              for (const int fd : own) {
                char byte = 'x';
                if (::read(fd, &byte, 1) != 1 || byte != 0) return 1;
              }
              return good;
            }),
            good);
  for (const int fd : own)
    ::close(fd);
}

TEST(forked_child_of_a_target, does_not_keep_the_target_alive_for_its_host) {
  // An existing target, whose end shows only at its socket.
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  forked_child target([&] {
    ::close(ends[0]);
    serve_as_target(ends[1]);
    return good;
  });
  ::close(ends[1]);
  job_options o;
  o.existing_targets = {ends[0]};
  const job j(o);
  const pid_t grandchild = sync(j.targets()[0], [] {
    const pid_t child = ::fork();
    if (child == 0) {
      ::sleep(static_cast<unsigned>(2 * wait_limit.count()));
      ::_exit(0);
    }
    return child;
  });
  target.kill();
  EXPECT_TRUE(eventually([&] { return !j.targets()[0].alive(); }));
  ::kill(grandchild, SIGKILL);
}

// ---- other ways to start a process --------------------------------------------------------------

TEST_F(forks, leave_system_and_posix_spawn_working) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(std::system("exit 0"), 0); // NOLINT(cert-env33-c): it is what is tested
    char name[] = "true";
    char* arguments[] = {name, nullptr};
    pid_t child = 0;
    ASSERT_EQ(::posix_spawn(&child, "/bin/true", nullptr, nullptr, arguments, environ), 0);
    int status = 1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(sync(target_, negated, i), -i);
  }
  expect_undisturbed();
  expect_watched();
}

TEST_F(forks, by_a_death_test_leave_the_job_alone) {
  EXPECT_EXIT(
      std::exit(throws_forked([&] { (void)sync(target_, negated, 1); }) ? good : 4),
      [](int status) { return WIFEXITED(status) && without_leaks(WEXITSTATUS(status)) == good; },
      "");
  EXPECT_DEATH(std::abort(), "");
  expect_undisturbed();
  expect_watched();
}

} // namespace
} // namespace farcall::test::fork_test
