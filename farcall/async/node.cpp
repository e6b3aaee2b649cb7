// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/async/job_registry.hpp>
#include <farcall/async/node.hpp>
#include <farcall/base/error.hpp>
#include <farcall/job/members.hpp>

#include <string>

namespace farcall {
namespace detail {

constinit std::atomic<node_id> process_node{host_id};

job_core& find_current_core() {
  if (const call_context* context = current_context()) return *context->job;
  return job_registry::instance().only();
}

am::client* only_client() {
  if (current_context() == nullptr && job_registry::instance().has_none()) return nullptr;
  return usable(current_core()).client;
}

} // namespace detail

bool node::has_job() const noexcept {
  return job_ != nullptr && detail::job_registry::instance().has(job_, job_serial_);
}

node_description node::description() const {
  if (job_ == nullptr) throw error("this node handle belongs to no job");
  const members& members = *detail::usable(*job_).members;
  const card& c = members.card_of(id_);
  const route& route = members.route_to(id_);
  return {c.id,           c.name,
          c.host,         c.pid,
          c.architecture, c.cores,
          c.workers,      route.via != nullptr ? std::string(route.via->scheme()) : "none",
          route.reason};
}

bool node::alive() const {
  if (job_ == nullptr) throw error("this node handle belongs to no job");
  if (!has_job()) {
    if (detail::job_registry::instance().is_in_child()) throw forked();
    return false;
  }
  const detail::job_core& job = detail::usable(*job_);
  const am::engine& engine = am::engine_of(*job.client);
  if (engine.has_failed(id_)) return false;
  if (job.members->knows(id_)) return true;
  try {
    // Contact a node that this process does not know yet, because this process would not have been
    // told of that node's end.
    job.members->meet(id_);
  } catch (const node_failed&) {
    return false;
  }
  return !engine.has_failed(id_);
}

node this_node() {
  detail::job_core& job = detail::usable(detail::current_core());
  return {job, job.members->self()};
}

node host() { return {detail::usable(detail::current_core()), host_id}; }

std::size_t node_count() { return detail::usable(detail::current_core()).members->nodes(); }

node node_at(node_id id) {
  detail::job_core& job = detail::usable(detail::current_core());
  if (!job.members->has(id)) throw error(missing_node_text(id, job.members->nodes()));
  return {job, id};
}

} // namespace farcall
