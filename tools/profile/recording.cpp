#include "recording.hpp"

#include <algorithm>
#include <map>

namespace farcall::tool {

// ---- records ------------------------------------------------------------------------------------

void recording::add_process(pid_t process, pid_t parent, const process_part& part,
                            const std::string& program) {
  program_run made;
  made.process = process;
  if (const auto found = current_runs_.find(parent); found != current_runs_.end())
    made.parent = found->second;
  made.part = part;
  made.program = program;
  current_runs_[process] = runs_.size();
  runs_.push_back(std::move(made));
}

void recording::add_thread(pid_t process, pid_t thread, const std::string& name) {
  (void)run_of(process);
  names_[thread] = name;
}

void recording::add_mapping(pid_t process, const map_record& mapping, std::uint32_t module) {
  runs_[run_of(process)].space.add(
      {mapping.start, mapping.start + mapping.bytes, mapping.file_offset, module});
}

std::size_t recording::run_of(pid_t process) {
  const auto [at, is_new] = current_runs_.try_emplace(process, runs_.size());
  if (is_new) {
    program_run unknown;
    unknown.process = process;
    runs_.push_back(std::move(unknown));
  }
  return at->second;
}

const address_space* recording::space_of(pid_t process) const {
  const auto found = current_runs_.find(process);
  return found == current_runs_.end() ? nullptr : &runs_[found->second].space;
}

std::uint32_t recording::thread_of(pid_t process, pid_t thread) {
  const auto [at, is_new] =
      current_threads_.try_emplace(thread, static_cast<std::uint32_t>(threads_.size()));
  if (is_new) {
    sampled_thread made{.run = run_of(process), .thread = thread, .name = {}};
    if (const auto name = names_.find(thread); name != names_.end()) made.name = name->second;
    threads_.push_back(std::move(made));
  }
  return at->second;
}

void recording::take(const noted_record& noted) {
  const perf_record& record = noted.record;
  if (const auto* const sample = std::get_if<sample_record>(&record.what)) {
    take_sample(record, *sample);
  } else if (const auto* const map = std::get_if<map_record>(&record.what)) {
    take_map(record, *map, noted.module);
  } else if (const auto* const name = std::get_if<name_record>(&record.what)) {
    take_name(noted, *name);
  } else if (const auto* const made = std::get_if<fork_record>(&record.what)) {
    take_fork(record, *made);
  } else if (const auto* const lost = std::get_if<lost_record>(&record.what)) {
    lost_ += lost->samples;
  } else if (std::holds_alternative<throttle_record>(record.what)) {
    was_throttled_ = true;
  }
}

void recording::take_map(const perf_record& record, const map_record& map, std::uint32_t module) {
  program_run& run = runs_[run_of(record.process)];
  // What an exec maps first is the program.
  if (run.program.empty() && map.path.starts_with('/') && module != modules::none)
    run.program = map.path;
  run.space.add({map.start, map.start + map.bytes, map.file_offset, module});
}

void recording::take_name(const noted_record& noted, const name_record& name) {
  const perf_record& record = noted.record;
  if (name.is_exec) {
    // The thread that goes on has its process's number. What follows is another program's.
    const std::size_t before = run_of(record.process);
    program_run made;
    made.process = record.process;
    made.parent = runs_[before].parent;
    made.part = noted.part.value_or(process_part{});
    current_runs_[record.process] = runs_.size();
    runs_.push_back(std::move(made));
    current_threads_.erase(record.thread);
  }
  names_[record.thread] = name.name;
  if (const auto found = current_threads_.find(record.thread); found != current_threads_.end())
    threads_[found->second].name = name.name;
}

void recording::take_fork(const perf_record& record, const fork_record& made) {
  // Numbers of threads that have ended are used again.
  current_threads_.erase(record.thread);
  if (const auto name = names_.find(made.parent_thread); name != names_.end()) {
    // By its value: the table may grow.
    const std::string inherited = name->second;
    names_[record.thread] = inherited;
  }
  if (record.process == made.parent_process) return;
  const std::size_t parent = run_of(made.parent_process);
  program_run child;
  child.process = record.process;
  child.parent = parent;
  child.program = runs_[parent].program;
  child.space = runs_[parent].space;
  current_runs_[record.process] = runs_.size();
  runs_.push_back(std::move(child));
}

std::uint32_t recording::place_at(const address_space& space, std::uint64_t address) {
  place found{.module = modules::none, .offset = address};
  if (const auto* const mapping = space.find(address);
      mapping != nullptr && mapping->module != modules::none) {
    found = {.module = mapping->module, .offset = address - mapping->start + mapping->file_offset};
  }
  const auto [at, is_new] =
      place_numbers_.try_emplace(found, static_cast<std::uint32_t>(places_.size()));
  if (is_new) places_.push_back(found);
  return at->second;
}

void recording::take_sample(const perf_record& record, const sample_record& sample) {
  const std::uint32_t thread = thread_of(record.process, record.thread);
  const address_space& space = runs_[threads_[thread].run].space;
  std::uint32_t stack = profile_stack::none;
  for (std::size_t i = sample.addresses.size(); i-- > 0;) {
    // A call may be the last instruction of its function: the return address is behind it.
    const std::uint64_t address = sample.addresses[i] - (i == 0 ? 0 : 1);
    // Where there is no code, the kernel has followed a register that was no frame pointer.
    if (i != 0 && space.find(address) == nullptr) continue;
    const std::uint32_t place = place_at(space, address);
    const auto [at, is_new] = stack_numbers_.try_emplace(
        std::uint64_t{place} << 32 | stack, static_cast<std::uint32_t>(raw_stacks_.size()));
    if (is_new) raw_stacks_.push_back({place, stack});
    stack = at->second;
  }
  if (stack != profile_stack::none) samples_.push_back({record.time, thread, stack});
}

// ---- nodes --------------------------------------------------------------------------------------

/// A host starts its targets in the order of their numbers. A launcher gives numbers itself, and
/// what a launched host starts comes behind those.
void recording::number_nodes() {
  std::map<std::size_t, node_id> targets;
  node_id highest_rank = 0;
  for (const program_run& run : runs_) {
    if (run.part.rank != no_node) highest_rank = std::max(highest_rank, run.part.rank);
  }
  std::map<pid_t, node_id> given; // a wrapper's target has the number of the wrapper
  for (program_run& run : runs_) {
    if (run.part.rank != no_node) run.node = run.part.rank;
    if (!run.part.is_target || !run.parent) continue;
    const program_run& parent = runs_[*run.parent];
    if (parent.part.is_target && given.contains(parent.process)) {
      run.node = parent.node;
    } else if (const auto same = given.find(run.process); same != given.end()) {
      run.node = same->second;
    } else if (!parent.part.is_server) {
      const node_id before = parent.part.rank == no_node ? 0 : highest_rank;
      run.node = ++targets.try_emplace(*run.parent, before).first->second;
    }
    given[run.process] = run.node;
  }
  for (const auto& [host, count] : targets) {
    if (runs_[host].node == no_node) runs_[host].node = host_id;
  }
}

} // namespace farcall::tool
