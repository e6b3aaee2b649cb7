// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/job_registry.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/job/host_side.hpp>
#include <farcall/job/target_side.hpp>
#include <farcall/offload/job_counters.hpp>
#include <farcall/offload/job_setup.hpp>
#include <farcall/offload/job_trace.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

namespace farcall {
namespace {

/// On a host, and in a job of equals: the maximum time for which a thread that runs handlers polls
/// for the next request before it sleeps. A target that has got the result of a call sends its next
/// request within about this time.
constexpr std::chrono::nanoseconds max_spin_of_hosts = std::chrono::microseconds(50);

/// Writes to the log by which transport the host reaches another node. Writes one line for each
/// node.
void log_route(const card& c, const route& r) {
  if (!log::enabled(log::level::info)) return;
  std::string line = node_text(c.id);
  if (c.name != line) line += " (" + c.name + ")";
  line += ", process " + std::to_string(c.pid) + " on " + c.host + ", ";
  line += r.via == nullptr ? "has no route" : "is reached by " + std::string(r.via->scheme());
  log::info(line + ": " + r.reason);
}

} // namespace

program_identity detail::identity() {
  return {program_image::instance().build(), function_registry::instance().digest()};
}

void detail::take_in(job_state& state, const card& c, const route& r) {
  const node_id self = state.members->self();
  if (self == host_id && c.id != self) log_route(c, r);
  state.functions->add(c, r.via);
  describe_peer(state, c, r);
  if (r.via == nullptr) {
    state.engine->peers().set_unreachable(c.id, r.reason);
  } else {
    state.engine->peers().set_route(c.id, *r.via, c.workers);
  }
}

void detail::set_up(job_state& state, const forwarded_settings& forwarded, bool progresses,
                    first_worker first) {
  if (forwarded.are_equals) {
    state.as_equals = std::make_unique<equals>();
    state.as_equals->stop_timeout = forwarded.stop_timeout;
  }
  const members& m = *state.members;
  const wait_policy& waiting = forwarded.waiting;
  state.copies->release_timeout = forwarded.release_timeout;
  state.context.job = static_cast<job_core*>(&state);
  state.context.messages = &state.messages;
  state.mark = forwarded.job_mark;

  am::engine_options o;
  o.self = m.self();
  o.nodes = m.capacity();
  o.meet = [&m](node_id node, time_point deadline) { m.meet(node, deadline); };
  o.workers = m.card_of(m.self()).workers;
  if (first == first_worker::pulled) {
    // Add a worker, which is the home of no lane, and helps while no thread acts as the first one.
    o.first_is_pulled = true;
    ++o.workers;
  }
  o.waiting = waiting;
  o.has_one_worker = forwarded.are_equals;
  // Only in a job of equals, report each lane whose connection was lost. In a plain job this is not
  // needed: the host waits for the ends of targets, and calls that wait for a reply fail without
  // this report.
  if (forwarded.are_equals) {
    o.lane_lost = [&state](node_id node) {
      state.on_side([node](auto& side) { side.note_lost_lane(node); });
    };
  }
  // On a host, and in a job of equals, let worker threads spin for a shorter time, because the
  // program's own code needs the processors.
  if (m.self() == host_id || forwarded.are_equals) {
    o.waiting_of_workers = {std::min(waiting.spin, max_spin_of_hosts), waiting.yield_after};
  }
  o.progresses = progresses;
  o.handlers = key_resolver::handlers();
  o.doorbells = m.doorbells();
  o.heap = m.heap();
  o.context = &state.context;
  o.counters = state.counters = make_counters(m);
  if (forwarded.is_traced && !state.trace) state.trace = job_trace::on_target();
  if (state.trace) o.recorder = &state.trace->recorder();
  state.engine = std::make_shared<am::engine>(std::move(o));
  state.client = state.engine.get();

  state.functions = std::make_unique<key_resolver>(m.capacity());
  state.context.functions = state.functions.get();
  for (const node_id node : m.known_nodes()) {
    // A node without a process (a device) can be called only from the process in which it lives, so
    // that here it has no route. This is no error.
    if (m.route_to(node).via == nullptr && !is_hosted(m.card_of(node))) {
      throw start_failed(node_text(node) + " cannot be reached: " + m.route_to(node).reason, node);
    }
    take_in(state, m.card_of(node), m.route_to(node));
  }
  for (transport* t : m.transports())
    state.engine->acceptor().listen(*t);
  job_registry::instance().add(&state);
  if (state.trace) state.trace->start(state);
}

} // namespace farcall
