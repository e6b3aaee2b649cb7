// SPDX-License-Identifier: Apache-2.0
#include <farcall/memory/counter_segment.hpp>

#include <algorithm>
#include <cstring>
#include <new>
#include <span>

#include <unistd.h>

namespace farcall {
namespace {

/// Size of a segment. Enough for some 20,000 lanes; the system provides pages when they are first
/// used.
constexpr std::size_t counters_bytes = std::size_t{16} << 20;

void copy_text(std::span<char> to, std::string_view from) noexcept {
  std::copy_n(from.data(), std::min(from.size(), to.size() - 1), to.data());
}

constexpr auto fill_nothing = [](const auto& /*block*/) {};

} // namespace

void counter_segment::free_memory::operator()(std::byte* at) const noexcept {
  ::operator delete(at, std::align_val_t(line_bytes));
}

counter_segment::counter_segment(const counters_owner& owner)
    : memory_(segment::create(label, counters_bytes)) {
  auto* const h = new (memory_.data()) counters_header;
  h->version = counters_header::right_version;
  h->first_block = sizeof(counters_header);
  h->process = ::getpid();
  h->host_process = owner.host_process;
  h->node = owner.node;
  copy_text(h->host_machine, owner.host_machine);
  h->used.store(h->first_block, std::memory_order_relaxed);
  h->magic = counters_header::right_magic;
}

counter_segment::~counter_segment() = default;

std::byte* counter_segment::allocate(std::size_t bytes) {
  if (memory_) {
    // Relaxed, because the value changes only while the mutex is held, which this thread holds.
    const std::uint64_t used = header().used.load(std::memory_order_relaxed);
    if (bytes <= memory_.size() - used) return memory_.data() + used;
    header().unseen.fetch_add(1, std::memory_order_relaxed);
  }
  if (outside_.size() == outside_.capacity()) outside_.reserve(2 * outside_.size() + 1);
  auto* const at = static_cast<std::byte*>(::operator new(bytes, std::align_val_t(line_bytes)));
  std::memset(at, 0, bytes);
  outside_.emplace_back(at);
  return at;
}

template <class Block, class Fill>
Block& counter_segment::make(counter_kind kind, std::uint32_t number, std::size_t bytes,
                             const Fill& fill) {
  bytes = align_up(bytes, line_bytes);
  std::byte* const at = allocate(bytes);
  auto* const made = new (at) Block;
  made->block.bytes = static_cast<std::uint32_t>(bytes);
  made->block.number = number;
  made->block.in_use.store(1, std::memory_order_relaxed);
  fill(*made);
  made->block.kind.store(kind, std::memory_order_relaxed);
  if (memory_ && at == memory_.data() + header().used.load(std::memory_order_relaxed)) {
    // Release, paired with the acquire load in counter_reader, which then finds the block complete.
    header().used.fetch_add(bytes, std::memory_order_release);
  }
  return *made;
}

template <class Block, class Fill>
Block& counter_segment::take(counter_kind kind, std::uint32_t number, std::size_t bytes,
                             const Fill& fill) {
  const std::lock_guard guard(mutex_);
  // Acquire, paired with the release addition in give_back(). The count is zero in most cases, in
  // which the search is skipped.
  if (given_back_.load(std::memory_order_acquire) != 0) {
    for (counter_block* const b : blocks_) {
      // Acquire, paired with the release store in give_back(), so that the counts of the block's
      // last user are visible.
      if (b->kind.load(std::memory_order_relaxed) != kind || b->number != number ||
          b->bytes != align_up(bytes, line_bytes) ||
          b->in_use.load(std::memory_order_acquire) != 0) {
        continue;
      }
      b->in_use.store(1, std::memory_order_relaxed);
      given_back_.fetch_sub(1, std::memory_order_relaxed);
      return *reinterpret_cast<Block*>(b);
    }
  }
  if (blocks_.size() == blocks_.capacity()) blocks_.reserve(2 * blocks_.size() + 1);
  Block& made = make<Block>(kind, number, bytes, fill);
  blocks_.push_back(&made.block);
  return made;
}

caller_counters& counter_segment::take_caller(node_id peer) {
  return take<caller_counters>(counter_kind::caller, peer, sizeof(caller_counters), fill_nothing);
}

server_counters& counter_segment::take_server(node_id peer) {
  return take<server_counters>(counter_kind::server, peer, sizeof(server_counters), fill_nothing);
}

worker_counters& counter_segment::take_worker(std::uint32_t index, std::size_t handlers) {
  return take<worker_counters>(counter_kind::worker, index,
                               sizeof(worker_counters) + handlers * sizeof(std::uint64_t),
                               [handlers](worker_counters& w) { w.handlers = handlers; });
}

thread_counters& counter_segment::take_thread() {
  return take<thread_counters>(counter_kind::thread, 0, sizeof(thread_counters), fill_nothing);
}

void counter_segment::give_back(counter_block& block) noexcept {
  // Release, paired with the acquire loads in take(), so that the block's next user sees its
  // counts.
  block.in_use.store(0, std::memory_order_release);
  given_back_.fetch_add(1, std::memory_order_release);
}

void counter_segment::describe_peer(node_id peer, std::int64_t process, std::uint32_t workers,
                                    std::string_view route, std::string_view machine,
                                    std::string_view name, std::string_view server) {
  const std::lock_guard guard(mutex_);
  (void)make<peer_description>(counter_kind::peer, peer, sizeof(peer_description),
                               [&](peer_description& p) {
                                 p.process = process;
                                 p.workers = workers;
                                 copy_text(p.route, route);
                                 copy_text(p.machine, machine);
                                 copy_text(p.name, name);
                                 copy_text(p.server, server);
                               });
}

void counter_segment::name_functions(const std::vector<std::string>& names) {
  std::size_t bytes = sizeof(function_names);
  for (const std::string& name : names)
    bytes += name.size() + 1;
  const std::lock_guard guard(mutex_);
  (void)make<function_names>(counter_kind::functions, static_cast<std::uint32_t>(names.size()),
                             bytes, [&](function_names& block) {
                               auto* to = reinterpret_cast<char*>(&block) + sizeof(function_names);
                               for (const std::string& name : names) {
                                 to = std::copy(name.begin(), name.end(), to);
                                 *to++ = '\0';
                               }
                             });
}

void counter_segment::name_function(std::string_view handler, std::uint32_t handle,
                                    std::string_view name) {
  const std::size_t bytes = sizeof(function_by_handle) + handler.size() + 1 + name.size() + 1;
  const std::lock_guard guard(mutex_);
  (void)make<function_by_handle>(counter_kind::named, handle, bytes,
                                 [&](function_by_handle& block) {
                                   auto* to = reinterpret_cast<char*>(&block) + sizeof block;
                                   to = std::copy(handler.begin(), handler.end(), to);
                                   *to++ = '\0';
                                   to = std::copy(name.begin(), name.end(), to);
                                   *to = '\0';
                                 });
}

} // namespace farcall
