// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/unique_fd.hpp>
#include <farcall/c/c_test_support.hpp>
#include <farcall/c/convert.hpp>
#include <farcall/c/queue.h>
#include <farcall/farcall.h>
#include <tests/child.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/epoll.h>

namespace farcall::test::queue_test {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

constexpr auto limit_in_ms = static_cast<int>(wait_limit / milliseconds(1));

bool is_readable(int fd, int within_ms) {
  pollfd watched{fd, POLLIN, 0};
  return ::poll(&watched, 1, within_ms) == 1;
}

/// A queue that is closed at the end of the scope.
class open_queue {
 public:
  open_queue() { EXPECT_EQ(fc_queue_open(nullptr, &queue_), FC_OK) << fc_error_text(); }
  open_queue(const open_queue&) = delete;
  open_queue& operator=(const open_queue&) = delete;
  ~open_queue() { close(); }

  void close() {
    fc_queue_close(queue_);
    queue_ = nullptr;
  }
  [[nodiscard]] fc_queue* get() const { return queue_; }
  [[nodiscard]] int fd() const {
    int fd = -1;
    EXPECT_EQ(fc_queue_fd(queue_, &fd), FC_OK) << fc_error_text();
    return fd;
  }

  /// Takes up to `capacity` elements. Returns none, and a failure of the test, if that fails.
  [[nodiscard]] std::vector<fc_completion> take(std::size_t capacity,
                                                std::int64_t timeout_ns = in_time) const {
    std::vector<fc_completion> taken(capacity);
    std::size_t count = 0;
    EXPECT_EQ(fc_queue_take(queue_, taken.data(), capacity, timeout_ns, &count), FC_OK)
        << fc_error_text();
    taken.resize(count);
    return taken;
  }
  /// Takes one element and drops its future. Returns the status of the call or copy.
  [[nodiscard]] fc_status take_status(std::uint64_t tag) const {
    const std::vector<fc_completion> taken = take(1);
    if (taken.empty()) return FC_ERROR;
    EXPECT_EQ(taken[0].tag, tag);
    const fc_status status = fc_future_get(taken[0].future, nullptr, nullptr);
    fc_future_drop(taken[0].future);
    return status;
  }
  /// Takes what there is, without waiting. Appends the tags to `tags` and drops the futures.
  void take_tags(std::vector<std::uint64_t>& tags, std::size_t capacity = 16) const {
    std::vector<fc_completion> taken(capacity);
    std::size_t count = capacity;
    while (count == capacity && fc_queue_take(queue_, taken.data(), capacity, 0, &count) == FC_OK) {
      for (std::size_t i = 0; i < count; ++i) {
        tags.push_back(taken[i].tag);
        fc_future_drop(taken[i].future);
      }
    }
  }
  [[nodiscard]] bool is_empty() const {
    fc_completion taken{};
    std::size_t count = 77;
    const bool was_empty = fc_queue_take(queue_, &taken, 1, 0, &count) == FC_TIMEOUT;
    EXPECT_TRUE(!was_empty || count == 77) << "it is set for FC_OK only";
    return was_empty;
  }

 private:
  fc_queue* queue_ = nullptr;
};

/// Returns the numbers from 0 to `count` - 1.
std::vector<std::uint64_t> numbers(std::size_t count) {
  std::vector<std::uint64_t> all(count);
  std::iota(all.begin(), all.end(), std::uint64_t{0});
  return all;
}

std::vector<std::uint64_t> sorted(std::vector<std::uint64_t> tags) {
  std::sort(tags.begin(), tags.end());
  return tags;
}

class queues : public c_test {
 protected:
  /// Calls "echo" with the tag as the bytes.
  void echo(fc_node where, std::uint64_t tag) const { echo(where, queue_, tag); }
  static void echo(fc_node where, const open_queue& to, std::uint64_t tag) {
    const fc_bytes part = bytes_of(tag);
    ASSERT_EQ(fc_call_async_to(where, fc_named("echo"), &part, 1, to.get(), tag), FC_OK)
        << fc_error_text();
  }
  /// Calls "hold", which replies once the word is set.
  void hold(fc_node where, std::size_t word, std::uint64_t tag) const {
    const fc_span span = words_.span(word);
    const fc_bytes part = bytes_of(span);
    ASSERT_EQ(fc_call_async_to(where, fc_named("hold"), &part, 1, queue_.get(), tag), FC_OK)
        << fc_error_text();
  }
  [[nodiscard]] static fc_future* call(fc_node where, const char* function,
                                       const fc_span& span = {}) {
    fc_future* f = nullptr;
    EXPECT_EQ(fc_call_async(where, fc_named(function), &span, sizeof span, &f), FC_OK)
        << fc_error_text();
    return f;
  }

