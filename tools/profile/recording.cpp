// SPDX-License-Identifier: Apache-2.0
#include "recording.hpp"

#include <utility>

namespace farcall::tool {

namespace {

/// Returns the offset in the module at which a mapping starts. The module of anonymous memory is a
/// perf_map, in which offsets are addresses.
std::uint64_t offset_of(const map_record& mapping) {
  return is_anonymous(mapping) ? mapping.start : mapping.file_offset;
}

} // namespace

std::size_t recording::add_run(recorded_samples::program_run run, address_space space) {
  const std::size_t at = recorded_.runs.size();
  current_runs_[run.process] = at;
  recorded_.runs.push_back(std::move(run));
  spaces_.push_back(std::move(space));
  return at;
}

void recording::add_process(pid_t process, pid_t parent, const process_part& part,
                            const std::string& program) {
  recorded_samples::program_run made;
  made.process = process;
  if (const auto found = current_runs_.find(parent); found != current_runs_.end())
    made.parent = found->second;
  made.part = part;
  made.program = program;
  (void)add_run(std::move(made), {});
}

void recording::add_thread(pid_t process, pid_t thread, const std::string& name) {
  (void)run_of(process);
  names_[thread] = name;
}

void recording::add_mapping(pid_t process, const map_record& mapping, std::uint32_t module) {
  spaces_[run_of(process)].add(
      {mapping.start, mapping.start + mapping.bytes, offset_of(mapping), module});
}

std::size_t recording::run_of(pid_t process) {
  if (const auto known = current_runs_.find(process); known != current_runs_.end())
    return known->second;
  recorded_samples::program_run unknown;
  unknown.process = process;
  return add_run(std::move(unknown), {});
}

const address_space* recording::space_of(pid_t process) const {
  const auto found = current_runs_.find(process);
  return found == current_runs_.end() ? nullptr : &spaces_[found->second];
}

std::uint32_t recording::thread_of(pid_t process, pid_t thread) {
  const auto [at, is_new] =
      current_threads_.try_emplace(thread, static_cast<std::uint32_t>(recorded_.threads.size()));
  if (is_new) {
    recorded_samples::thread made{.run = run_of(process), .number = thread, .name = {}};
    if (const auto name = names_.find(thread); name != names_.end()) made.name = name->second;
    recorded_.threads.push_back(std::move(made));
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
    recorded_.lost += lost->samples;
  } else if (std::holds_alternative<throttle_record>(record.what)) {
    recorded_.was_throttled = true;
  }
}

void recording::take_map(const perf_record& record, const map_record& map, std::uint32_t module) {
  const std::size_t at = run_of(record.process);
  recorded_samples::program_run& run = recorded_.runs[at];
  // The program is the first file that the process maps after an exec.
  if (run.program.empty() && map.path.starts_with('/') && module != modules::none)
    run.program = map.path;
  spaces_[at].add({map.start, map.start + map.bytes, offset_of(map), module});
}

void recording::take_name(const noted_record& noted, const name_record& name) {
  const perf_record& record = noted.record;
  if (name.is_exec) {
    // An exec ends all threads but one, which then has the process's id. Records after the exec
    // belong to the new program.
    const std::size_t before = run_of(record.process);
    recorded_samples::program_run made;
    made.process = record.process;
    made.parent = recorded_.runs[before].parent;
    made.part = noted.part.value_or(process_part{});
    (void)add_run(std::move(made), {});
    current_threads_.erase(record.thread);
  }
  names_[record.thread] = name.name;
  if (const auto found = current_threads_.find(record.thread); found != current_threads_.end())
    recorded_.threads[found->second].name = name.name;
}

void recording::take_fork(const perf_record& record, const fork_record& made) {
  // Forget an ended thread that had the same id as the new thread, because the kernel reuses ids.
  current_threads_.erase(record.thread);
  if (const auto name = names_.find(made.parent_thread); name != names_.end()) {
    // Copy the inherited name first, because inserting into the table may move its entries and
    // invalidate `name`.
    const std::string inherited = name->second;
    names_[record.thread] = inherited;
  }
  if (record.process == made.parent_process) return;
  const std::size_t parent = run_of(made.parent_process);
  recorded_samples::program_run child;
  child.process = record.process;
  child.parent = parent;
  child.program = recorded_.runs[parent].program;
  address_space space = spaces_[parent];
  (void)add_run(std::move(child), std::move(space));
}

std::uint32_t recording::place_at(const address_space& space, std::uint64_t address) {
  recorded_samples::place found{.module = modules::none, .offset = address};
  if (const auto* const mapping = space.find(address);
      mapping != nullptr && mapping->module != modules::none) {
    found = {.module = mapping->module, .offset = address - mapping->start + mapping->file_offset};
  }
  const auto [at, is_new] =
      place_numbers_.try_emplace(found, static_cast<std::uint32_t>(recorded_.places.size()));
  if (is_new) recorded_.places.push_back(found);
  return at->second;
}

void recording::take_sample(const perf_record& record, const sample_record& sample) {
  const std::uint32_t thread = thread_of(record.process, record.thread);
  const address_space& space = spaces_[recorded_.threads[thread].run];
  std::uint32_t stack = profile_stack::none;
  for (std::size_t i = sample.addresses.size(); i-- > 0;) {
    // A return address is the address after the call, so subtract one to get an address in the
    // call. The return address itself may be outside the function, if the call is the function's
    // last instruction.
    const std::uint64_t address = sample.addresses[i] - (i == 0 ? 0 : 1);
    // Skip a caller's address that is in no mapped code. The kernel reports such addresses if it
    // has followed a register that was no frame pointer.
    if (i != 0 && space.find(address) == nullptr) continue;
    const std::uint32_t place = place_at(space, address);
    const auto [at, is_new] = stack_numbers_.try_emplace(
        std::uint64_t{place} << 32 | stack, static_cast<std::uint32_t>(recorded_.stacks.size()));
    if (is_new) recorded_.stacks.push_back({place, stack});
    stack = at->second;
  }
  if (stack != profile_stack::none) recorded_.samples.push_back({record.time, thread, stack});
}

recorded_samples recording::finish() {
  number_nodes(recorded_);
  return std::move(recorded_);
}

} // namespace farcall::tool
