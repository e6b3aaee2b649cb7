#include "parts.hpp"

#include <farcall/base/error.hpp>

#include <map>
#include <tuple>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

/// Parts are in the order of these.
using part_key = std::tuple<node_id, std::int32_t, std::int32_t>;

part_key key_of(const profile_thread& thread, parts_by by) {
  if (by == parts_by::thread) return {thread.node, thread.process, thread.thread};
  // All nodes have numbers but those that are none of a job.
  return {thread.node, thread.node == no_node ? thread.process : 0, 0};
}

std::string title_of(const profile_thread& thread, parts_by by) {
  const std::string whose = thread.node == no_node
                                ? fmt::format("process {}{}{}", thread.process,
                                              thread.program.empty() ? "" : ", ", thread.program)
                                : node_text(thread.node);
  if (by == parts_by::node) return whose;
  return fmt::format("thread {}{}{}{} of {}", thread.thread, thread.name.empty() ? "" : " (",
                     thread.name, thread.name.empty() ? "" : ")", whose);
}

} // namespace

std::vector<profile_part> parts_of(const profile& p, parts_by by) {
  std::map<part_key, std::vector<std::size_t>> sorted;
  for (std::size_t i = 0; i < p.samples.size(); ++i)
    sorted[key_of(p.threads[p.samples[i].thread], by)].push_back(i);
  std::vector<profile_part> parts;
  for (const auto& [key, indices] : sorted) {
    profile_part part;
    part.title = title_of(p.threads[p.samples[indices.front()].thread], by);
    part.samples = p;
    part.samples.samples.clear();
    for (const std::size_t i : indices)
      part.samples.samples.push_back(p.samples[i]);
    parts.push_back(std::move(part));
  }
  return parts;
}

} // namespace farcall::tool