  open_queue queue_;
};

// ---- what they contain --------------------------------------------------------------------------

TEST_F(queues, contain_calls_in_the_order_of_their_ends) {
  hold(there_, 0, 10);
  hold(elsewhere_, 1, 11);
  EXPECT_TRUE(queue_.is_empty());
  words_.set(1);
  EXPECT_EQ(queue_.take_status(11), FC_OK);
  EXPECT_TRUE(queue_.is_empty());
  words_.set(0);
  EXPECT_EQ(queue_.take_status(10), FC_OK);
}

TEST_F(queues, contain_the_results_of_calls) {
  echo(there_, 0x1234);
  const std::vector<fc_completion> taken = queue_.take(4);
  ASSERT_EQ(taken.size(), 1U);
  const std::uint64_t sent = 0x1234;
  EXPECT_EQ(text_in(taken[0].future), std::string(reinterpret_cast<const char*>(&sent), 8));
  fc_future_drop(taken[0].future);
  ASSERT_EQ(fc_call_async_to(there_, fc_named("of no handler"), nullptr, 0, queue_.get(), 5),
            FC_OK);
  EXPECT_EQ(queue_.take_status(5), FC_UNKNOWN_FUNCTION);
}

TEST_F(queues, give_many_elements_at_once) {
  constexpr std::size_t count = 100;
  for (const std::uint64_t tag : numbers(count))
    echo(there_, tag);
  std::vector<std::uint64_t> tags;
  while (tags.size() < count) {
    for (const fc_completion& c : queue_.take(64)) {
      tags.push_back(c.tag);
      fc_future_drop(c.future);
    }
  }
  EXPECT_EQ(tags, numbers(count)) << "calls of one lane end in order";
  EXPECT_TRUE(queue_.is_empty());
}

TEST_F(queues, contain_futures_that_were_ready_before) {
  fc_future* waited_for = call(there_, "echo");
  fc_future* looked_at = call(there_, "echo");
  EXPECT_EQ(fc_future_wait(waited_for, in_time), FC_OK);
  EXPECT_EQ(fc_future_get(looked_at, nullptr, nullptr), FC_OK);
  ASSERT_EQ(fc_queue_add(queue_.get(), waited_for, 1), FC_OK);
  ASSERT_EQ(fc_queue_add(queue_.get(), looked_at, 2), FC_OK);
  EXPECT_EQ(queue_.take_status(1), FC_OK);
  EXPECT_EQ(queue_.take_status(2), FC_OK);
}

TEST_F(queues, contain_copies) {
  constexpr std::size_t size = std::size_t{8} << 20;
  fc_span there{};
  ASSERT_EQ(fc_allocate(there_, size, &there), FC_OK);
  const std::vector<char> sent(size, 'x');
  std::vector<char> got(size);
  fc_future* copy = nullptr;
  ASSERT_EQ(fc_put_async(nullptr, there, sent.data(), size, &copy), FC_OK);
  ASSERT_EQ(fc_queue_add(queue_.get(), copy, 1), FC_OK);
  EXPECT_EQ(queue_.take_status(1), FC_OK);
  ASSERT_EQ(fc_get_async_within(nullptr, there, got.data(), size, in_time, &copy), FC_OK);
  ASSERT_EQ(fc_queue_add(queue_.get(), copy, 2), FC_OK);
  EXPECT_EQ(queue_.take_status(2), FC_OK);
  EXPECT_EQ(got, sent);
  ASSERT_EQ(fc_get_async_within(nullptr, there, got.data(), size, 0, &copy), FC_OK);
  ASSERT_EQ(fc_queue_add(queue_.get(), copy, 3), FC_OK);
  EXPECT_EQ(queue_.take_status(3), FC_TIMEOUT);
  EXPECT_EQ(fc_release(nullptr, there), FC_OK);
}

TEST_F(queues, contain_late_calls_at_their_deadlines) {
  const stopped_target stopped(target_);
  echo(fc_within(there_, soon), 1);
  EXPECT_EQ(queue_.take_status(1), FC_TIMEOUT);
  // The descriptor reports a late call although no thread waits for the job.
  const int fd = queue_.fd();
  EXPECT_TRUE(queue_.is_empty());
  echo(fc_within(there_, soon), 2);
  std::vector<std::uint64_t> tags;
  while (tags.empty() && is_readable(fd, limit_in_ms))
    queue_.take_tags(tags);
  EXPECT_THAT(tags, ElementsAre(2U));
}

TEST_F(queues, contain_calls_in_time_before_their_deadlines) {
  for (const std::uint64_t tag : numbers(100))
    echo(fc_within(there_, in_time), tag);
  for (const std::uint64_t tag : numbers(100))
    EXPECT_EQ(queue_.take_status(tag), FC_OK);
}

TEST_F(queues, contain_stopped_calls) {
  fc_future* f = call(fc_stoppable(there_), "run on", words_.span(0));
  ASSERT_EQ(fc_queue_add(queue_.get(), f, 3), FC_OK);
  EXPECT_TRUE(words_.becomes(0, 1));
  EXPECT_TRUE(queue_.is_empty());
  EXPECT_EQ(fc_future_stop(f), FC_OK);
  EXPECT_EQ(queue_.take_status(3), FC_CANCELLED);
  EXPECT_TRUE(words_.becomes(0, 2));
}

TEST_F(queues, contain_calls_to_nodes_that_fail) {
  hold(there_, 0, 1);
  hold(elsewhere_, 1, 2);
  ASSERT_EQ(::kill(static_cast<pid_t>(target_.description().pid), SIGKILL), 0);
  EXPECT_EQ(queue_.take_status(1), FC_NODE_FAILED);
  words_.set(1);
  EXPECT_EQ(queue_.take_status(2), FC_OK);
}

TEST_F(queues, contain_signals) {
  for (const std::uint64_t tag : {1U, 2U})
    ASSERT_EQ(fc_queue_signal(queue_.get(), tag), FC_OK);
  const std::vector<fc_completion> taken = queue_.take(4);
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_EQ(taken[0].tag, 1U);
  EXPECT_EQ(taken[0].future, nullptr);
  EXPECT_EQ(taken[1].tag, 2U);
}

// ---- waits --------------------------------------------------------------------------------------

TEST_F(queues, end_waits_at_their_timeouts) {
  fc_completion taken{};
  std::size_t count = 0;
  for (const std::int64_t timeout : {std::int64_t{0}, std::int64_t{1'000'000}, soon})
    EXPECT_EQ(fc_queue_take(queue_.get(), &taken, 1, timeout, &count), FC_TIMEOUT);
}

TEST_F(queues, wake_threads_that_wait) {
  std::thread taker([&] { EXPECT_EQ(queue_.take(1, -1).at(0).tag, 9U); });
  std::this_thread::sleep_for(milliseconds(10)); // so that it mostly sleeps by then
  EXPECT_EQ(fc_queue_signal(queue_.get(), 9), FC_OK);
  taker.join();
  hold(there_, 0, 10);
  std::thread other([&] { EXPECT_EQ(queue_.take_status(10), FC_OK); });
  std::this_thread::sleep_for(milliseconds(10));
  words_.set(0);
  other.join();
}

TEST_F(queues, give_each_element_to_one_of_several_threads) {
  constexpr std::size_t count = 4000;
  constexpr std::size_t takers = 4;
  constexpr std::uint64_t end = UINT64_MAX;
  std::vector<std::vector<std::uint64_t>> tags(takers);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < takers; ++i) {
    threads.emplace_back([&, i] {
      for (bool is_over = false; !is_over;) {
        // A single element, so that each thread takes one of the signals that end the threads.
        const fc_completion c = queue_.take(1).at(0);
        is_over = c.tag == end;
        if (!is_over) tags[i].push_back(c.tag);
        fc_future_drop(c.future);
      }
    });
  }
  for (const std::uint64_t tag : numbers(count)) {
    echo(tag % 2 == 0 ? there_ : elsewhere_, tag);
    if (tag % 100 == 99) std::this_thread::sleep_for(milliseconds(3)); // let the takers sleep
  }
  for (std::size_t i = 0; i < takers; ++i)
    EXPECT_EQ(fc_queue_signal(queue_.get(), end), FC_OK);
  std::vector<std::uint64_t> all;
  for (std::size_t i = 0; i < takers; ++i) {
    threads[i].join();
    all.insert(all.end(), tags[i].begin(), tags[i].end());
  }
  // Calls that had not ended when the threads took the signals.
  while (all.size() < count) {
    const fc_completion c = queue_.take(1).at(0);
    all.push_back(c.tag);
    fc_future_drop(c.future);
  }
  EXPECT_EQ(sorted(all), numbers(count));
}

