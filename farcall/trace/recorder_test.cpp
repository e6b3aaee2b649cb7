// SPDX-License-Identifier: Apache-2.0
#include <farcall/trace/recorder.hpp>
#include <farcall/trace/trace_range.hpp>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace farcall::trace::recorder_test {
namespace {

constexpr std::size_t all = SIZE_MAX;

std::size_t count(const recorded& r) {
  std::size_t n = 0;
  for (const thread_events& t : r.threads)
    n += t.events.size();
  return n;
}

/// A recorder that is stopped at the end of its test.
class recorder_of_test {
 public:
  explicit recorder_of_test(std::size_t events = 1024) : made_(recorder::make(events)) {}
  recorder_of_test(const recorder_of_test&) = delete;
  recorder_of_test& operator=(const recorder_of_test&) = delete;
  ~recorder_of_test() {
    made_.stop();
    made_.clear();
  }
  recorder* operator->() { return &made_; }
  recorder& operator*() { return made_; }

 private:
  recorder& made_;
};

TEST(trace_recorder, keeps_events_of_a_thread_in_their_order) {
  recorder_of_test r;
  r->record(event_kind::call_begin, 7, 64, 3, 16, 5);
  r->record(event_kind::call_end, 7, 0, 3, 0, 0);
  const recorded taken = r->take(all);
  ASSERT_EQ(taken.threads.size(), 1U);
  const auto& events = taken.threads[0].events;
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].kind(), event_kind::call_begin);
  EXPECT_EQ(events[0].lane(), 7U);
  EXPECT_EQ(events[0].position, 64U);
  EXPECT_EQ(events[0].slot, 3U);
  EXPECT_EQ(events[0].key, 16U);
  EXPECT_EQ(events[0].handle, 5U);
  EXPECT_EQ(events[1].kind(), event_kind::call_end);
  EXPECT_LE(events[0].ticks, events[1].ticks);
  EXPECT_EQ(count(r->take(all)), 0U);
}

TEST(trace_recorder, counts_events_without_space_and_continues) {
  recorder_of_test r(4);
  for (int i = 0; i < 7; ++i)
    r->record(event_kind::post, 1, static_cast<std::uint64_t>(i), 0, 0, 0);
  recorded taken = r->take(3);
  ASSERT_EQ(taken.threads[0].events.size(), 3U);
  EXPECT_EQ(taken.threads[0].missed, 3U);
  r->record(event_kind::post, 1, 7, 0, 0, 0);
  taken = r->take(all);
  ASSERT_EQ(taken.threads[0].events.size(), 2U);
  EXPECT_EQ(taken.threads[0].events[0].position, 3U);
  EXPECT_EQ(taken.threads[0].events[1].position, 7U);
  EXPECT_EQ(taken.threads[0].missed, 3U);
}

TEST(trace_recorder, loses_nothing_while_threads_record_and_one_takes) {
  recorder_of_test r(256);
  constexpr std::uint64_t each = 50'000;
  std::atomic<int> running{2};
  const auto record = [&] {
    for (std::uint64_t i = 0; i < each; ++i)
      r->record(event_kind::post, 1, i, 0, 0, 0);
    running.fetch_sub(1);
  };
  std::thread first(record);
  std::thread second(record);
  std::vector<std::vector<std::uint64_t>> seen(2);
  std::vector<std::uint64_t> missed(2);
  for (bool is_last = false; !is_last;) {
    is_last = running.load() == 0;
    for (const thread_events& t : r->take(all).threads) {
      ASSERT_LT(t.thread, 2U);
      for (const event& e : t.events)
        seen[t.thread].push_back(e.position);
      missed[t.thread] = t.missed;
    }
  }
  first.join();
  second.join();
  for (int t = 0; t < 2; ++t) {
    EXPECT_EQ(seen[t].size() + missed[t], each);
    EXPECT_TRUE(std::is_sorted(seen[t].begin(), seen[t].end()));
  }
}

TEST(trace_recorder, keeps_events_of_ended_threads_until_taken) {
  recorder_of_test r;
  std::thread([&] { r->record(event_kind::post, 1, 0, 0, 0, 0); }).join();
  recorded taken = r->take(all);
  ASSERT_EQ(taken.threads.size(), 1U);
  EXPECT_EQ(taken.threads[0].events.size(), 1U);
  EXPECT_NE(taken.threads[0].name, "main thread");
  EXPECT_TRUE(r->take(all).threads.empty());
}

TEST(trace_recorder, names_threads_by_their_role) {
  recorder_of_test r;
  r->record(event_kind::post, 1, 0, 0, 0, 0);
  EXPECT_EQ(r->take(all).threads.at(0).name, "main thread");
  r->name_thread("worker 7");
  EXPECT_EQ(r->take(all).threads.at(0).name, "worker 7");
}

TEST(trace_recorder, ignores_excluded_threads_and_events_after_stop) {
  recorder_of_test r;
  std::thread([&] {
    r->leave_thread_out();
    r->record(event_kind::post, 1, 0, 0, 0, 0);
  }).join();
  EXPECT_EQ(count(r->take(all)), 0U);
  r->stop();
  const span nothing(&*r, event_kind::sleep_begin);
  EXPECT_EQ(count(r->take(all)), 0U);
}

