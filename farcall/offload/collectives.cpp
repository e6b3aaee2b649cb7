// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/interrupt.hpp>
#include <farcall/async/call.hpp>
#include <farcall/base/error.hpp>
#include <farcall/copy/memory_handlers.hpp>
#include <farcall/offload/collectives.hpp>
#include <farcall/offload/incoming.hpp>
#include <farcall/offload/job_state.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

namespace farcall::detail {

std::string name_of(collective kind) {
  switch (kind) {
  case collective::barrier:
    return "a barrier";
  case collective::all_gather:
    return "an all_gather";
  case collective::broadcast:
    return "a broadcast";
  case collective::end:
    return "the end of the job";
  case collective::reduce:
    return "a reduce";
  case collective::all_reduce:
    return "an all_reduce";
  case collective::scan:
    return "a scan";
  }
  return "something else";
}

namespace {

/// Size of the pieces in which long messages are sent, so that the receiver works on one piece
/// while the sender copies the next.
constexpr std::size_t piece_bytes = std::size_t{64} << 10;

/// Longest time for opening the lane by which another node is told of a failure.
constexpr std::chrono::seconds time_to_tell{1};

/// The nodes form a circle in the order of their numbers. These functions return the node that
/// comes `distance` places after `node`, or before it.
node_id behind(node_id node, std::size_t distance, std::size_t nodes) {
  return static_cast<node_id>((node + distance) % nodes);
}
node_id before(node_id node, std::size_t distance, std::size_t nodes) {
  return static_cast<node_id>((node + nodes - distance) % nodes);
}

} // namespace

/// Handlers of the messages that collectives send. Other files repeat these declarations;
/// memory_handlers.hpp gives the reason.
void take_collective(collectives::label of, bytes_sent sent) {
  job_state& job = current_job();
  if (!job.as_equals || of.kind > last_collective) {
    throw error("a collective of a job of equals has come from " + node_text(of.from), of.from);
  }
  job.as_equals->collectives.take(of, sent.bytes);
  job.engine->waiter().notify();
}
void take_label_of_collective(collectives::label of) {
  job_state& job = current_job();
  if (!job.as_equals || of.kind > last_collective) return;
  job.as_equals->collectives.take_label(job, of);
  job.engine->waiter().notify();
}
void take_failed_collective(collectives::label of, bytes_sent why) {
  job_state& job = current_job();
  if (!job.as_equals || of.kind > last_collective) return;
  job.as_equals->collectives.take_failure(of, why.bytes);
  job.engine->waiter().notify();
}

// ---- messages -----------------------------------------------------------------------------------

void collectives::take(const label& of, std::span<const std::byte> bytes) {
  incoming* to = nullptr;
  {
    const std::lock_guard guard(mutex_);
    if (expected_ != nullptr && expected_->claim(of)) {
      to = expected_;
    } else {
      if (expected_ != nullptr) expected_->check(of);
      store(of, bytes);
    }
  }
  if (to != nullptr) to->consume(of, bytes);
}

void collectives::store(const label& of, std::span<const std::byte> bytes) {
  if (spare_.empty()) {
    arrived_[place_of(of)] = {of, {bytes.begin(), bytes.end()}};
    return;
  }
  auto reused = std::move(spare_.back());
  spare_.pop_back();
  reused.key() = place_of(of);
  reused.mapped().of = of;
  reused.mapped().bytes.assign(bytes.begin(), bytes.end());
  arrived_.insert(std::move(reused));
}

void collectives::take_label(job_state& job, const label& of) {
  std::string why;
  {
    const std::lock_guard guard(mutex_);
    if (of.number > present_.number) {
      later_labels_.push_back(of);
      return;
    }
    if (may_be_same(of) || has_failed()) return;
    note_different(of);
    if (expected_ != nullptr) expected_->refuse(job, of);
    why = why_broken_;
  }
  // If this node has failed, all nodes know of it, but as a failure after the collective in which
  // the other node waits.
  if (!why.empty()) tell_failure(job, why);
}

bool collectives::send_label(job_state& job, node_id to) const noexcept {
  label of = present_;
  of.from = job.members->self();
  try {
    const timed_node where{{job, to}, deadline_after(time_to_tell)};
    return try_post(where, fn<&take_label_of_collective>, of);
  } catch (const std::exception&) {
    return true; // the wait for a node that cannot be reached ends otherwise
  }
}

void collectives::take_failure(const label& of, std::span<const std::byte> why) {
  const std::lock_guard guard(mutex_);
  // Relaxed, because the mutex orders the writes.
  if (told_number_.load(std::memory_order_relaxed) <= of.number) return;
  told_of_ = of;
  told_.assign(reinterpret_cast<const char*>(why.data()), why.size());
  // Release, paired with the acquire loads in incoming::wait(), run() and throw_if_failed().
  told_number_.store(of.number, std::memory_order_release);
}

void collectives::throw_if_failed(const job_state& job) {
  if (has_failed()) {
    const node_id failed = failed_.load(std::memory_order_acquire);
    if (const std::exception_ptr why = job.engine->failure_of(failed)) std::rethrow_exception(why);
    throw node_failed(node_text(failed) + " has failed", failed);
  }
  if (!is_told()) return;
  const std::lock_guard guard(mutex_);
  throw error(name_of(told_of_.kind) + " has failed on " + node_text(told_of_.from) + ": " + told_,
              told_of_.from);
}

void collectives::tell_failure(job_state& job, const std::string& why) noexcept {
  label of;
  {
    // Other nodes may still wait in an earlier collective, in which this node had nothing to wait
    // for. A message that is left of that collective, or a label, shows so.
    const std::lock_guard guard(mutex_);
    of = present_;
    if (!arrived_.empty()) of.number = std::min(of.number, arrived_.begin()->second.of.number);
    if (different_) of.number = std::min(of.number, different_->number);
    // Relaxed, because the mutex orders the writes.
    const std::uint64_t known =
        std::min(told_others_, told_number_.load(std::memory_order_relaxed));
    if (of.number >= known) return;
    told_others_ = of.number;
  }
  of.from = job.members->self();
  const auto nodes = static_cast<node_id>(job.members->nodes());
  // The reason may be an interruption, which the program may ask for in each wait.
  const am::uninterruptible all_are_told;
  for (node_id to = 0; to < nodes; ++to) {
    if (to == of.from) continue;
    try {
      // The time limit matters if this node has no lane to the other one yet, and that node does
      // not run.
      const timed_node where{{job, to}, deadline_after(time_to_tell)};
      (void)try_post(where, fn<&take_failed_collective>, of,
                     bytes_sent{std::as_bytes(std::span(why))});
    } catch (const std::exception&) {
      // This node or the node `to` has ended, or there is no lane left. Collectives of the node
      // `to` then end by the failure of a node, or by their time limit.
    }
  }
}

void collectives::fail(job_state& job, const std::string& why) noexcept {
  {
    const std::lock_guard guard(mutex_);
    why_broken_ = why.empty() ? "an exception without a text" : why;
  }
  tell_failure(job, why_broken_);
}

void collectives::send_piece(job_state& job, node_id to, label& of,
                             std::span<const std::byte> bytes, time_point deadline) const {
  const timed_node where{{job, to}, deadline};
  post(where, fn<&take_collective>, of, bytes_sent{bytes});
  ++of.piece;
}

collectives::label collectives::label_of(const job_state& job, std::uint32_t round,
                                         std::size_t bytes) const {
  label of = present_;
  of.from = job.members->self();
  of.round = round;
  of.round_size = bytes;
  return of;
}

std::size_t collectives::piece_of(std::size_t unit) noexcept {
  return unit >= piece_bytes ? unit : piece_bytes - piece_bytes % unit;
}

void collectives::send(job_state& job, node_id to, std::uint32_t round,
                       std::span<const std::byte> bytes, time_point deadline,
                       std::size_t unit) const {
  label of = label_of(job, round, bytes.size());
  const std::size_t piece = piece_of(unit);
  do {
    const auto now = bytes.first(std::min(piece, bytes.size()));
    send_piece(job, to, of, now, deadline);
    bytes = bytes.subspan(now.size());
  } while (!bytes.empty());
}

void collectives::receive(job_state& job, node_id from, std::uint32_t round,
                          std::span<std::byte> bytes, time_point deadline) {
  const auto copy = [](void* to, std::size_t offset, std::span<const std::byte> piece) {
    if (!piece.empty())
      std::memcpy(static_cast<std::byte*>(to) + offset, piece.data(), piece.size());
  };
  incoming in(*this, job, from, round, bytes.size(), {copy, bytes.data()});
  in.wait(bytes.size(), deadline);
}

bool collectives::is_same(const label& of) const noexcept {
  return of.number == present_.number && of.kind == present_.kind && of.root == present_.root &&
         of.size == present_.size && of.operation == present_.operation &&
         of.type == present_.type && of.element_size == present_.element_size &&
         (of.history == present_.history || has_failed());
}

bool collectives::may_be_same(const label& of) const noexcept {
  if (of.number == present_.number) return is_same(of);
  if (of.number > present_.number || present_.number - of.number >= most_histories) return true;
  return of.history == histories_[of.number % most_histories] || has_failed();
}

void collectives::note_different(const label& of) noexcept {
  if (!different_ || of.number < different_->number) different_ = of;
}

void collectives::throw_if_different(const job_state& job) {
  std::optional<label> of;
  {
    const std::lock_guard guard(mutex_);
    of = different_;
  }
  // After the failure of a node, the others may be in different collectives.
  if (of && !has_failed()) throw_different(job, *of);
}

void collectives::throw_different(const job_state& job, const label& of) const {
  const std::string here = "this one, " + node_text(job.members->self()) + ", ";
  const std::string there = node_text(of.from);
  const bool is_same_call = of.number == present_.number;
  if (is_same_call && of.kind != present_.kind) {
    throw error("the nodes call different collectives: " + here + "is in " +
                name_of(present_.kind) + ", and " + there + " in " + name_of(of.kind) +
                "; all call the same ones in the same order");
  }
  if (is_same_call && of.root != present_.root) {
    throw error("the nodes name different roots of " + name_of(of.kind) + ": " + here + "names " +
                node_text(present_.root) + ", and " + there + " names " + node_text(of.root) +
                "; all name the same one");
  }
  if (is_same_call && of.type != present_.type) {
    throw error("the nodes give values of different types to " + name_of(of.kind) + ": " + here +
                "and " + there + "; all give the same type");
  }
  if (is_same_call && of.element_size != present_.element_size) {
    throw error("the nodes give values of different types to " + name_of(of.kind) + ": " + here +
                "gives values of " + std::to_string(present_.element_size) + " bytes, and " +
                there + " of " + std::to_string(of.element_size) + "; all give the same type");
  }
  if (is_same_call && of.size != present_.size) {
    throw error("the nodes give values of different sizes to " + name_of(of.kind) + ": " + here +
                "gives " + std::to_string(present_.size) + " bytes, and " + there + " gives " +
                std::to_string(of.size) + "; all give equally many");
  }
  if (is_same_call && of.operation != present_.operation) {
    throw error("the nodes give " + name_of(of.kind) + " different operations: " + here + "and " +
                there + "; all give the same one");
  }
  throw error("the nodes have called different collectives before: " + here + "is in " +
              name_of(present_.kind) + ", and the calls of " + there +
              " do not fit; all call the same ones in the same order, with the same roots, sizes "
              "and operations");
}

void collectives::require_all_taken(const job_state& job) {
  label left;
  {
    const std::lock_guard guard(mutex_);
    // The map is sorted by the numbers of the collectives, so that its first message belongs to the
    // oldest one. A message of a later collective may wait here.
    if (arrived_.empty() || arrived_.begin()->second.of.number > present_.number) return;
    left = arrived_.begin()->second.of;
  }
  // If a node has failed, accept messages that were not taken, because a collective that fails in
  // the middle may leave some of its messages.
  if (has_failed()) return;
  if (!is_same(left)) throw_different(job, left);
  throw error("a second message of " + name_of(present_.kind) + " has come from " +
              node_text(left.from));
}

// ---- collectives --------------------------------------------------------------------------------

void collectives::begin(const label& as) {
  if (!why_broken_.empty()) {
    throw error("a job of equals can have no more collectives once one has failed: " + why_broken_);
  }
  const std::lock_guard guard(mutex_);
  spare_.reserve(most_spare);
  histories_[present_.number % most_histories] = present_.history;
  const label before = present_;
  present_ = as;
  present_.number = before.number + 1;
  present_.before = before.history;
  present_.history = before.history;
  // FNV-1a.
  for (const std::uint64_t part : {std::uint64_t{as.root}, static_cast<std::uint64_t>(as.kind),
                                   as.size, static_cast<std::uint64_t>(as.operation),
                                   std::uint64_t{as.type}, std::uint64_t{as.element_size}})
    present_.history = (present_.history ^ part) * 0x100000001b3;
  std::erase_if(later_labels_, [&](const label& of) {
    if (of.number > present_.number) return false;
    if (!may_be_same(of)) note_different(of);
    return true;
  });
}

void collectives::disseminate(job_state& job, time_point deadline) {
  const std::size_t nodes = job.members->nodes();
  const node_id self = job.members->self();
  std::uint32_t round = 0;
  for (std::size_t distance = 1; distance < nodes; distance *= 2, ++round) {
    send(job, behind(self, distance, nodes), round, {}, deadline);
    receive(job, before(self, distance, nodes), round, {}, deadline);
  }
}

void collectives::barrier(job_state& job, time_point deadline) {
  run(job, {.kind = collective::barrier}, [&] { disseminate(job, deadline); });
}

void collectives::end(job_state& job) {
  run(job, {.kind = collective::end}, [&] { disseminate(job, no_deadline); });
}

void collectives::all_gather(job_state& job, std::span<const std::byte> mine,
                             std::span<std::byte> all, time_point deadline) {
  const std::size_t nodes = job.members->nodes();
  const node_id self = job.members->self();
  const std::size_t each = mine.size();
  if (all.size() != nodes * each) {
    throw error("all_gather() of " + std::to_string(each) + " bytes from each of " +
                std::to_string(nodes) + " nodes fills " + std::to_string(nodes * each) +
                " bytes, not " + std::to_string(all.size()));
  }
  run(job, {.kind = collective::all_gather}, [&] {
    // `got` contains the bytes of this node, then the bytes of the node before it in the circle,
    // and so on backwards. Each received message continues this sequence. The last loop brings all
    // bytes into the order of the node numbers.
    std::vector<std::byte> got(all.size());
    const std::span space(got);
    std::ranges::copy(mine, got.begin());
    std::uint32_t round = 0;
    for (std::size_t distance = 1; distance < nodes; distance *= 2, ++round) {
      const std::size_t bytes = std::min(distance, nodes - distance) * each;
      send(job, behind(self, distance, nodes), round, space.first(bytes), deadline);
      receive(job, before(self, distance, nodes), round, space.subspan(distance * each, bytes),
              deadline);
    }
    for (std::size_t i = 0; i < nodes && each != 0; ++i) {
      std::memcpy(all.data() + before(self, i, nodes) * each, got.data() + i * each, each);
    }
  });
}

void collectives::broadcast(job_state& job, std::span<std::byte> bytes, node_id root,
                            time_point deadline) {
  const std::size_t nodes = job.members->nodes();
  const node_id self = job.members->self();
  if (root >= nodes) {
    throw error("broadcast(): " + missing_node_text(root, nodes));
  }
  run(job, {.root = root, .kind = collective::broadcast}, [&] {
    // Number of this node in the tree, counted from the root, which has 0. The lowest set bit of
    // `place` is the distance to the parent. The powers of two below this bit are the distances to
    // the children.
    const std::size_t place = (self + nodes - root) % nodes;
    std::size_t distance = 1;
    while (distance < nodes && (place & distance) == 0)
      distance *= 2;
    if (place != 0) receive(job, before(self, distance, nodes), 0, bytes, deadline);
    for (distance /= 2; distance != 0; distance /= 2) {
      if (place + distance < nodes) {
        send(job, behind(self, distance, nodes), 0, bytes, deadline);
      }
    }
  });
}

} // namespace farcall::detail
