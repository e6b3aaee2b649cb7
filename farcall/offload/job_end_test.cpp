// SPDX-License-Identifier: Apache-2.0

// Calls, copies and handlers that are under way when a job ends, and objects that outlive it.

#include <farcall/async/call.hpp>
#include <farcall/async/promise.hpp>
#include <farcall/call/reply.hpp>
#include <farcall/copy/buffer.hpp>
#include <farcall/copy/transfer.hpp>
#include <farcall/offload/job.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace farcall::test::job_end_test {
namespace {

using ::testing::HasSubstr;

constexpr int calls = 4;

int twice(int v) { return 2 * v; }

/// Takes some time and then appends a byte to the file, where it shows after the job.
void leave_mark(std::string_view file) {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const int fd = ::open(std::string(file).c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  [[maybe_unused]] const ssize_t written = ::write(fd, "x", 1);
  ::close(fd);
}

void expect_no_job(job& gone) {
  EXPECT_THROW(gone.progress(), error);
  EXPECT_THROW(gone.progress_in_place(), error);
  EXPECT_THROW(gone.notify(), error);
  EXPECT_THROW((void)gone.wait_fd(), error);
  EXPECT_THROW((void)gone.wait_until([] { return true; }), error);
  EXPECT_THROW((void)gone.live_targets(), error);
  EXPECT_THROW((void)gone.node_at(0), error);
  EXPECT_THROW((void)gone.add("shm"), error);
  EXPECT_THROW(gone.barrier(), error);
  EXPECT_THROW(gone.broadcast({}, 0), error);
  EXPECT_THROW(sync(gone.host(), [] {}), error);
  gone.close();
}

/// Futures outlive their job, whether the call has ended before or not. The counters of their lane
/// are a memory file, whose descriptor must be closed in the end.
TEST(ended_jobs, leave_nothing_once_their_futures_are_gone) {
  const auto outlive = [](bool waits) {
    future<int> held;
    const job j(with_targets("shm"));
    held = async(j.targets()[0], twice, 3);
    if (waits) held.wait();
    return held;
  };
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  // The next job frees the memory of the last one.
  const auto come_and_go = [&] {
    {
      const future<int> one = outlive(true);
    }
    {
      const future<int> other = outlive(false);
    }
    const job last(with_targets("shm"));
  };
  come_and_go();
  const auto before = descriptors();
  for (int i = 0; i < 4; ++i)
    come_and_go();
  EXPECT_EQ(descriptors(), before);
}

TEST(ended_jobs, throw_error_when_used) {
  job all(with_targets("shm"));
  job other = std::move(all);
  // NOLINTNEXTLINE(bugprone-use-after-move): this is what is tested.
  expect_no_job(all);
  other.close();
  expect_no_job(other);
  EXPECT_EQ(other.size(), 2U);
  EXPECT_EQ(other.rank(), host_id);
  EXPECT_THROW(other.remove(node()), error);
  EXPECT_THROW(other.restart(node()), error);
  try {
    other.progress();
  } catch (const error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("closed"));
  }
}

class job_ends_with : public ::testing::Test {
 protected:
  job_ends_with()
      : file_(std::filesystem::path(::testing::TempDir()) /
              ("farcall-job-end-test-" + std::to_string(::getpid()))) {
    std::filesystem::remove(file_);
  }
  ~job_ends_with() override { std::filesystem::remove(file_); }

  [[nodiscard]] std::uintmax_t marks() const {
    return std::filesystem::exists(file_) ? std::filesystem::file_size(file_) : 0;
  }

