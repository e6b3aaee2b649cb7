#include "perf_session.hpp"

#include <algorithm>
#include <ctime>
#include <limits>
#include <utility>

namespace farcall::tool {

namespace {

/// Programs that start threads all the time are never caught entirely; what is missed is inherited.
constexpr int most_rounds = 20;

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
  for (int round = 0; is_new && round < most_rounds; ++round) {
    is_new = false;
    for (const pid_t process : with_descendants(root)) {
      bool is_sampled = false;
      for (const pid_t thread : threads_of(process)) {
        if (attached_.contains(thread) || !add_thread(thread, process == root)) continue;
        attached_.insert(thread);
        is_sampled = is_new = true;
      }
      // After the events, so that no mapping is made between.
      if (is_sampled && processes.insert(process).second) describe(process);
    }
  }
  attached_at_ = record_time();
  return processes.contains(root);
}

/// Descendants may be another user's, as those of sudo are.
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

/// Of threads that have been attached to it is known where they come from. One that was made
/// meanwhile may have inherited events, too: only its own count.
bool perf_session::is_known(const perf_record& record) {
  if (!attached_.contains(record.thread)) return false;
  if (std::holds_alternative<fork_record>(record.what)) {
    if (record.time < attached_at_) return true;
    attached_.erase(record.thread); // another, of the same number
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
      // Here, since the mappings are those of its time.
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
  // Of what is older than the reading before, all processors' records are there.
  hand_on(std::exchange(read_at_, now));
}

void perf_session::finish() {
  events_.stop();
  events_.read([this](perf_record& record) { note(record); });
  hand_on(std::numeric_limits<std::uint64_t>::max());
}

} // namespace farcall::tool