TEST_F(queues, take_calls_of_threads_that_have_ended) {
  std::thread([&] {
    for (const std::uint64_t tag : numbers(20))
      echo(there_, tag);
  }).join();
  for (const std::uint64_t tag : numbers(20))
    EXPECT_EQ(queue_.take_status(tag), FC_OK);
}

// ---- descriptors --------------------------------------------------------------------------------

TEST_F(queues, have_descriptors_that_are_readable_until_empty) {
  const int fd = queue_.fd();
  EXPECT_EQ(queue_.fd(), fd);
  for (const std::uint64_t tag : numbers(200)) {
    if (tag % 2 == 0) {
      echo(there_, tag);
    } else {
      hold(there_, tag % c_words::count, tag);
      words_.set(tag % c_words::count);
    }
    std::vector<std::uint64_t> tags;
    while (tags.empty()) {
      ASSERT_TRUE(is_readable(fd, limit_in_ms)) << tag;
      queue_.take_tags(tags);
    }
    EXPECT_THAT(tags, ElementsAre(tag));
    words_.set(tag % c_words::count, 0);
  }
  // The thread that watches for replies may have seen the last one late.
  EXPECT_TRUE(eventually([&] { return queue_.is_empty() && !is_readable(fd, 20); }));
}

TEST_F(queues, have_descriptors_that_report_earlier_elements) {
  ASSERT_EQ(fc_queue_signal(queue_.get(), 1), FC_OK);
  ASSERT_EQ(fc_queue_signal(queue_.get(), 2), FC_OK);
  const int fd = queue_.fd();
  EXPECT_TRUE(is_readable(fd, 0));
  EXPECT_EQ(queue_.take(1).size(), 1U);
  EXPECT_TRUE(is_readable(fd, 0)) << "one element is left";
  EXPECT_EQ(queue_.take(1).size(), 1U);
  EXPECT_TRUE(eventually([&] { return queue_.is_empty() && !is_readable(fd, 20); }));
}

