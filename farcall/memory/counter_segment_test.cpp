// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/memory/counter_reader.hpp>
#include <farcall/memory/counter_segment.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace farcall::counter_segment_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

counters_owner some_owner() { return {3, 1234, "ibiza"}; }

// ---- durations ----------------------------------------------------------------------------------

TEST(duration_counts, have_four_buckets_for_each_power_of_two) {
  for (std::uint64_t ns = 0; ns < 4; ++ns)
    EXPECT_EQ(duration_counts::lower_bound(duration_counts::bucket_of(ns)), ns);
  for (std::size_t bucket = 4; bucket < duration_counts::size; ++bucket) {
    const std::uint64_t from = duration_counts::lower_bound(bucket);
    EXPECT_EQ(duration_counts::bucket_of(from), bucket);
    EXPECT_EQ(duration_counts::bucket_of(from - 1), bucket - 1);
    EXPECT_LE(static_cast<double>(from) /
                  static_cast<double>(duration_counts::lower_bound(bucket - 1)),
              2.0);
  }
  EXPECT_EQ(duration_counts::lower_bound(duration_counts::bucket_of(1024)), 1024U);
  EXPECT_EQ(duration_counts::lower_bound(duration_counts::bucket_of(1279)), 1024U);
  EXPECT_EQ(duration_counts::lower_bound(duration_counts::bucket_of(1280)), 1280U);
}

TEST(duration_counts, keep_the_longest_in_the_last_bucket) {
  duration_counts counts;
  counts.add(UINT64_MAX);
  EXPECT_EQ(counts.buckets.back(), 1U);
}

// ---- a reader -----------------------------------------------------------------------------------

TEST(counter_segment, shows_its_blocks_to_readers) {
  counter_segment written(some_owner());
  caller_counters& lane = written.take_caller(7);
  lane.calls = 5;
  lane.replies = 4;
  lane.latency.add(1000);
  server_counters& served = written.take_server(8);
  served.bytes_in = 6;
  worker_counters& worker = written.take_worker(1, 3);
  worker.running = std::uint64_t{98} << 32 | 2;
  worker.counts()[2] = 2;
  written.take_thread().count_put(100);
  written.describe_peer(7, 4321, 2, "shm", "ibiza", "solver", "ibiza:9000");
  written.name_functions({"first", "", "third"});
  written.name_function("third", 98, "solve");

  const process_counters read = counter_reader(written.fd()).read();
  EXPECT_EQ(read.process, getpid());
  EXPECT_EQ(read.host_process, 1234);
  EXPECT_EQ(read.host_machine, "ibiza");
  EXPECT_EQ(read.node, 3U);
  ASSERT_EQ(read.callers.size(), 1U);
  EXPECT_EQ(read.callers[0].peer, 7U);
  EXPECT_TRUE(read.callers[0].is_open);
  EXPECT_EQ(read.callers[0].calls, 5U);
  EXPECT_EQ(read.callers[0].answers, 4U);
  EXPECT_EQ(read.callers[0].latency.buckets[duration_counts::bucket_of(1000)], 1U);
  ASSERT_EQ(read.servers.size(), 1U);
  EXPECT_EQ(read.servers[0].peer, 8U);
  EXPECT_EQ(read.servers[0].bytes_in, 6U);
  ASSERT_EQ(read.workers.size(), 1U);
  EXPECT_THAT(read.workers[0].handlers, ElementsAre(0, 0, 2));
  EXPECT_EQ(read.workers[0].requests, 2U);
  EXPECT_EQ(read.workers[0].running_key, 2U);
  EXPECT_EQ(read.workers[0].running_handle, 98U);
  ASSERT_EQ(read.threads.size(), 1U);
  EXPECT_EQ(read.threads[0].puts, 1U);
  EXPECT_EQ(read.threads[0].bytes_put, 100U);
  ASSERT_EQ(read.peers.size(), 1U);
  EXPECT_EQ(read.peers[0].node, 7U);
  EXPECT_EQ(read.peers[0].process, 4321);
  EXPECT_EQ(read.peers[0].route, "shm");
  EXPECT_EQ(read.peers[0].machine, "ibiza");
  EXPECT_EQ(read.peers[0].name, "solver");
  EXPECT_EQ(read.peers[0].server, "ibiza:9000");
  EXPECT_THAT(read.functions, ElementsAre("first", "", "third"));
  ASSERT_EQ(read.named.size(), 1U);
  EXPECT_EQ(read.named[0].handler, "third");
  EXPECT_EQ(read.named[0].handle, 98U);
  EXPECT_EQ(read.named[0].name, "solve");
  EXPECT_EQ(read.unseen, 0U);
}

TEST(counter_segment, cuts_texts_that_are_too_long) {
  counter_segment written({0, 0, std::string(1000, 'h')});
  written.describe_peer(1, 1, 1, std::string(1000, 'r'), std::string(1000, 'm'),
                        std::string(1000, 'n'), std::string(1000, 'a'));
  const process_counters read = counter_reader(written.fd()).read();
  EXPECT_EQ(read.host_machine, std::string(63, 'h'));
  EXPECT_EQ(read.peers.at(0).route, std::string(19, 'r'));
  EXPECT_EQ(read.peers.at(0).machine, std::string(63, 'm'));
  EXPECT_EQ(read.peers.at(0).server, std::string(127, 'a'));
}

