#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/memory/counter_reader.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/offload/job_counters.hpp>
#include <farcall/offload/job_state.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace farcall {
namespace {

/// Returns the handlers' names by key, from am::first_user_key on.
std::vector<std::string> handler_names() {
  std::vector<std::string> names(key_resolver::first_row_key - am::first_user_key);
  for (const function_registry::row& r : function_registry::instance().rows())
    names.push_back(r.name);
  return names;
}

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
    return made;
  } catch (const error& e) {
    log::info(std::string("what this process counts cannot be read: ") + e.what());
    return nullptr;
  }
}

void detail::describe_peer(job_state& state, const card& c, const route& r) {
  if (!state.counters) return;
  state.counters->describe_peer(c.id, static_cast<std::int64_t>(c.pid), c.workers,
                                r.via == nullptr ? "" : r.via->scheme(), c.host, c.name,
                                r.via == nullptr ? "" : r.via->server_of(c));
}

process_counters job::counters() const {
  const std::shared_ptr<counter_segment>& counters = state().counters;
  if (!counters) {
    throw error("this process has no counters: there was no descriptor or no memory for them when "
                "the job began (FARCALL_LOG=info says which)");
  }
  return counter_reader(counters->fd()).read();
}

} // namespace farcall
