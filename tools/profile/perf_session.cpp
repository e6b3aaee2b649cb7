// SPDX-License-Identifier: Apache-2.0
#include "perf_session.hpp"

#include <algorithm>
#include <ctime>
#include <limits>
#include <utility>

namespace farcall::tool {

namespace {

/// Maximum number of searches for new threads. A program that starts threads all the time would
/// never be searched completely. This is no harm, because a thread that was missed inherits the
/// events of its creator.
constexpr int max_rounds = 20;

} // namespace

std::uint64_t record_time() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

perf_session::perf_session(unsigned samples_per_second, call_graph stacks, recording& into,
                           modules& files)
    : events_(samples_per_second, stacks), unwinder_(files), into_(into), files_(files) {}

perf_session::~perf_session() = default;

void perf_session::add_from_exec(pid_t child) {
  if (!events_.add(child, true)) return;
  into_.add_process(child, 0, {}, {});
}

bool perf_session::add_running(pid_t root) {
  std::unordered_set<pid_t> processes;
  bool is_new = true;
  for (int round = 0; is_new && round < max_rounds; ++round) {
    is_new = false;
    for (const pid_t process : with_descendants(root)) {
      bool is_sampled = false;
      for (const pid_t thread : threads_of(process)) {
        if (attached_.contains(thread) || !add_thread(thread, process == root)) continue;
        attached_.insert(thread);
        is_sampled = is_new = true;
      }
      // Read the mappings after the events were opened. Otherwise a file that is mapped in between
      // would be missed.
      if (is_sampled && processes.insert(process).second) describe(process);
    }
  }
  attached_at_ = record_time();
  return processes.contains(root);
}

/// Opens the events of a thread. If the kernel refuses this, throws perf_refused or, unless
/// `must_be_allowed`, returns false. A descendant may be refused because it belongs to another
/// user, for instance under sudo.
bool perf_session::add_thread(pid_t thread, bool must_be_allowed) {
  try {
    return events_.add(thread, false);
  } catch (const perf_refused&) {
    if (must_be_allowed) throw;
    return false;
  }
}

void perf_session::describe(pid_t process) {
  into_.add_process(process, parent_of(process), part_of(process), program_of(process));
  for (const pid_t thread : threads_of(process))
    into_.add_thread(process, thread, name_of(process, thread));
  for (const map_record& mapping : mappings_of(process))
    into_.add_mapping(process, mapping, files_.add(process, mapping));
}

/// True if the record must be dropped, because it repeats facts that are known otherwise. A thread
/// that already ran has its own events, but may also have inherited an event of its creator. Hence
/// its creation is known, and only the samples of its own events count.
bool perf_session::is_known(const perf_record& record) {
  if (!attached_.contains(record.thread)) return false;
  if (std::holds_alternative<fork_record>(record.what)) {
    if (record.time < attached_at_) return true;
    attached_.erase(record.thread); // this is the creation of a new thread with the same id
    return false;
  }
  return std::holds_alternative<sample_record>(record.what) &&
         events_.thread_of(record.event) != record.thread;
}

void perf_session::note(perf_record& record) {
  noted_record noted;
  if (const auto* const map = std::get_if<map_record>(&record.what))
    noted.module = files_.add(record.process, *map);
  if (const auto* const name = std::get_if<name_record>(&record.what); name && name->is_exec)
    noted.part = part_of(record.process);
  noted.record = std::move(record);
  noted.number = ++count_;
  noted_.push_back(std::move(noted));
}

void perf_session::hand_on(std::uint64_t until) {
  const auto time_of = [](const noted_record& n) { return n.record.time; };
  std::ranges::sort(noted_, {},
                    [](const noted_record& n) { return std::pair(n.record.time, n.number); });
  const auto end = std::ranges::upper_bound(noted_, until, {}, time_of);
  for (auto at = noted_.begin(); at != end; ++at) {
    if (is_known(at->record)) continue;
    if (auto* const sample = std::get_if<sample_record>(&at->record.what)) {
      // Unwind the stack now, because the mappings are still as at the sample's time.
      if (const auto* const space = into_.space_of(at->record.process))
        unwinder_.unwind(*space, *sample);
    }
    into_.take(*at);
  }
  noted_.erase(noted_.begin(), end);
}

void perf_session::read() {
  files_.look_for_perf_maps();
  const std::uint64_t now = record_time();
  events_.read([this](perf_record& record) { note(record); });
  // Now all records that are older than the previous read have arrived, from all processors. So
  // pass these records on, in the order of their times.
  hand_on(std::exchange(read_at_, now));
}

void perf_session::finish() {
  events_.stop();
  events_.read([this](perf_record& record) { note(record); });
  hand_on(std::numeric_limits<std::uint64_t>::max());
}

} // namespace farcall::tool