/// Makes `count` calls, of which at most 16 are under way, in an event loop with edge triggering.
/// Returns the tags of the calls that have ended.
std::vector<std::uint64_t> tags_by_edge(const open_queue& queue, fc_node where,
                                        std::uint64_t count) {
  const unique_fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  EXPECT_EQ(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, queue.fd(), &event), 0);
  std::vector<std::uint64_t> tags;
  std::uint64_t made = 0;
  while (tags.size() < count) {
    for (; made < count && made - tags.size() < 16; ++made) {
      const fc_bytes part = bytes_of(made);
      EXPECT_EQ(fc_call_async_to(where, fc_named("echo"), &part, 1, queue.get(), made), FC_OK);
    }
    if (::epoll_wait(epoll.get(), &event, 1, limit_in_ms) != 1) {
      ADD_FAILURE() << "the descriptor has reported nothing after " << tags.size();
      break;
    }
    queue.take_tags(tags, 5);
  }
  return tags;
}

TEST_F(queues, have_descriptors_that_can_be_watched_by_edge) {
  EXPECT_EQ(sorted(tags_by_edge(queue_, there_, 3000)), numbers(3000));
}

TEST_F(queues, serve_several_event_loops_of_one_job) {
  const open_queue second;
  std::vector<std::uint64_t> of_second;
  std::thread other([&] { of_second = tags_by_edge(second, elsewhere_, 3000); });
  EXPECT_EQ(sorted(tags_by_edge(queue_, there_, 3000)), numbers(3000));
  other.join();
  EXPECT_EQ(sorted(of_second), numbers(3000));
}

