// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/async/shared_future.hpp>
#include <farcall/base/error.hpp>
#include <farcall/copy/copy_state.hpp>
#include <farcall/copy/emulated_rma.hpp>
#include <farcall/copy/memory_handlers.hpp>
#include <farcall/memory/access_check.hpp>
#include <farcall/memory/copy.hpp>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace farcall::detail {
namespace {

/// Most pieces of a copy in flight at a time.
constexpr std::size_t call_pieces_in_flight = 8;

/// Records a call of an emulated put that has ended early, for instance at its deadline. The call
/// may change memory of the peer until its reply arrives, so later operations must wait for it.
/// Throws std::bad_alloc.
void add_late_put(const transfer& t, future<void> call) {
  const shared_future<void> shared = call.share();
  t.copies->late_puts.add({t.peer, nullptr, t.there, t.there + t.bytes},
                          static_cast<am::local_completion&>(*future_access::state(shared)));
}

/// A block of this node's heap into which a peer writes. It is shared by the get and by the
/// continuations of its calls, so that the block is released only after the last write.
class staging_block {
 public:
  staging_block(const copy_state& copies, std::size_t bytes)
      : heap_(&copies.engine().heap()), data_(heap_->allocate(bytes, line_bytes)) {}
  staging_block(const staging_block&) = delete;
  staging_block& operator=(const staging_block&) = delete;
  ~staging_block() { (void)heap_->release(data_); }

  [[nodiscard]] std::byte* data() const noexcept { return data_; }

 private:
  shared_heap* heap_;
  std::byte* data_;
};

/// Makes a get from a peer that can write into this node's heap, because both are on one machine.
/// The peer copies pieces into the heap while this thread copies earlier pieces from the heap to
/// their destination. Throws out_of_memory if the heap has no space, and what the calls throw.
void staged_get(const transfer& t, const timed_node& peer) {
  constexpr std::size_t longest = std::size_t{256} << 10;
  constexpr std::size_t shortest = std::size_t{32} << 10;
  const std::size_t piece_bytes =
      std::clamp(t.bytes / call_pieces_in_flight, shortest, longest) / line_bytes * line_bytes;
  const auto block =
      std::make_shared<staging_block>(*t.copies, piece_bytes * call_pieces_in_flight);
  struct piece {
    future<void> written;
    std::size_t offset;
    std::size_t bytes;
    const std::byte* at;
  };
  std::deque<piece> under_way;
  const auto take_one = [&] {
    under_way.front().written.get();
    copy_bytes(t.here + under_way.front().offset, under_way.front().at, under_way.front().bytes);
    under_way.pop_front();
  };
  try {
    for (std::size_t done = 0, n = 0; done < t.bytes; done += piece_bytes, ++n) {
      if (under_way.size() == call_pieces_in_flight) take_one();
      const std::size_t bytes = std::min(piece_bytes, t.bytes - done);
      std::byte* const at = block->data() + n % call_pieces_in_flight * piece_bytes;
      under_way.push_back({async(peer, fn<&read_into>, t.there + done, std::uint64_t{bytes},
                                 own_id(), std::uint64_t{reinterpret_cast<std::uintptr_t>(at)}),
                           done, bytes, at});
    }
    while (!under_way.empty())
      take_one();
  } catch (...) {
    // If one piece has failed, the peer may still write the other pieces. Keep the block until all
    // calls have ended.
    for (piece& p : under_way) {
      if (p.written.valid())
        static_cast<void>(p.written.then([block](const future<void>& /*over*/) {}));
    }
    throw;
  }
}

} // namespace

std::exception_ptr transfer::lateness() const noexcept {
  try {
    throw timeout("a copy of " + std::to_string(bytes) + " bytes " + (is_put ? "to " : "from ") +
                      node_text(peer) + " was not done by its deadline; a part of them may be",
                  peer);
  } catch (...) {
    return std::current_exception();
  }
}

namespace {

void by_calls(const transfer& t) {
  const timed_node peer(node(t.copies->job, t.peer), t.deadline);
  const std::size_t piece_bytes = piece_of(t.copies->engine().lane_to(t.peer, t.deadline));
  if (t.is_put) {
    std::deque<future<void>> under_way;
    try {
      for (std::size_t done = 0; done < t.bytes; done += piece_bytes) {
        const std::size_t n = std::min(piece_bytes, t.bytes - done);
        if (under_way.size() == call_pieces_in_flight) {
          under_way.front().get();
          under_way.pop_front();
        }
        under_way.push_back(
            async(peer, fn<&write_here>, t.there + done, bytes_sent{{t.here + done, n}}));
      }
      for (; !under_way.empty(); under_way.pop_front())
        under_way.front().get();
    } catch (...) {
      // If one call has failed, the other calls may still write, so record them. The first future
      // may be empty, because get() has taken its result.
      for (future<void>& f : under_way) {
        if (f.valid()) add_late_put(t, std::move(f));
      }
      throw;
    }
    return;
  }
  if (t.end == copy_end::machine) {
    try {
      staged_get(t, peer);
      return;
    } catch (const out_of_memory&) {
      // This node's heap has no space for the block of the staged get. Go on with the calls below,
      // which need less space in the heap.
    }
  }
  struct piece {
    future<bytes_read> bytes;
    std::byte* to;
    std::size_t size;
  };
  std::deque<piece> under_way;
  const auto take_one = [&] {
    const std::vector<std::byte> got = under_way.front().bytes.get().bytes;
    if (got.size() != under_way.front().size) throw malformed_message("a get came back short");
    std::memcpy(under_way.front().to, got.data(), got.size());
    under_way.pop_front();
  };
  for (std::size_t done = 0; done < t.bytes; done += piece_bytes) {
    const std::size_t n = std::min(piece_bytes, t.bytes - done);
    if (under_way.size() == call_pieces_in_flight) take_one();
    under_way.push_back({async(peer, fn<&read_here>, t.there + done, n), t.here + done, n});
  }
  while (!under_way.empty())
    take_one();
}

/// Checks the caller's memory on this node, so that a wrong address is an error and not a fault.
/// Cross-memory attach would check the address, but here the CPU copies. Throws error if the memory
/// does not exist, or may not be accessed.
void require_memory_here(const transfer& t) {
  access_check check;
  if (t.is_put ? check.can_read(t.here, t.bytes) : check.can_write(t.here, t.bytes)) return;
  throw_not_there(reinterpret_cast<std::uintptr_t>(t.here), t.bytes,
                  t.is_put ? "read" : "written to");
}

} // namespace

void emulated_rma(const transfer& t, copy_way way) {
  if (t.end == copy_end::machine) require_memory_here(t);
  if (way != copy_way::by_ring) {
    by_calls(t);
    return;
  }
  const pipelined_copies::other_way other{[&t](offered_copy::chunk k) {
                                            by_calls(t.part(k.offset, k.bytes));
                                            return true;
                                          },
                                          std::uint64_t{1} << 20, true};
  const auto [is_made, is_helped] =
      t.copies->pipelined.make(t.peer,
                               {.ours = reinterpret_cast<std::uintptr_t>(t.here),
                                .theirs = t.there,
                                .bytes = t.bytes,
                                .is_put = t.is_put},
                               other);
  if (is_made) return;
  if (const std::exception_ptr why = t.copies->engine().failure_of(t.peer))
    std::rethrow_exception(why);
  by_calls(t);
}

} // namespace farcall::detail