  std::filesystem::path file_;
};

TEST_F(job_ends_with, posts_of_what_follows_large_copies) {
  const std::vector<std::uint64_t> values(std::size_t{1} << 20);
  std::optional<buffer<std::uint64_t>> memory; // as long as it is copied to
  {
    job j(with_targets("shm"));
    const node target = j.targets()[0];
    memory = target.allocate<std::uint64_t>(values.size());
    for (int i = 0; i < calls; ++i) {
      static_cast<void>(put(values, *memory).then([&, target](future<void> done) {
        done.get();
        post(target, leave_mark, file_.string());
      }));
    }
  }
  EXPECT_EQ(marks(), calls);
}

TEST_F(job_ends_with, large_copies_that_outlast_it) {
  const std::vector<std::uint64_t> values(std::size_t{1} << 23);
  constexpr int copies = 30;
  std::atomic<int> followed{0};
  std::optional<buffer<std::uint64_t>> memory;
  {
    job_options o = with_targets("shm");
    o.stop_timeout = std::chrono::milliseconds(1);
    const job j(o);
    const node target = j.targets()[0];
    memory = target.allocate<std::uint64_t>(values.size());
    for (int i = 0; i < copies; ++i) {
      static_cast<void>(put(values, *memory).then([&](future<void>) { ++followed; }));
    }
  }
  EXPECT_TRUE(eventually([&] { return followed == copies; }));
}

TEST_F(job_ends_with, posts_to_every_worker_which_run_all) {
  {
    job j(with_targets("shm?workers=2"));
    const node target = j.targets()[0];
    (void)sync(target, fn<&twice>, 1); // this thread's lane is with the first worker
    std::thread([&] {
      for (int i = 0; i < calls; ++i)
        post(target, fn<&leave_mark>, file_.string());
    }).join();
  }
  EXPECT_EQ(marks(), calls);
}

TEST_F(job_ends_with, posts_to_a_lane_which_run_all) {
  {
    job j(with_targets("shm"));
    const lane own(j.targets()[0]);
    for (int i = 0; i < calls; ++i)
      post(own, fn<&leave_mark>, file_.string());
  }
  EXPECT_EQ(marks(), calls);
}

TEST_F(job_ends_with, posts_to_a_closed_lane_which_run_all) {
  for (int i = 0; i < calls; ++i) {
    job j(with_targets("shm"));
    const lane own(j.targets()[0]);
    post(own, fn<&leave_mark>, file_.string());
  }
  EXPECT_EQ(marks(), calls);
}

/// A call of a handler of the host to a target that has ended.
bool says_that_it_has_failed(node target) {
  try {
    (void)sync(target, fn<&twice>, 1);
  } catch (const node_failed&) {
    return true;
  }
  return false;
}

/// Waits until the other target has ended with the job, and then for a handler of the host that
/// calls it.
void wait_for_a_call_to(node other, int pid, std::string_view file) {
  if (!eventually([pid] { return ::kill(pid, 0) != 0; })) return;
  if (sync(host(), fn<&says_that_it_has_failed>, other)) leave_mark(file);
}

TEST_F(job_ends_with, handlers_that_wait_for_a_target_that_has_ended) {
  {
    job_options o = with_targets("shm:2");
    o.stop_timeout = wait_limit;
    job j(o);
    const node first = j.targets()[0];
    post(j.targets()[1], fn<&wait_for_a_call_to>, first, sync(first, ::getpid), file_.string());
  }
  EXPECT_EQ(marks(), 1U);
}

/// Handlers of the host that return when the test allows it. They outlive their job.
std::atomic<int> kept{0};
std::atomic<bool> may_end{false};

void be_kept() {
  ++kept;
  (void)eventually([] { return may_end.load(); });
  --kept;
}

class job_ends_before : public ::testing::Test {
 protected:
  job_ends_before() : job_(short_stop()), target_(job_->targets()[0]) { may_end = false; }
  ~job_ends_before() override {
    may_end = true;
    EXPECT_TRUE(eventually([] { return kept == 0; }));
  }

  static job_options short_stop() {
    job_options o = with_targets("shm");
    o.stop_timeout = std::chrono::milliseconds(100);
    return o;
  }

  void expect_an_end() {
    ::testing::internal::CaptureStderr();
    EXPECT_TRUE(ends([this] { job_.reset(); }, [] { may_end = true; }));
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("stop_timeout"));
  }