TEST_F(queues, report_elements_whose_replies_other_threads_take) {
  const int fd = queue_.fd();
  for (const std::uint64_t tag : numbers(100)) {
    echo(there_, tag);
    // This call takes the reply of the call before, which is in the same lane.
    EXPECT_EQ(fc_call(there_, fc_named("echo"), nullptr, 0, nullptr, 0, nullptr), FC_OK);
    ASSERT_TRUE(is_readable(fd, limit_in_ms));
    EXPECT_EQ(queue_.take_status(tag), FC_OK);
  }
}

// ---- ends ---------------------------------------------------------------------------------------

TEST_F(queues, drop_calls_after_they_are_closed) {
  const fc_span word = words_.span(0);
  const fc_bytes part = bytes_of(word);
  constexpr std::uint32_t count = 50;
  for (std::uint32_t i = 0; i < count; ++i) {
    ASSERT_EQ(fc_call_async_to(i % 2 == 0 ? there_ : fc_within(there_, in_time), fc_named("count"),
                               &part, 1, queue_.get(), i),
              FC_OK);
  }
  hold(elsewhere_, 1, 7);
  (void)queue_.fd();
  queue_.close();
  EXPECT_TRUE(words_.becomes(0, count)) << "the calls go on";
  words_.set(1);
  EXPECT_EQ(fc_call(elsewhere_, fc_named("echo"), nullptr, 0, nullptr, 0, nullptr), FC_OK);
}

TEST(queues_and_jobs, end_with_the_job) {
  job_options options = with_targets("shm");
  options.stop_timeout = milliseconds(1000);
  std::optional<job> of_queue(std::in_place, options);
  open_queue queue;
  fc_node there = c_node(of_queue->targets().front());
  fc_span word{};
  fc_node here{};
  ASSERT_EQ(fc_this_node(nullptr, &here), FC_OK);
  ASSERT_EQ(fc_allocate(here, sizeof(std::uint32_t), &word), FC_OK);
  void* mapped = nullptr;
  ASSERT_EQ(fc_map(nullptr, word, &mapped), FC_OK);
  *static_cast<std::uint32_t*>(mapped) = 0;
  const fc_bytes part = bytes_of(word);
  constexpr std::size_t count = 100;
  for (const std::uint64_t tag : numbers(count)) {
    const fc_node where = tag % 3 == 0 ? fc_within(there, in_time) : there;
    ASSERT_EQ(fc_call_async_to(where, fc_named("hold"), &part, 1, queue.get(), tag), FC_OK);
  }
  ASSERT_EQ(fc_queue_signal(queue.get(), count), FC_OK);
  of_queue.reset();
  std::vector<std::uint64_t> tags;
  for (const fc_completion& c : queue.take(2 * count)) {
    tags.push_back(c.tag);
    if (c.future == nullptr) continue;
    EXPECT_EQ(fc_future_get(c.future, nullptr, nullptr), FC_NODE_FAILED) << c.tag;
    fc_future_drop(c.future);
  }
  EXPECT_EQ(sorted(tags), numbers(count + 1));
  fc_completion none{};
  std::size_t taken = 0;
  EXPECT_EQ(fc_queue_take(queue.get(), &none, 1, -1, &taken), FC_ERROR);
  EXPECT_EQ(fc_call_async_to(there, fc_named("echo"), nullptr, 0, queue.get(), 1), FC_ERROR);
  EXPECT_EQ(fc_queue_signal(queue.get(), 4), FC_OK);
  EXPECT_EQ(queue.take(1).at(0).tag, 4U);
}

