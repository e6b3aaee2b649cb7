// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/bytes.hpp>
#include <farcall/base/node_id.hpp>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

/// Counts of a process's part in a job, in the layout that other processes read
/// (counter_reader.hpp). The counts are in blocks of a segment. Only one thread at a time writes a
/// block, so plain stores are enough. Counts only grow. A reader may see a newer value of one count
/// than of another, for instance more replies than calls.
namespace farcall {

/// Kind of a block of counts.
enum class counter_kind : std::uint32_t {
  none = 0,      ///< not complete yet
  caller = 1,    ///< the end of a lane that sends requests
  server = 2,    ///< the end of a lane that serves requests
  worker = 3,    ///< a thread that runs handlers
  thread = 4,    ///< a thread that calls
  peer = 5,      ///< a node of the job, and the route to it
  functions = 6, ///< names of handlers
  named = 7,     ///< name of a function that a handler calls by its handle
};

/// Head of each block, which precedes its counts.
struct alignas(line_bytes) counter_block {
  std::atomic<counter_kind> kind{counter_kind::none}; ///< written last
  std::uint32_t bytes = 0;              ///< size of the whole block; a multiple of a line
  std::uint32_t number = 0;             ///< number of the peer node, or of the worker thread
  std::atomic<std::uint32_t> in_use{0}; ///< 0 if the lane or thread of this block has ended
};
static_assert(sizeof(counter_block) == line_bytes);

/// Histogram of durations, like HdrHistogram with two significant bits. Each power of two
/// nanoseconds has four buckets, so that the bounds of a bucket differ by at most a quarter.
struct duration_counts {
  static constexpr std::size_t size = 128;
  std::array<std::uint32_t, size> buckets{};

  /// Returns the index of the bucket of a duration. The last bucket takes all durations above its
  /// lower bound.
  [[nodiscard]] static constexpr std::size_t bucket_of(std::uint64_t ns) noexcept {
    if (ns < 4) return static_cast<std::size_t>(ns);
    const auto octave = static_cast<std::size_t>(std::bit_width(ns)) - 1;
    const std::size_t bucket = (octave - 1) * 4 + ((ns >> (octave - 2)) & 3);
    return bucket < size ? bucket : size - 1;
  }
  /// Returns the shortest duration of a bucket, in nanoseconds.
  [[nodiscard]] static constexpr std::uint64_t lower_bound(std::size_t bucket) noexcept {
    if (bucket < 4) return bucket;
    return (4 + bucket % 4) << (bucket / 4 - 1);
  }
  void add(std::uint64_t ns) noexcept { ++buckets[bucket_of(ns)]; }
};

/// Counts of a requester, the end of a lane that calls. Messages that farcall itself sends are
/// included.
struct caller_counters {
  counter_block block;
  std::uint64_t calls = 0;   ///< requests that have a reply
  std::uint64_t posts = 0;   ///< requests that have no reply
  std::uint64_t replies = 0; ///< replies that were taken, or will never come
  /// Number of times that one or more replies were taken. A single reply that a caller takes during
  /// its short spin, before it waits in another way, is not counted.
  std::uint64_t batches = 0;
  /// Bytes that passed through the lane's two rings up to now, pads included. The values may be too
  /// low by at most the size of a ring, because they are not updated for each record.
  std::uint64_t bytes_out = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t full = 0;           ///< number of times that a caller waited for space
  std::uint64_t most_in_flight = 0; ///< largest number of calls without a reply at one time
  /// Times from sending a call to taking its reply. One short call in about 64 is measured, but
  /// only a few thousand calls per second if there are many calls.
  duration_counts latency;
  std::uint64_t failures = 0; ///< calls that ended with an exception
  std::uint64_t batched = 0; ///< number of replies that were taken in batches; batched / batches is
                             ///< the average size of a batch
};
static_assert(offsetof(caller_counters, latency) == 2 * line_bytes);

/// Counts of a responder, the end of a lane that serves.
struct server_counters {
  counter_block block;
  /// Bytes that passed through the lane's two rings up to now, pads included. The values are
  /// updated when no request is waiting, and after 64 requests in a row.
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
};

/// Counts of a worker thread. Behind this block, there is one more count for each handler, in the
/// order of the keys: the number of requests that the thread has completed.
struct worker_counters {
  counter_block block;
  /// Key of the running handler; 0 if no handler runs. If the handler runs a plain function, the
  /// upper half is the function handle of the request.
  std::uint64_t running = 0;
  std::uint64_t sleeps = 0;
  std::uint64_t handlers = 0; ///< number of counts that follow this block

  [[nodiscard]] std::uint64_t* counts() noexcept {
    return reinterpret_cast<std::uint64_t*>(reinterpret_cast<std::byte*>(this) + 2 * line_bytes);
  }
};
static_assert(sizeof(worker_counters) == 2 * line_bytes);

/// Adds to a count that several threads may share. If two threads add at the same time, an addition
/// may be lost.
inline void add_to(std::uint64_t& count, std::uint64_t n) noexcept {
  const std::atomic_ref<std::uint64_t> shared(count);
  shared.store(shared.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

/// Counts of a thread that calls or copies. If there are more threads than a node has doorbells,
/// several threads share a block, and counts may be lost.
struct thread_counters {
  counter_block block;
  std::uint64_t puts = 0;
  std::uint64_t gets = 0;
  std::uint64_t copies = 0; ///< between other nodes
  std::uint64_t bytes_put = 0;
  std::uint64_t bytes_got = 0;
  std::uint64_t bytes_copied = 0;
  std::uint64_t sleeps = 0; ///< times that the thread slept while it waited for replies or space

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

/// Description of a node, as this process knows it. Texts end with a zero byte.
struct peer_description {
  counter_block block;
  std::int64_t process = 0; ///< process id of the node in its own pid namespace
  std::uint32_t workers = 0;
  std::array<char, 20> route{}; ///< the transport's scheme
  std::array<char, 64> machine{};
  std::array<char, 64> name{};
  std::array<char, 128> server{}; ///< "host:port" of the server that started the node; empty if
                                  ///< none did
};

/// Names of handlers, in the order of their keys from the first user key on. The names follow this
/// block, and each ends with a zero byte. `block.number` is the number of names.
struct function_names {
  counter_block block;
};

/// Name of a function that a handler calls if a request has this function handle. Two texts follow
/// this block, each ending with a zero byte: the handler's name, as function_names has it, and the
/// function's name. `block.number` is the handle.
struct function_by_handle {
  counter_block block;
};

/// Head of the segment.
struct alignas(line_bytes) counters_header {
  static constexpr std::array<char, 8> right_magic{'f', 'a', 'r', 'c', 'o', 'u', 'n', 't'};
  static constexpr std::uint32_t right_version = 2;

  std::array<char, 8> magic{};
  std::uint32_t version = 0;
  std::uint32_t first_block = 0;      ///< offset, in bytes
  std::atomic<std::uint64_t> used{0}; ///< number of bytes up to the end of the last block
  std::int64_t process = 0; ///< process id of the process whose counts these are. A child of a fork
                            ///< maps the segment, too, and must not be taken for that process.
  std::int64_t host_process = 0; ///< the job's host
  std::uint32_t node = 0;
  std::atomic<std::uint32_t> unseen{0}; ///< number of blocks that did not fit the segment
  std::array<char, 64> host_machine{};  ///< ends with a zero
};

} // namespace farcall