  std::optional<job> job_;
  node target_;
};

TEST_F(job_ends_before, handlers_of_the_host_that_do_not_return) {
  post(target_, [] { post(host(), fn<&be_kept>); });
  ASSERT_TRUE(eventually([] { return kept == 1; }));
  expect_an_end();
  EXPECT_EQ(kept, 1);
}

TEST_F(job_ends_before, handlers_of_a_lane_that_do_not_return) {
  post(target_, [] {
    const lane own(host());
    post(own, fn<&be_kept>);
  });
  ASSERT_TRUE(eventually([] { return kept == 1; }));
  expect_an_end();
  EXPECT_EQ(kept, 1);
}

TEST_F(job_ends_before, continuations_that_do_not_return) {
  // The failure of the node runs them on a thread of the library.
  const future<void> f =
      async(target_, [] { ::pause(); }).then([](const future<void>&) { be_kept(); });
  ::kill(sync(lane(target_), ::getpid), SIGKILL);
  ASSERT_TRUE(eventually([] { return kept == 1; }));
  expect_an_end();
  EXPECT_EQ(kept, 1);
}

/// The reply of a call that ends with the job.
std::optional<reply<void>> never_given;
void keep_reply(reply<void> r) { never_given.emplace(std::move(r)); }

TEST_F(job_ends_before, continuations_of_calls_that_end_with_it) {
  const future<void> f =
      async(job_->host(), keep_reply).then([](const future<void>&) { be_kept(); });
  expect_an_end();
  EXPECT_EQ(kept, 1);
  may_end = true;
  EXPECT_TRUE(eventually([] { return kept == 0; }));
  never_given.reset();
}

TEST_F(job_ends_before, returned_handlers_leave_no_thread) {
  post(target_, [] { post(host(), fn<&be_kept>); });
  ASSERT_TRUE(eventually([] { return kept == 1; }));
  may_end = true;
  ::testing::internal::CaptureStderr();
  job_.reset();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(kept, 0);
}

// ---- in programs that end -----------------------------------------------------------------------

[[noreturn]] void end_with_static_objects() {
  static job the_job(with_targets("shm"));
  static const auto memory = the_job.targets()[0].allocate<double>(10);
  (void)sync(the_job.targets()[0], fn<&twice>, 1);
  std::exit(0);
}

struct calls_at_its_end {
  ~calls_at_its_end() {
    if (sync(target, fn<&twice>, 4) != 8) ::_exit(1);
  }
  node target;
};

[[noreturn]] void end_with_thread_local_objects() {
  static std::optional<job> the_job;
  static thread_local calls_at_its_end first; // made before the thread has lanes, so destroyed
                                              // after them
  the_job.emplace(with_targets("shm"));
  first.target = the_job->targets()[0];
  (void)sync(first.target, fn<&twice>, 1);
  std::thread([] {
    static thread_local calls_at_its_end second;
    second.target = the_job->targets()[0];
    (void)sync(second.target, fn<&twice>, 1);
  }).join();
  std::exit(0);
}

struct calls_two_jobs_at_its_end {
  ~calls_two_jobs_at_its_end() {
    // More calls than a job has lanes.
    for (int i = 0; i < 500; ++i) {
      if (sync(first, fn<&twice>, i) != 2 * i || sync(second, fn<&twice>, i) != 2 * i) ::_exit(1);
    }
  }
  node first;
  node second;
};

[[noreturn]] void end_with_calls_to_two_jobs_in_turn() {
  static std::optional<job> one;
  static std::optional<job> two;
  static thread_local calls_two_jobs_at_its_end own; // made before the thread has lanes
  one.emplace(with_targets("shm"));
  two.emplace(with_targets("shm"));
  const auto use = [] {
    own.first = one->targets()[0];
    own.second = two->targets()[0];
    (void)sync(own.first, fn<&twice>, 1);
  };
  // One after the other: each thread gets the lanes of the one before.
  for (int i = 0; i < 3; ++i)
    std::thread(use).join();
  use();
  std::exit(0);
}