TEST(counter_segment, reuses_the_block_of_an_ended_lane) {
  counter_segment written(some_owner());
  caller_counters& first = written.take_caller(1);
  first.calls = 10;
  written.give_back(first.block);
  EXPECT_FALSE(counter_reader(written.fd()).read().callers.at(0).is_open);
  EXPECT_NE(&written.take_caller(2), &first);
  EXPECT_EQ(&written.take_caller(1), &first);
  EXPECT_EQ(first.calls, 10U);
  EXPECT_NE(&written.take_caller(1), &first);
}

TEST(counter_segment, puts_further_blocks_in_private_memory) {
  counter_segment written(some_owner());
  // More blocks than the segment holds.
  const std::size_t most = (std::size_t{16} << 20) / sizeof(caller_counters) + 10;
  for (std::size_t i = 0; i < most; ++i)
    ++written.take_caller(1).calls;
  const process_counters read = counter_reader(written.fd()).read();
  EXPECT_GT(read.unseen, 0U);
  EXPECT_EQ(read.callers.size() + read.unseen, most);
}

TEST(counter_segment, counts_without_a_segment) {
  counter_segment unseen;
  EXPECT_EQ(unseen.fd(), -1);
  EXPECT_EQ(unseen.take_caller(1).calls, 0U);
  unseen.take_worker(0, 100).counts()[99] = 1;
}

// ---- files that are no segment
// -------------------------------------------------------------------

std::string why_not(int file) {
  try {
    (void)counter_reader(file).read();
  } catch (const error& e) {
    return e.what();
  }
  return "read";
}

TEST(counter_reader, refuses_files_that_hold_no_counters) {
  const unique_fd pipe_end(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_THAT(why_not(pipe_end.get()), HasSubstr("no counters"));
  // A file that could shrink under the reader.
  const unique_fd unsealed(::memfd_create("farcall-counters", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(unsealed.get(), 1 << 20), 0);
  EXPECT_THAT(why_not(unsealed.get()), HasSubstr("no counters"));
  const segment zeros = segment::create("farcall-counters", 1 << 16);
  EXPECT_THAT(why_not(zeros.fd()), HasSubstr("no counters"));
  const segment tiny = segment::create("farcall-counters", 16);
  EXPECT_THAT(why_not(tiny.fd()), HasSubstr("no counters"));
  // A file that would cost its reader much memory; it is sparse here.
  segment huge = segment::create("farcall-counters", std::size_t{1} << 30);
  (new (huge.data()) counters_header)->magic = counters_header::right_magic;
  EXPECT_THAT(why_not(huge.fd()), HasSubstr("no counters"));
  EXPECT_THAT(why_not(-1), HasSubstr("looking at"));
}

TEST(counter_reader, refuses_more_names_than_a_table_has) {
  counter_segment written(some_owner());
  written.name_functions(std::vector<std::string>((1 << 20) + 1));
  EXPECT_THAT(why_not(written.fd()), HasSubstr("contradict"));
}

TEST(counter_reader, refuses_counters_of_another_version) {
  segment file = segment::create("farcall-counters", 1 << 16);
  auto* const h = new (file.data()) counters_header;
  h->magic = counters_header::right_magic;
  h->version = counters_header::right_version + 1;
  EXPECT_THAT(why_not(file.fd()), HasSubstr("another version"));
}

/// A segment whose bytes a test may corrupt.
class spoiled {
 public:
  spoiled() {
    lane_ = &written_.take_caller(1);
    worker_ = &written_.take_worker(0, 4);
    written_.name_functions({"a", "b"});
    writable_ = segment::map(unique_fd(::fcntl(written_.fd(), F_DUPFD_CLOEXEC, 0)), 1 << 16);
  }
  counters_header& header() { return *reinterpret_cast<counters_header*>(writable_.data()); }
  caller_counters& lane() { return *lane_; }
  worker_counters& worker() { return *worker_; }
  std::string outcome() { return why_not(written_.fd()); }

 private:
  counter_segment written_{some_owner()};
  caller_counters* lane_;
  worker_counters* worker_;
  segment writable_;
};

TEST(counter_reader, survives_counters_that_contradict_themselves) {
  const auto contradicts = HasSubstr("contradict");
  {
    spoiled s;
    EXPECT_EQ(s.outcome(), "read");
    s.header().used = UINT64_MAX;
    EXPECT_THAT(s.outcome(), contradicts);
  }
  {
    spoiled s;
    s.header().first_block = 1;
    EXPECT_THAT(s.outcome(), contradicts);
  }
  for (const std::uint32_t bytes : {0U, 1U, 64U, 65U, UINT32_MAX}) {
    spoiled s;
    s.lane().block.bytes = bytes;
    EXPECT_THAT(s.outcome(), contradicts) << bytes;
  }
  for (const std::uint64_t handlers : {std::uint64_t{9}, UINT64_MAX}) {
    spoiled s;
    s.worker().handlers = handlers;
    EXPECT_THAT(s.outcome(), contradicts) << handlers;
  }
  {
    spoiled s;
    // A text without its terminating zero.
    s.worker().block.number = UINT32_MAX;
    s.worker().block.kind = counter_kind::functions;
    EXPECT_THAT(s.outcome(), contradicts);
  }
  {
    spoiled s;
    s.lane().block.kind = static_cast<counter_kind>(1000);
    EXPECT_EQ(s.outcome(), "read");
  }
}

} // namespace
} // namespace farcall::counter_segment_test
