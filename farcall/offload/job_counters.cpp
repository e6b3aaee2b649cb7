// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/memory/counter_reader.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/offload/job_counters.hpp>
#include <farcall/offload/job_state.hpp>

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

namespace farcall {
namespace {

/// Returns the handlers' names by key, from am::first_user_key on.
std::vector<std::string> handler_names() {
  std::vector<std::string> names(key_resolver::first_row_key - am::first_user_key);
  for (const function_registry::row& r : function_registry::instance().rows())
    names.push_back(r.name);
  return names;
}

/// The functions that name_in_counters() has named, and the counters that shall have the names.
struct named_functions {
  struct counters_of_job {
    std::weak_ptr<counter_segment> segment;
    pid_t process = ::getpid();
  };
  std::mutex mutex;
  std::vector<process_counters::named_function> all;
  std::vector<counters_of_job> counters;

  static named_functions& instance() {
    // The object is never destroyed, because destructors of static objects may still name
    // functions.
    static auto* const one = new named_functions;
    return *one;
  }

  void add(const process_counters::named_function& f) {
    const std::lock_guard guard(mutex);
    all.push_back(f);
    for (const counters_of_job& each : counters) {
      // The child of a fork must not write to the counters of its parent.
      const auto segment = each.process == ::getpid() ? each.segment.lock() : nullptr;
      if (segment) segment->name_function(f.handler, f.handle, f.name);
    }
  }

  void add(const std::shared_ptr<counter_segment>& of_job) {
    const std::lock_guard guard(mutex);
    std::erase_if(counters, [](const auto& each) { return each.segment.expired(); });
    for (const process_counters::named_function& f : all)
      of_job->name_function(f.handler, f.handle, f.name);
    counters.push_back({of_job});
  }
};

} // namespace

std::shared_ptr<counter_segment> detail::make_counters(const members& members) {
  counters_owner owner{members.self(), 0, ""};
  if (members.knows(host_id)) {
    owner.host_process = static_cast<std::int64_t>(members.card_of(host_id).pid);
    owner.host_machine = members.card_of(host_id).host;
  }
  try {
    auto made = std::make_shared<counter_segment>(owner);
    made->name_functions(handler_names());
    named_functions::instance().add(made);
    return made;
  } catch (const error& e) {
    log::info(std::string("what this process counts cannot be read: ") + e.what());
    return nullptr;
  }
}

void detail::name_in_counters(const std::string& handler, std::uint32_t handle,
                              const std::string& name) noexcept {
  try {
    named_functions::instance().add({handler, handle, name});
  } catch (const std::exception&) {
    // Without memory, tools show the handler's own name.
    return;
  }
}

void detail::describe_peer(job_state& state, const card& c, const route& r) {
  if (!state.counters) return;
  state.counters->describe_peer(c.id, static_cast<std::int64_t>(c.pid), c.workers,
                                r.via == nullptr ? "" : r.via->scheme(), c.host, c.name,
                                r.via == nullptr ? "" : r.via->server_of(c));
}

process_counters detail::counters_of(job_state& job) {
  const std::shared_ptr<counter_segment>& counters = job.counters;
  if (!counters) {
    throw error("this process has no counters: there was no descriptor or no memory for them when "
                "the job began (FARCALL_LOG=info says which)");
  }
  return counter_reader(counters->fd()).read();
}

process_counters job::counters() const { return detail::counters_of(state()); }

} // namespace farcall
