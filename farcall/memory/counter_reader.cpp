// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/memory/counter_reader.hpp>

#include <algorithm>
#include <cerrno>
#include <concepts>
#include <cstring>
#include <span>
#include <string_view>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace farcall {
namespace {

/// Size of the largest segment that is accepted. A correct segment has 16 MiB. A far larger segment
/// is refused, because its reader would waste memory.
constexpr std::size_t max_bytes = std::size_t{64} << 20;
/// Largest accepted number of names; more than the handlers of any program.
constexpr std::uint32_t max_names = 1U << 20;

/// Reads a count that its writer may change at the same time. Relaxed, because counts need not be
/// consistent with each other. A caller must read each count only once, because a second load may
/// return another value.
template <std::unsigned_integral T>
T value_of(const T& count) noexcept {
  return __atomic_load_n(&count, __ATOMIC_RELAXED);
}

std::string text_in(std::span<const char> bytes) {
  return {bytes.begin(), std::find(bytes.begin(), bytes.end(), '\0')};
}

[[noreturn]] void throw_contradiction() {
  throw error("the counters of a process contradict themselves: it may be writing to memory that "
              "is not its own");
}

template <class Block>
const Block& block_as(const std::byte* at, std::size_t bytes) {
  if (bytes < sizeof(Block)) throw_contradiction();
  return *reinterpret_cast<const Block*>(at);
}

/// Returns the counts by handler, which follow the fields of a worker's block. Throws error if the
/// block is too short for them.
std::span<const std::uint64_t> handler_counts(const worker_counters& w, std::size_t bytes) {
  const std::uint64_t handlers = value_of(w.handlers);
  if (handlers > (bytes - sizeof(worker_counters)) / sizeof(std::uint64_t)) throw_contradiction();
  return {reinterpret_cast<const std::uint64_t*>(&w + 1), static_cast<std::size_t>(handlers)};
}

process_counters::caller read_caller(const caller_counters& c) {
  process_counters::caller made;
  made.peer = c.block.number;
  made.is_open = c.block.in_use.load(std::memory_order_relaxed) != 0;
  made.calls = value_of(c.calls);
  made.posts = value_of(c.posts);
  made.answers = value_of(c.replies);
  made.batches = value_of(c.batches);
  made.bytes_out = value_of(c.bytes_out);
  made.bytes_in = value_of(c.bytes_in);
  made.full = value_of(c.full);
  made.most_in_flight = value_of(c.most_in_flight);
  made.failures = value_of(c.failures);
  made.batched = value_of(c.batched);
  for (std::size_t i = 0; i < duration_counts::size; ++i)
    made.latency.buckets[i] = value_of(c.latency.buckets[i]);
  return made;
}

process_counters::server read_server(const server_counters& s) {
  process_counters::server made;
  made.peer = s.block.number;
  made.is_open = s.block.in_use.load(std::memory_order_relaxed) != 0;
  made.bytes_in = value_of(s.bytes_in);
  made.bytes_out = value_of(s.bytes_out);
  return made;
}

process_counters::worker read_worker(const worker_counters& w, std::size_t bytes) {
  process_counters::worker made;
  const std::uint64_t running = value_of(w.running);
  made.index = w.block.number;
  made.running_key = static_cast<std::uint32_t>(running);
  made.running_handle = static_cast<std::uint32_t>(running >> 32);
  made.sleeps = value_of(w.sleeps);
  for (const std::uint64_t& count : handler_counts(w, bytes)) {
    made.handlers.push_back(value_of(count));
    made.requests += made.handlers.back();
  }
  return made;
}

process_counters::thread read_thread(const thread_counters& t) {
  process_counters::thread made;
  made.puts = value_of(t.puts);
  made.gets = value_of(t.gets);
  made.copies = value_of(t.copies);
  made.bytes_put = value_of(t.bytes_put);
  made.bytes_got = value_of(t.bytes_got);
  made.bytes_copied = value_of(t.bytes_copied);
  made.sleeps = value_of(t.sleeps);
  return made;
}

process_counters::peer read_peer(const peer_description& p) {
  return {p.block.number,     p.process,       p.workers,        text_in(p.route),
          text_in(p.machine), text_in(p.name), text_in(p.server)};
}

/// Takes a text, which ends with a zero byte, from the beginning of `left`.
std::string take_text(std::string_view& left) {
  const std::size_t end = left.find('\0');
  if (end == std::string_view::npos) throw_contradiction();
  std::string text(left.substr(0, end));
  left.remove_prefix(end + 1);
  return text;
}

template <class Block>
std::string_view texts_behind(const Block& block, std::size_t bytes) {
  return {reinterpret_cast<const char*>(&block + 1), bytes - sizeof(Block)};
}

std::vector<std::string> read_names(const function_names& block, std::size_t bytes) {
  std::string_view left = texts_behind(block, bytes);
  std::vector<std::string> names;
  const std::uint32_t number = value_of(block.block.number);
  if (number > max_names) throw_contradiction();
  for (std::uint32_t n = number; n > 0; --n)
    names.push_back(take_text(left));
  return names;
}

process_counters::named_function read_named(const function_by_handle& block, std::size_t bytes) {
  std::string_view left = texts_behind(block, bytes);
  process_counters::named_function made;
  made.handle = value_of(block.block.number);
  made.handler = take_text(left);
  made.name = take_text(left);
  return made;
}

} // namespace