TEST(queues_and_jobs, belong_together) {
  const job one(with_targets("shm"));
  const open_queue queue;
  const job other(with_targets("shm"));
  const node target = other.targets().front();
  const fc_node there{c::handle_of(detail::state_of(*target.job())), nullptr, 0, target.id(), 0};
  EXPECT_EQ(fc_call_async_to(there, fc_named("echo"), nullptr, 0, queue.get(), 1),
            FC_INVALID_ARGUMENT);
  fc_future* f = nullptr;
  ASSERT_EQ(fc_call_async(there, fc_named("echo"), nullptr, 0, &f), FC_OK);
  EXPECT_EQ(fc_queue_add(queue.get(), f, 1), FC_INVALID_ARGUMENT);
  EXPECT_EQ(fc_future_get(f, nullptr, nullptr), FC_OK) << "the caller has kept it";
  fc_future_drop(f);
}

TEST_F(queues, are_of_no_use_in_a_forked_child) {
  hold(there_, 0, 1);
  ASSERT_EQ(fc_queue_signal(queue_.get(), 2), FC_OK);
  (void)queue_.fd();
  forked_child child([&] {
    fc_completion taken{};
    std::size_t count = 0;
    int fd = -1;
    fc_queue* another = nullptr;
    if (fc_queue_take(queue_.get(), &taken, 1, 0, &count) != FC_FORKED) return 1;
    if (fc_queue_signal(queue_.get(), 3) != FC_FORKED) return 2;
    if (fc_queue_fd(queue_.get(), &fd) != FC_FORKED) return 3;
    if (fc_call_async_to(there_, fc_named("echo"), nullptr, 0, queue_.get(), 4) != FC_FORKED)
      return 4;
    if (fc_queue_open(there_.job, &another) != FC_FORKED) return 5;
    fc_queue_close(queue_.get());
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(queue_.take(4).at(0).tag, 2U);
  words_.set(0);
  EXPECT_EQ(queue_.take_status(1), FC_OK);
}

TEST_F(queues, refuse_invalid_arguments) {
  fc_completion taken{};
  std::size_t count = 0;
  fc_future* f = call(there_, "echo");
  EXPECT_EQ(fc_queue_open(nullptr, nullptr), FC_INVALID_ARGUMENT);
  EXPECT_EQ(fc_queue_add(nullptr, f, 1), FC_INVALID_ARGUMENT);
  EXPECT_EQ(fc_queue_add(queue_.get(), nullptr, 1), FC_INVALID_ARGUMENT);
  EXPECT_EQ(fc_queue_signal(nullptr, 1), FC_INVALID_ARGUMENT);
  EXPECT_EQ(fc_queue_take(nullptr, &taken, 1, 0, &count), FC_INVALID_ARGUMENT);
  EXPECT_EQ(fc_queue_take(queue_.get(), nullptr, 1, 0, &count), FC_INVALID_ARGUMENT);
  EXPECT_EQ(fc_queue_take(queue_.get(), &taken, 0, 0, &count), FC_INVALID_ARGUMENT);
  EXPECT_EQ(fc_queue_take(queue_.get(), &taken, 1, 0, nullptr), FC_INVALID_ARGUMENT);
  EXPECT_EQ(fc_queue_fd(queue_.get(), nullptr), FC_INVALID_ARGUMENT);
  EXPECT_EQ(fc_call_async_to(there_, 0, nullptr, 0, queue_.get(), 1), FC_INVALID_ARGUMENT);
  EXPECT_EQ(fc_call_async_to(there_, fc_named("echo"), nullptr, 0, nullptr, 1),
            FC_INVALID_ARGUMENT);
  fc_queue_close(nullptr);
  fc_future_drop(f);
}

} // namespace
} // namespace farcall::test::queue_test
