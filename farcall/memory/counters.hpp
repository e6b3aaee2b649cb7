#pragma once

#include <farcall/base/bytes.hpp>
#include <farcall/base/node_id.hpp>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

/// What a process counts of its part in a job, in the layout that other processes read
/// (counter_reader.hpp): blocks in a segment, each written by one thread at a time and by plain
/// stores, since nobody else writes there. Counts only grow. A reader may find one behind another,
/// as answers ahead of calls.
namespace farcall {

/// What a block is about.
enum class counter_kind : std::uint32_t {
  none = 0,      ///< not complete yet
  caller = 1,    ///< the end of a lane that sends requests
  server = 2,    ///< the end that serves them
  worker = 3,    ///< a thread that runs handlers
  thread = 4,    ///< one that calls
  peer = 5,      ///< who a node of the job is, and how it is reached
  functions = 6, ///< names of handlers
};

/// What stands before each block's counts.
struct alignas(line_bytes) counter_block {
  std::atomic<counter_kind> kind{counter_kind::none}; ///< written last
  std::uint32_t bytes = 0;                            ///< of the whole block; a multiple of a line
  std::uint32_t number = 0;             ///< of the node that it is about, or of the worker
  std::atomic<std::uint32_t> in_use{0}; ///< 0: its lane or thread has ended
};
static_assert(sizeof(counter_block) == line_bytes);

/// Durations by their length: four buckets for each power of two nanoseconds, so that a bucket's
/// bounds are a quarter apart at most. As HdrHistogram's, with two significant bits.
struct duration_counts {
  static constexpr std::size_t size = 128;
  std::array<std::uint32_t, size> buckets{};

  /// The last bucket takes all that is longer than its lower bound.
  [[nodiscard]] static constexpr std::size_t bucket_of(std::uint64_t ns) noexcept {
    if (ns < 4) return static_cast<std::size_t>(ns);
    const auto octave = static_cast<std::size_t>(std::bit_width(ns)) - 1;
    const std::size_t bucket = (octave - 1) * 4 + ((ns >> (octave - 2)) & 3);
    return bucket < size ? bucket : size - 1;
  }
  /// The shortest duration of a bucket, in nanoseconds.
  [[nodiscard]] static constexpr std::uint64_t lower_bound(std::size_t bucket) noexcept {
    if (bucket < 4) return bucket;
    return (4 + bucket % 4) << (bucket / 4 - 1);
  }
  void add(std::uint64_t ns) noexcept { ++buckets[bucket_of(ns)]; }
};

/// Of the end of a lane that calls. Messages that farcall itself sends are counted too.
struct caller_counters {
  counter_block block;
  std::uint64_t calls = 0;   ///< requests that want an answer
  std::uint64_t posts = 0;   ///< those that want none
  std::uint64_t answers = 0; ///< that were taken in, or will not come
  std::uint64_t batches = 0; ///< times that answers were taken in, but for those of single calls
  /// Positions in the lane's rings, pads included; behind by what a ring holds, at most.
  std::uint64_t bytes_out = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t full = 0;           ///< times that a caller waited for space
  std::uint64_t most_in_flight = 0; ///< calls without their answer, at the most
  /// From a call's sending to its answer being taken in: of one call in some
  /// 64, or of some thousand in a second where there are more.
  duration_counts latency;
  std::uint64_t failures = 0; ///< calls that ended with an exception
  std::uint64_t batched = 0; ///< answers that were taken in by batches: batched / batches at a time
};
static_assert(offsetof(caller_counters, latency) == 2 * line_bytes);

/// Of the end of a lane that serves.
struct server_counters {
  counter_block block;
  /// Positions in the lane's rings, pads included, as of when there was last no request, or when 64
  /// had been served in a row.
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
};

/// Of a thread that runs handlers, with a count for each, by key, behind it: of those that have
/// ended.
struct worker_counters {
  counter_block block;
  /// Key of the handler that runs, and above it what its request says of it: the handle of a plain
  /// function. 0 while there is none.
  std::uint64_t running = 0;
  std::uint64_t sleeps = 0;
  std::uint64_t handlers = 0; ///< how many counts follow

  [[nodiscard]] std::uint64_t* counts() noexcept {
    return reinterpret_cast<std::uint64_t*>(reinterpret_cast<std::byte*>(this) + 2 * line_bytes);
  }
};
static_assert(sizeof(worker_counters) == 2 * line_bytes);

/// For counts that several threads may share, which then miss some.
inline void add_to(std::uint64_t& count, std::uint64_t n) noexcept {
  const std::atomic_ref<std::uint64_t> shared(count);
  shared.store(shared.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

/// Of a thread that calls or copies; of several where there are more than a node has doorbells,
/// which may then miss some.
struct thread_counters {
  counter_block block;
  std::uint64_t puts = 0;
  std::uint64_t gets = 0;
  std::uint64_t copies = 0; ///< between other nodes
  std::uint64_t bytes_put = 0;
  std::uint64_t bytes_got = 0;
  std::uint64_t bytes_copied = 0;
  std::uint64_t sleeps = 0; ///< in waits for answers and space

  void count_put(std::uint64_t bytes) noexcept {
    add_to(puts, 1);
    add_to(bytes_put, bytes);
  }
  void count_get(std::uint64_t bytes) noexcept {
    add_to(gets, 1);
    add_to(bytes_got, bytes);
  }
  void count_copy(std::uint64_t bytes) noexcept {
    add_to(copies, 1);
    add_to(bytes_copied, bytes);
  }
};
static_assert(sizeof(thread_counters) == 2 * line_bytes);

/// A node as the process knows it. Texts end with a zero.
struct peer_description {
  counter_block block;
  std::int64_t process = 0; ///< its number on its machine
  std::uint32_t workers = 0;
  std::array<char, 20> route{}; ///< the transport's scheme
  std::array<char, 64> machine{};
  std::array<char, 64> name{};
  std::array<char, 128> server{}; ///< "host:port" of the one that has started it; empty: none
};

/// Names of handlers, in the order of their keys from the first that is the user's: each ends with
/// a zero, the first is behind this. `block.number` says how many.
struct function_names {
  counter_block block;
};

/// At the beginning of the segment.
struct alignas(line_bytes) counters_header {
  static constexpr std::array<char, 8> right_magic{'f', 'a', 'r', 'c', 'o', 'u', 'n', 't'};
  static constexpr std::uint32_t right_version = 2;

  std::array<char, 8> magic{};
  std::uint32_t version = 0;
  std::uint32_t first_block = 0;      ///< offset, in bytes
  std::atomic<std::uint64_t> used{0}; ///< bytes up to the end of the last block
  std::int64_t process = 0;      ///< whose counts these are: a child of a fork has the segment, too
  std::int64_t host_process = 0; ///< of the job
  std::uint32_t node = 0;
  std::atomic<std::uint32_t> unseen{0}; ///< blocks that found no space here
  std::array<char, 64> host_machine{};  ///< ends with a zero
};

} // namespace farcall
