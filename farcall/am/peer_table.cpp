// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/message.hpp>
#include <farcall/am/peer_table.hpp>
#include <farcall/base/error.hpp>

#include <chrono>
#include <thread>

namespace farcall::am {
namespace {

/// Longest time from the end of a connection to a node that has ended until this process knows that
/// the node has failed.
constexpr std::chrono::milliseconds detection_delay{250};

} // namespace

void peer_table::set_route(node_id node, transport& t, std::uint32_t workers) {
  peer& p = *peers_.find_or_make(node);
  p.via = &t;
  p.workers = workers;
  // Release, paired with the acquire load in known(), so that the route is visible there.
  p.is_known.store(true, std::memory_order_release);
}

void peer_table::set_unreachable(node_id node, const std::string& why) {
  peer& p = *peers_.find_or_make(node);
  p.why_unreachable = why;
  // Release, paired with the acquire load in known(), so that the text of the reason is visible
  // there.
  p.is_known.store(true, std::memory_order_release);
}

void peer_table::throw_unreachable(node_id node) const {
  if (const peer* const p = known(node); p != nullptr && !p->why_unreachable.empty()) {
    throw error("there is no way to " + node_text(node) + " from " + node_text(self_) + ": " +
                    p->why_unreachable,
                node);
  }
  if (node == no_node) throw error(missing_node_text(node, nodes()), node);
  throw error("there is no way to " + node_text(node) + ": the job has no such node", node);
}

peer_route peer_table::reach(node_id node, time_point deadline) {
  if (known(node) == nullptr) {
    if (const std::exception_ptr why = failure_of(node)) std::rethrow_exception(why);
    if (meet_ && deadline == without_waiting) {
      throw timeout(node_text(self_) + " and " + node_text(node) +
                        " do not know each other yet; a call that waits introduces them",
                    node);
    }
    if (meet_) meet_(node, deadline);
  }
  const peer* const p = known(node);
  if (p == nullptr || p->via == nullptr) throw_unreachable(node);
  // Acquire, paired with the release store in refuse(), so that why_refused is visible.
  if (p->refuses.load(std::memory_order_acquire)) std::rethrow_exception(p->why_refused);
  return {p->via, p->workers};
}

farcall::rma_engine* peer_table::rma_engine_for(node_id node) const noexcept {
  const peer* const p = known(node);
  return p != nullptr && p->via != nullptr ? p->via->rma_engine() : nullptr;
}

remote_bytes peer_table::read_remote(node_id node, std::uint64_t address, std::uint64_t bytes) {
  if (address % rendezvous_alignment != 0) {
    throw malformed_message(node_text(node) + " names bytes at an odd address");
  }
  if (node == self_) return {reinterpret_cast<const std::byte*>(address), nullptr, nullptr};
  // Introduce the node if it is unknown, because a peer may call this node before this node knows
  // the peer.
  if (known(node) == nullptr && meet_) meet_(node, no_deadline);
  farcall::rma_engine* m = rma_engine_for(node);
  if (m == nullptr) throw error("no memory can be read from " + node_text(node), node);
  if (held_bytes mapped = m->map(node, address, bytes); mapped.here != nullptr)
    return {mapped.here, nullptr, std::move(mapped.owner)};
  remote_bytes read;
  // Do not initialise the memory. If the peer has sent a false, large length, the copy ends with an
  // error at the end of the peer's memory. Only the pages that were filled by then have cost
  // memory.
  read.copy = std::make_unique_for_overwrite<std::byte[]>(bytes);
  read.data = read.copy.get();
  if (!m->get(node, address, read.copy.get(), bytes, no_deadline)) {
    const std::string what = std::to_string(bytes) + " bytes";
    const std::string why = m->failure(node, address, bytes);
    const std::exception_ptr dead = why.empty() ? failure_of(node) : await_failure_of(node);
    if (dead) std::rethrow_exception(dead);
    if (why.empty()) {
      throw malformed_message(node_text(node) + " names " + what + " that cannot be read there");
    }
    throw error("long arguments or results, " + what + ", could not be fetched from " +
                    node_text(node) + ": " + why,
                node);
  }
  return read;
}

void peer_table::end_copies_of(node_id node) const noexcept {
  const peer* const p = known(node);
  if (p != nullptr && p->via != nullptr) p->via->note_failure(node);
}

bool peer_table::mark_failed(node_id node, peer& p, const std::string& why) {
  if (p.failed.load(std::memory_order_relaxed)) return false;
  p.why = std::make_exception_ptr(node_failed(why, node));
  // Release, paired with the acquire load in has_failed(), so that the reason `why` is visible
  // there.
  p.failed.store(true, std::memory_order_release);
  return true;
}

std::vector<node_id> peer_table::fail(node_id node, const std::string& why) {
  peer* const p = peers_.find_or_make(node);
  std::vector<node_id> failing;
  const std::lock_guard guard(mutex_);
  if (p != nullptr && mark_failed(node, *p, why)) failing.push_back(node);
  return failing;
}

std::vector<node_id> peer_table::fail_all(const std::string& why) {
  std::vector<node_id> failing;
  const std::lock_guard guard(mutex_);
  peers_.for_each([&](node_id node, peer& p) {
    if (mark_failed(node, p, why)) failing.push_back(node);
  });
  return failing;
}

bool peer_table::has_failed(node_id node) const noexcept {
  const std::atomic<bool>* const failed = failed_flag(node);
  // Acquire, paired with the release store in mark_failed(). The reason `why` never changes after
  // that store.
  return failed != nullptr && failed->load(std::memory_order_acquire);
}

const std::atomic<bool>* peer_table::failed_flag(node_id node) const noexcept {
  const peer* const p = peers_.find(node);
  return p != nullptr ? &p->failed : nullptr;
}

std::exception_ptr peer_table::failure_of(node_id node) const noexcept {
  return has_failed(node) ? peers_.find(node)->why : nullptr;
}

std::exception_ptr peer_table::await_failure_of(node_id node) const {
  const time_point latest = clock::now() + detection_delay;
  while (!has_failed(node) && clock::now() < latest)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return failure_of(node);
}

bool peer_table::refuse(node_id node, const std::string& why) {
  peer* const p = known(node);
  const std::lock_guard guard(mutex_);
  if (p == nullptr || p->refuses.load(std::memory_order_relaxed)) return false;
  p->why_refused = std::make_exception_ptr(node_failed(why, node));
  // Release, paired with the acquire load in reach(), so that why_refused is visible there.
  p->refuses.store(true, std::memory_order_release);
  return true;
}

bool peer_table::is_refused(node_id node) const noexcept {
  const peer* const p = peers_.find(node);
  // Acquire, paired with the release store in refuse(), as in reach().
  return p != nullptr && p->refuses.load(std::memory_order_acquire);
}

} // namespace farcall::am