void counter_reader::unmap::operator()(const std::byte* data) const noexcept {
  ::munmap(const_cast<std::byte*>(data), bytes);
}

counter_reader::counter_reader(int file) {
  // Read the seals before the size, because the file cannot shrink once the seal against it is set.
  // If the file shrank later, an access of the reader would be a SIGBUS.
  const int seals = ::fcntl(file, F_GET_SEALS);
  struct stat status{};
  if (::fstat(file, &status) != 0)
    throw_system_error("looking at the counters of a process", errno);
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || bytes < sizeof(counters_header) ||
      bytes > max_bytes) {
    throw error("this file holds no counters of farcall");
  }
  void* const data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) throw_system_error("mapping the counters of a process", errno);
  data_ = {static_cast<const std::byte*>(data), unmap{bytes}};
  if (header().magic != counters_header::right_magic) {
    throw error("this file holds no counters of farcall");
  }
  if (header().version != counters_header::right_version) {
    throw error("process " + std::to_string(header().process) +
                " counts in the way of another version of farcall (" +
                std::to_string(header().version) + ", not " +
                std::to_string(counters_header::right_version) + ")");
  }
}

template <class F>
void counter_reader::for_each_block(const F& f) const {
  const std::size_t size = data_.get_deleter().bytes;
  // Acquire, paired with the release addition that follows each new block, so that all blocks up to
  // here are complete.
  const std::uint64_t used = header().used.load(std::memory_order_acquire);
  std::uint64_t at = value_of(header().first_block);
  if (used > size || at < sizeof(counters_header) || at % line_bytes != 0) throw_contradiction();
  while (at < used) {
    if (used - at < sizeof(counter_block)) throw_contradiction();
    const auto* const block = reinterpret_cast<const counter_block*>(data_.get() + at);
    const std::uint32_t bytes = value_of(block->bytes);
    if (bytes < sizeof(counter_block) || bytes % line_bytes != 0 || bytes > used - at) {
      throw_contradiction();
    }
    f(block->kind.load(std::memory_order_relaxed), data_.get() + at, bytes);
    at += bytes;
  }
}

process_counters counter_reader::read() const {
  process_counters made;
  made.process = header().process;
  made.host_process = header().host_process;
  made.host_machine = text_in(header().host_machine);
  made.node = header().node;
  made.unseen = header().unseen.load(std::memory_order_relaxed);
  for_each_block([&](counter_kind kind, const std::byte* at, std::size_t bytes) {
    switch (kind) {
    case counter_kind::caller:
      made.callers.push_back(read_caller(block_as<caller_counters>(at, bytes)));
      break;
    case counter_kind::server:
      made.servers.push_back(read_server(block_as<server_counters>(at, bytes)));
      break;
    case counter_kind::worker:
      made.workers.push_back(read_worker(block_as<worker_counters>(at, bytes), bytes));
      break;
    case counter_kind::thread:
      made.threads.push_back(read_thread(block_as<thread_counters>(at, bytes)));
      break;
    case counter_kind::peer:
      made.peers.push_back(read_peer(block_as<peer_description>(at, bytes)));
      break;
    case counter_kind::functions:
      made.functions = read_names(block_as<function_names>(at, bytes), bytes);
      break;
    case counter_kind::named:
      made.named.push_back(read_named(block_as<function_by_handle>(at, bytes), bytes));
      break;
    default:
      // Skip a block of an unknown kind, which comes from a later version of the library.
      break;
    }
  });
  return made;
}

std::vector<std::uint64_t> counter_reader::running() const {
  std::vector<std::uint64_t> made;
  for_each_block([&](counter_kind kind, const std::byte* at, std::size_t bytes) {
    if (kind == counter_kind::worker) {
      made.push_back(value_of(block_as<worker_counters>(at, bytes).running));
    }
  });
  return made;
}

} // namespace farcall