TEST(trace_recorder, keeps_two_recorders_apart_on_one_thread) {
  recorder_of_test a;
  recorder_of_test b;
  for (int i = 0; i < 3; ++i) {
    a->record(event_kind::post, 1, 0, 0, 0, 0);
    b->record(event_kind::post, 2, 0, 0, 0, 0);
  }
  for (recorder_of_test* r : {&a, &b}) {
    const recorded taken = (*r)->take(all);
    ASSERT_EQ(taken.threads.size(), 1U);
    ASSERT_EQ(taken.threads[0].events.size(), 3U);
    for (const event& e : taken.threads[0].events)
      EXPECT_EQ(e.lane(), r == &a ? 1U : 2U);
  }
}

TEST(trace_recorder, sends_lanes_again_when_updated) {
  recorder_of_test r;
  EXPECT_EQ(r->add_lane(4, true), 1U);
  EXPECT_EQ(r->add_lane(5, false), 2U);
  EXPECT_EQ(r->take(all).lanes.size(), 2U);
  r->name_lane(2, 77);
  r->name_lane(3, 1); // no such lane
  r->name_lane(0, 1);
  const recorded taken = r->take(all);
  ASSERT_EQ(taken.lanes.size(), 1U);
  EXPECT_EQ(taken.lanes[0].number, 2U);
  EXPECT_EQ(taken.lanes[0].peer, 5U);
  EXPECT_EQ(taken.lanes[0].peers_number, 77U);
}

TEST(trace_recorder, late_spans_start_at_their_construction) {
  recorder_of_test r;
  {
    late_span never(&*r, event_kind::wait_begin);
    late_span waiting(&*r, event_kind::wait_begin);
    const span inside(&*r, event_kind::put_begin, 3, 4096);
    waiting.begin();
    waiting.begin();
  }
  const auto events = r->take(all).threads.at(0).events;
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].kind(), event_kind::put_begin);
  EXPECT_EQ(events[0].position, 4096U);
  EXPECT_EQ(events[1].kind(), event_kind::wait_begin);
  EXPECT_LE(events[1].ticks, events[0].ticks);
  EXPECT_EQ(events[2].kind(), event_kind::put_end);
  EXPECT_EQ(events[3].kind(), event_kind::wait_end);
}

TEST(trace_range, is_recorded_by_its_name) {
  recorder_of_test r;
  for (const char* const name : {"outer", "inner", "outer"})
    const trace_range range(name);
  const recorded taken = r->take(all);
  EXPECT_EQ(taken.first_range, 0U);
  EXPECT_EQ(taken.ranges, (std::vector<std::string>{"outer", "inner"}));
  const auto& events = taken.threads.at(0).events;
  ASSERT_EQ(events.size(), 6U);
  EXPECT_EQ(events[0].kind(), event_kind::range_begin);
  EXPECT_EQ(events[1].kind(), event_kind::range_end);
  EXPECT_EQ(events[0].key, events[4].key);
  EXPECT_NE(events[0].key, events[2].key);
}

TEST(trace_range, goes_to_an_older_recorder_after_the_newest_stops) {
  recorder_of_test first;
  {
    recorder_of_test second;
    EXPECT_EQ(recorder::current(), &*second);
  }
  EXPECT_EQ(recorder::current(), &*first);
  {
    const trace_range range("first's");
  }
  EXPECT_EQ(count(first->take(all)), 2U);
}

TEST(trace_range, may_be_made_by_thread_local_destructors) {
  struct last {
    bool is_used = false;
    last() = default;
    last(const last&) = delete;
    last& operator=(const last&) = delete;
    ~last() {
      for (int i = 0; i < 40; ++i)
        const trace_range range(std::string(400, 'y') + std::to_string(i));
    }
  };
  recorder_of_test traced;
  std::thread([] {
    static thread_local last destroyed_last;
    destroyed_last.is_used = true;
    for (int i = 0; i < 40; ++i)
      const trace_range range(std::string(40, 'x') + std::to_string(i));
  }).join();
  EXPECT_EQ(count(traced->take(all)), 80U);
}

TEST(trace_recorder, frees_a_threads_rings_of_earlier_recorders) {
  constexpr std::size_t events = 1 << 16;
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    std::size_t size = 0;
    std::size_t pages = 0;
    file >> size >> pages;
    return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  };
  const auto record = [] {
    recorder_of_test(events)->record(event_kind::range_begin, 0, 0, 0, 0, 0);
  };
  // AddressSanitizer keeps freed memory, up to 256 MiB.
  constexpr int jobs = 300;
  constexpr std::size_t kept = 200 * events * sizeof(event);
  record();
  const std::size_t before = resident();
  for (int i = 0; i < jobs; ++i)
    record();
  EXPECT_LT(resident(), before + kept);
}

TEST(trace_range, does_nothing_without_a_recorder) {
  recorder_of_test r;
  r->stop();
  const trace_range range("unseen");
  EXPECT_TRUE(r->take(all).ranges.empty());
}

TEST(trace_range, may_end_after_its_recorder) {
  recorder_of_test r;
  {
    const trace_range range("long");
    r->stop();
    r->clear();
  }
  EXPECT_EQ(count(r->take(all)), 0U);
}

TEST(trace_recorder, records_nothing_in_a_child_of_a_fork) {
  recorder_of_test r;
  r->record(event_kind::post, 1, 0, 0, 0, 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const trace_range range("child");
    const span nothing(&*r, event_kind::sleep_begin);
    ::_exit(r->is_on() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(count(r->take(all)), 1U);
}

} // namespace
} // namespace farcall::trace::recorder_test
