// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/call.hpp>
#include <farcall/base/error.hpp>
#include <farcall/copy/memory_handlers.hpp>
#include <farcall/offload/collectives.hpp>
#include <farcall/offload/job_state.hpp>

#include <algorithm>
#include <cstring>
#include <string>

namespace farcall::detail {
namespace {

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
  }
  return "something else";
}

/// The nodes form a circle in the order of their numbers. These functions return the node that
/// comes `distance` places after `node`, or before it.
node_id behind(node_id node, std::size_t distance, std::size_t nodes) {
  return static_cast<node_id>((node + distance) % nodes);
}
node_id before(node_id node, std::size_t distance, std::size_t nodes) {
  return static_cast<node_id>((node + nodes - distance) % nodes);
}

} // namespace

/// Handler of the messages that collectives send. Other files repeat this declaration;
/// memory_handlers.hpp gives the reason.
void take_collective(collectives::label of, bytes_sent sent) {
  job_state& job = current_job();
  if (!job.as_equals || of.kind > collective::end) {
    throw error("a collective of a job of equals has come from " + node_text(of.from), of.from);
  }
  job.as_equals->collectives.take(of, sent.bytes);
  job.engine->waiter().notify();
}

// ---- messages -----------------------------------------------------------------------------------

void collectives::take(const label& of, std::span<const std::byte> bytes) {
  message m{of, {bytes.begin(), bytes.end()}};
  const std::lock_guard guard(mutex_);
  arrived_[{of.number, of.round}] = std::move(m);
}

void collectives::send(job_state& job, node_id to, std::uint32_t round,
                       std::span<const std::byte> bytes, time_point deadline) const {
  const timed_node where{{job, to}, deadline};
  label of = present_;
  of.from = job.members->self();
  of.round = round;
  post(where, fn<&take_collective>, of, bytes_sent{bytes});
}

collectives::message collectives::receive(job_state& job, node_id from, std::uint32_t round,
                                          time_point deadline) {
  struct question {
    collectives& all;
    place at;
    bool has_failed = false;
    decltype(arrived_)::node_type got;

    bool has_reply() {
      {
        const std::lock_guard guard(all.mutex_);
        got = all.arrived_.extract(at);
      }
      has_failed = got.empty() && all.has_failed();
      return !got.empty() || has_failed;
    }
  } asked{*this, {present_.number, round}, false, {}};
  const auto ask = [](void* q) noexcept {
    auto& it = *static_cast<question*>(q);
    return !it.got.empty() || it.has_reply();
  };
  if (!job.engine->waiter().wait_until(ask, &asked, true, deadline)) {
    throw timeout(name_of(present_.kind) +
                      " was not over before its deadline: nothing has come from " + node_text(from),
                  from);
  }
  if (asked.has_failed) {
    const node_id failed = failed_.load(std::memory_order_acquire);
    if (const std::exception_ptr why = job.engine->failure_of(failed)) std::rethrow_exception(why);
    throw node_failed(node_text(failed) + " has failed", failed);
  }
  message m = std::move(asked.got.mapped());
  require_same(job, m.of);
  if (m.of.from != from) {
    throw error("a message of " + name_of(present_.kind) + " has come from " +
                node_text(m.of.from) + ", and not from " + node_text(from));
  }
  return m;
}

void collectives::require_same(const job_state& job, const label& of) const {
  const std::string here = "this one, " + node_text(job.members->self()) + ", ";
  if (of.number == present_.number && of.kind != present_.kind) {
    throw error("the nodes call different collectives: " + here + "is in " +
                name_of(present_.kind) + ", and " + node_text(of.from) + " in " + name_of(of.kind) +
                "; all call the same ones in the same order");
  }
  if (of.number == present_.number && of.root != present_.root) {
    throw error("the nodes name different roots of a broadcast: " + here + "names " +
                node_text(present_.root) + ", and " + node_text(of.from) + " names " +
                node_text(of.root) + "; all name the same one");
  }
  if (of.number != present_.number || (of.history != present_.history && !has_failed())) {
    throw error("the nodes have called different collectives before: " + here + "is in " +
                name_of(present_.kind) + ", and what " + node_text(of.from) +
                " has called does not fit; all call the same ones in the same order, and name the "
                "same roots of broadcasts");
  }
}

