#include <farcall/base/error.hpp>
#include <farcall/offload/call.hpp>
#include <farcall/offload/collectives.hpp>
#include <farcall/offload/job_state.hpp>
#include <farcall/offload/memory_handlers.hpp>

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

/// `distance` nodes behind, or before, in the circle of all.
node_id behind(node_id node, std::size_t distance, std::size_t nodes) {
  return static_cast<node_id>((node + distance) % nodes);
}
node_id before(node_id node, std::size_t distance, std::size_t nodes) {
  return static_cast<node_id>((node + nodes - distance) % nodes);
}

} // namespace

/// Runs on the node that a message of a collective is for. Known to other files: see
/// memory_handlers.hpp.
void take_collective(std::uint64_t number, std::uint8_t kind, std::uint32_t round,
                     std::uint32_t from, bytes_sent sent) {
  job_state& job = current_job();
  if (!job.as_equals || kind > static_cast<std::uint8_t>(collective::end)) {
    throw error("a collective of a job of equals has come from " + node_text(from));
  }
  job.as_equals->collectives.take(number, static_cast<collective>(kind), round, from, sent.bytes);
  job.engine->notify_local();
}

// ---- messages -----------------------------------------------------------------------------------

void collectives::take(std::uint64_t number, collective kind, std::uint32_t round, node_id from,
                       std::span<const std::byte> bytes) {
  message m{kind, from, {bytes.begin(), bytes.end()}};
  const std::lock_guard guard(mutex_);
  arrived_[{number, round}] = std::move(m);
}

void collectives::send(job_state& job, node_id to, std::uint32_t round,
                       std::span<const std::byte> bytes, time_point deadline) const {
  const timed_node where{{job, to}, deadline};
  post(where, take_collective, number_, static_cast<std::uint8_t>(kind_), round,
       std::uint32_t{job.members->self()}, bytes_sent{bytes});
}

collectives::message collectives::receive(job_state& job, node_id from, std::uint32_t round,
                                          time_point deadline) {
  struct question {
    collectives& all;
    place at;
    bool has_failed = false;
    decltype(arrived_)::node_type got;

    bool is_answered() {
      {
        const std::lock_guard guard(all.mutex_);
        got = all.arrived_.extract(at);
      }
      // Acquire; partner: the release store in note_failure().
      has_failed = got.empty() && all.failed_.load(std::memory_order_acquire) != no_node;
      return !got.empty() || has_failed;
    }
  } asked{*this, {number_, round}, false, {}};
  const auto ask = [](void* q) noexcept {
    auto& question_ = *static_cast<question*>(q);
    return !question_.got.empty() || question_.is_answered();
  };
  if (!job.engine->wait_until(ask, &asked, true, deadline)) {
    throw timeout(name_of(kind_) + " was not over before its deadline: nothing has come from " +
                      node_text(from),
                  from);
  }
  if (asked.has_failed) {
    const node_id failed = failed_.load(std::memory_order_acquire);
    if (const std::exception_ptr why = job.engine->failure_of(failed)) std::rethrow_exception(why);
    throw node_failed(node_text(failed) + " has failed", failed);
  }
  message m = std::move(asked.got.mapped());
  if (m.kind != kind_) {
    throw error("the nodes call different collectives: this one, " +
                node_text(job.members->self()) + ", is in " + name_of(kind_) + ", and " +
                node_text(from) + " in " + name_of(m.kind) +
                "; all call the same ones in the same order");
  }
  return m;
}

// ---- collectives --------------------------------------------------------------------------------

void collectives::begin(collective kind) {
  if (!why_broken_.empty()) {
    throw error("a job of equals can have no more collectives once one has failed: " + why_broken_);
  }
  kind_ = kind;
  ++number_;
}

template <class Body>
void collectives::run(collective kind, const Body& body) {
  begin(kind);
  try {
    body();
  } catch (const node_failed& e) {
    // The next one says so, too: the node is gone.
    throw;
  } catch (const std::exception& e) {
    why_broken_ = e.what();
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
  run(collective::barrier, [&] { disseminate(job, deadline); });
}

void collectives::end(job_state& job) {
  run(collective::end, [&] { disseminate(job, no_deadline); });
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
  run(collective::all_gather, [&] {
    // Of this node, of the one before it, and so on backwards: what comes is appended, and stands
    // in the right order but for where it begins.
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
    throw error("broadcast(): there is no node " + std::to_string(root) + ": the job has " +
                std::to_string(nodes) + " nodes");
  }
  run(collective::broadcast, [&] {
    // Its place in the tree: what it lacks of the next power of two is its parent's, and the
    // smaller powers lead to its children.
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