TEST(job_end, may_come_after_calls_by_a_threads_objects) {
  EXPECT_EXIT(end_with_calls_to_two_jobs_in_turn(), ::testing::ExitedWithCode(0), "");
}

TEST(job_end, may_come_before_or_after_static_objects_end) {
  EXPECT_EXIT(end_with_static_objects(), ::testing::ExitedWithCode(0), "");
}

TEST(job_end, may_come_after_a_threads_objects_end) {
  EXPECT_EXIT(end_with_thread_local_objects(), ::testing::ExitedWithCode(0), "");
}

[[noreturn]] void run_with_closed_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    ::close(fd);
  job j(with_targets("shm"));
  for (int i = 0; i < 100; ++i) {
    // Pretends to be the program's output.
    if (::write(STDOUT_FILENO, "text", 4) != 4) ::_exit(2);
    if (sync(j.targets()[0], fn<&twice>, i) != 2 * i) ::_exit(1);
  }
  ::_exit(0);
}

/// Tests a future that depends on a call and on a promise of the program, after the call's job has
/// ended.
template <class Use>
void expect_promise_to_end_it(const Use& use) {
  promise<int> kept;
  future<int> both;
  {
    const job j(with_targets("shm"));
    both = async(j.targets()[0], [] { return 1; }).then([&](future<int> one) {
      EXPECT_EQ(one.get(), 1);
      return kept.get_future();
    });
    EXPECT_FALSE(both.wait_for(std::chrono::milliseconds(5)));
  }
  use(both);
  kept.set_value(7);
  EXPECT_EQ(both.get(), 7);
}

TEST(job_end, leaves_what_waits_for_promises) {
  expect_promise_to_end_it([](future<int>& /*both*/) {});
  expect_promise_to_end_it([](future<int>& both) { EXPECT_FALSE(both.test()); });
  expect_promise_to_end_it([](future<int>& both) {
    const job second(with_targets("shm"));
    EXPECT_FALSE(both.wait_for(std::chrono::milliseconds(5)));
  });
}

TEST(job_end, leaves_what_has_followed_calls) {
  future<int> after;
  {
    const job j(with_targets("shm"));
    after = async(j.targets()[0], [] { return 1; }).then([](future<int> one) { return one.get(); });
    after.wait();
  }
  const job second(with_targets("shm"));
  EXPECT_EQ(sync(second.targets()[0], [] { return 2; }), 2);
  EXPECT_EQ(after.get(), 1);
}

TEST(job_end, is_the_end_of_its_nodes) {
  auto first = std::make_unique<job>(with_targets("shm"));
  const node target = first->targets()[0];
  const node host = first->host();
  EXPECT_TRUE(target.alive());
  first.reset();
  EXPECT_FALSE(target.alive());
  EXPECT_FALSE(host.alive());
  const auto expect_ended = [&](auto use) {
    EXPECT_THAT(text_thrown_by<error>(use), HasSubstr("the job has ended"));
  };
  for (const node& gone : {target, host}) {
    expect_ended([&] { sync(gone, [] {}); });
    expect_ended([&] { (void)async(gone.within(wait_limit), [] {}); });
    expect_ended([&] { post(gone, [] {}); });
    expect_ended([&] { (void)gone.allocate<int>(7); });
    expect_ended([&] { (void)gone.name(); });
    expect_ended([&] { const lane stream(gone); });
  }
  const job second(with_targets("shm"));
  EXPECT_FALSE(target.alive());
  EXPECT_TRUE(second.targets()[0].alive());
}

TEST(job_start, takes_no_number_of_a_closed_standard_descriptor) {
  EXPECT_EXIT(run_with_closed_descriptors(), ::testing::ExitedWithCode(0), "");
}

} // namespace
} // namespace farcall::test::job_end_test