void collectives::require_all_taken(const job_state& job) {
  label left;
  {
    const std::lock_guard guard(mutex_);
    // The map is sorted by the numbers of the collectives, so that its first message belongs to the
    // oldest one. A message of a later collective may wait here.
    if (arrived_.empty() || arrived_.begin()->first.first > present_.number) return;
    left = arrived_.begin()->second.of;
  }
  // If a node has failed, accept messages that were not taken, because a collective that fails in
  // the middle may leave some of its messages.
  if (has_failed()) return;
  require_same(job, left);
  throw error("a second message of " + name_of(present_.kind) + " has come from " +
              node_text(left.from));
}

// ---- collectives --------------------------------------------------------------------------------

void collectives::begin(collective kind, node_id root) {
  if (!why_broken_.empty()) {
    throw error("a job of equals can have no more collectives once one has failed: " + why_broken_);
  }
  ++present_.number;
  present_.kind = kind;
  present_.root = root;
  // FNV-1a.
  for (const std::uint64_t part : {std::uint64_t{root}, static_cast<std::uint64_t>(kind)})
    present_.history = (present_.history ^ part) * 0x100000001b3;
}

template <class Body>
void collectives::run(job_state& job, collective kind, node_id root, const Body& body) {
  begin(kind, root);
  try {
    body();
    require_all_taken(job);
  } catch (const node_failed& e) {
    // Do not store the failure of a node in why_broken_, because the next collective throws
    // node_failed in any case.
    throw;
  } catch (const std::exception& e) {
    why_broken_ = exception_text(e);
    throw;
  }
}

void collectives::disseminate(job_state& job, time_point deadline) {
  const std::size_t nodes = job.members->nodes();
  const node_id self = job.members->self();
  std::uint32_t round = 0;
  for (std::size_t distance = 1; distance < nodes; distance *= 2, ++round) {
    send(job, behind(self, distance, nodes), round, {}, deadline);
    (void)receive(job, before(self, distance, nodes), round, deadline);
  }
}

void collectives::barrier(job_state& job, time_point deadline) {
  run(job, collective::barrier, no_node, [&] { disseminate(job, deadline); });
}

void collectives::end(job_state& job) {
  run(job, collective::end, no_node, [&] { disseminate(job, no_deadline); });
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
  run(job, collective::all_gather, no_node, [&] {
    // `got` contains the bytes of this node, then the bytes of the node before it in the circle,
    // and so on backwards. Each received message continues this sequence, so that its bytes are
    // simply appended. The last loop brings all bytes into the order of the node numbers.
    std::vector<std::byte> got(mine.begin(), mine.end());
    got.reserve(all.size());
    std::uint32_t round = 0;
    for (std::size_t distance = 1; distance < nodes; distance *= 2, ++round) {
      const std::size_t bytes = std::min(distance, nodes - distance) * each;
      send(job, behind(self, distance, nodes), round, std::span(got).first(bytes), deadline);
      const node_id from = before(self, distance, nodes);
      const message m = receive(job, from, round, deadline);
      if (m.bytes.size() != bytes) {
        throw error("all_gather(): " + node_text(from) + " has sent " +
                    std::to_string(m.bytes.size()) + " bytes, and not " + std::to_string(bytes) +
                    "; all nodes give equally many");
      }
      got.insert(got.end(), m.bytes.begin(), m.bytes.end());
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
  run(job, collective::broadcast, root, [&] {
    // Number of this node in the tree, counted from the root, which has 0. The lowest set bit of
    // `place` is the distance to the parent. The powers of two below this bit are the distances to
    // the children.
    const std::size_t place = (self + nodes - root) % nodes;
    std::size_t distance = 1;
    while (distance < nodes && (place & distance) == 0)
      distance *= 2;
    if (place != 0) {
      const node_id from = before(self, distance, nodes);
      const message m = receive(job, from, 0, deadline);
      if (m.bytes.size() != bytes.size()) {
        throw error("broadcast(): " + node_text(from) + " has sent " +
                    std::to_string(m.bytes.size()) + " bytes, and this node expects " +
                    std::to_string(bytes.size()));
      }
      if (!bytes.empty()) std::memcpy(bytes.data(), m.bytes.data(), bytes.size());
    }
    for (distance /= 2; distance != 0; distance /= 2) {
      if (place + distance < nodes) {
        send(job, behind(self, distance, nodes), 0, bytes, deadline);
      }
    }
  });
}

} // namespace farcall::detail
