// SPDX-License-Identifier: Apache-2.0
#include "ptrace_session.hpp"

#include "perf_session.hpp"
#include "processes.hpp"

#include <tools/common/environment.hpp>

#include <farcall/base/error.hpp>

#include <algorithm>
#include <cerrno>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <elf.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

namespace farcall::tool {

namespace {

constexpr std::size_t max_frames = 127;
/// A process may map new files at any time, so its mappings are read again if the last reading is
/// older than this.
constexpr std::chrono::milliseconds mapping_interval{100};
constexpr std::chrono::seconds max_end{1};
constexpr int trace_options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                              PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD;

struct code_registers {
  std::uint64_t instruction = 0;
  std::uint64_t stack = 0;
  std::uint64_t frame = 0;
};

bool read_registers(pid_t thread, code_registers& into) {
#if defined(__x86_64__)
  user_regs_struct all{};
  iovec place{&all, sizeof all};
  if (ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &place) != 0) return false;
  // The kernel returns fewer registers for a 32-bit program, which is not supported.
  if (place.iov_len != sizeof all) return false;
  into = {all.rip, all.rsp, all.rbp};
  return true;
#elif defined(__aarch64__)
  user_regs_struct all{};
  iovec place{&all, sizeof all};
  if (ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &place) != 0) return false;
  into = {all.pc, all.sp, all.regs[29]};
  return true;
#else
  (void)thread;
  (void)into;
  return false;
#endif
}

/// A frame record on the stack, to which the frame pointer points. It has the frame pointer of the
/// caller, and the address to which the function returns.
struct saved_frame {
  std::uint64_t caller = 0;
  std::uint64_t address = 0;
};

std::vector<std::uint64_t> addresses_of(pid_t process, const code_registers& from) {
  std::vector<std::uint64_t> addresses{from.instruction};
  std::uint64_t frame = from.frame;
  std::uint64_t last = from.stack;
  while (addresses.size() < max_frames && frame >= last && frame % sizeof frame == 0) {
    saved_frame saved;
    iovec here{&saved, sizeof saved};
    iovec there{reinterpret_cast<void*>(frame), sizeof saved};
    if (process_vm_readv(process, &here, 1, &there, 1, 0) != sizeof saved) break;
    addresses.push_back(saved.address);
    last = frame + sizeof saved;
    frame = saved.caller;
  }
  return addresses;
}

/// CPU time of a thread, and the number of times that it was scheduled. The values of a stopped
/// thread are exact. The kernel updates the CPU time of a running thread only at its timer ticks
/// and at some system calls.
struct run_counts {
  std::uint64_t nanoseconds = 0;
  std::uint64_t times = 0; ///< number of times that the thread was scheduled
};

/// Returns the run counts of a thread. Returns nothing if this kernel does not count them.
std::optional<run_counts> runs_of(pid_t process, pid_t thread) {
  std::istringstream line(
      first_line_of(fmt::format("/proc/{}/task/{}/schedstat", process, thread)));
  run_counts counts;
  std::uint64_t waited = 0;
  if (line >> counts.nanoseconds >> waited >> counts.times && counts.times != 0) return counts;
  return {};
}

pid_t process_of(pid_t thread) {
  const long process = value_in_file(fmt::format("/proc/{}/status", thread), "Tgid");
  return process > 0 ? static_cast<pid_t>(process) : thread;
}

} // namespace

ptrace_session::ptrace_session(unsigned samples_per_second, bool has_callers, recording& into,
                               modules& files)
    : samples_per_second_(samples_per_second), has_callers_(has_callers), into_(into),
      files_(files), next_tick_(clock::now()) {}

ptrace_session::~ptrace_session() { finish(); }

bool ptrace_session::seize(pid_t process, pid_t thread) {
  if (ptrace(PTRACE_SEIZE, thread, nullptr, trace_options) != 0) {
    if (errno == ESRCH) return false;
    throw ptrace_refused(fmt::format("ptrace: {}", reason_text(errno)));
  }
  threads_[thread].process = process;
  threads_[thread].is_told = true;
  return true;
}

void ptrace_session::add_from_exec(pid_t child) {
  if (seize(child, child)) into_.add_process(child, 0, {}, {});
}

bool ptrace_session::add_running(pid_t root) {
  std::set<pid_t> processes;
  std::set<pid_t> refused;
  for (bool is_new = true; is_new;) {
    is_new = false;
    for (const pid_t process : with_descendants(root)) {
      for (const pid_t thread : threads_of(process)) {
        // Skip known threads, threads that may not be traced, and ended threads. The kernel lists
        // an ended thread until its parent has reaped it.
        if (threads_.contains(thread) || refused.contains(thread) ||
            state_of(process, thread).letter == 'Z')
          continue;
        try {
          if (!seize(process, thread)) continue;
        } catch (const ptrace_refused&) {
          // Leave out a descendant that may not be traced, because it may belong to another user.
          if (process == root) throw;
          refused.insert(thread);
          continue;
        }
        is_new = true;
        if (processes.insert(process).second) describe(process);
      }
    }
  }
  return processes.contains(root);
}

void ptrace_session::describe(pid_t process) {
  into_.add_process(process, parent_of(process), part_of(process), program_of(process));
  read_mappings(process);
}

void ptrace_session::read_mappings(pid_t process) {
  mapped_at_[process] = clock::now();
  for (const map_record& mapping : mappings_of(process))
    into_.add_mapping(process, mapping, files_.add(process, mapping));
}

void ptrace_session::handle_exec(pid_t process) {
  // Forget the other threads of the process, because exec has ended them.
  std::erase_if(threads_, [&](const auto& entry) {
    return entry.second.process == process && entry.first != process;
  });
  threads_[process] = {};
  threads_[process].process = process;
  threads_[process].is_told = true;
  noted_record noted;
  noted.record.time = record_time();
  noted.record.process = noted.record.thread = process;
  noted.record.what = name_record{name_of(process, process), true};
  noted.part = part_of(process);
  into_.take(noted);
  for (const map_record& mapping : mappings_of(process)) {
    noted_record mapped;
    mapped.record.process = mapped.record.thread = process;
    mapped.record.what = mapping;
    mapped.module = files_.add(process, mapping);
    into_.take(mapped);
  }
  mapped_at_[process] = clock::now();
}

void ptrace_session::add_made(pid_t thread, pid_t parent, pid_t parent_thread) {
  traced& of = threads_[thread];
  of.is_told = parent_thread != 0;
  if (of.process != 0) return;
  of.process = process_of(thread);
  noted_record noted;
  noted.record.thread = thread;
  noted.record.process = of.process;
  noted.record.what = fork_record{parent, parent_thread};
  into_.take(noted);
}

void ptrace_session::handle_event(pid_t thread, int event) {
  unsigned long made = 0;
  switch (event) {
  case PTRACE_EVENT_FORK:
  case PTRACE_EVENT_VFORK:
  case PTRACE_EVENT_CLONE: {
    if (ptrace(PTRACE_GETEVENTMSG, thread, nullptr, &made) != 0) return;
    const auto child = static_cast<pid_t>(made);
    // Don't add a child that has already ended. Such a child was traced, and ended, before this
    // event reported its creation.
    if (ended_unreported_.erase(child) == 0) add_made(child, threads_[thread].process, thread);
    break;
  }
  case PTRACE_EVENT_EXEC:
    handle_exec(thread);
    break;
  default:
    break;
  }
}

void ptrace_session::handle_stop(pid_t thread, int status) {
  traced& of = threads_[thread];
  // A new thread may stop before the event arrives that reports its creation. Add the thread now,
  // without its creator, which is not known yet.
  if (of.process == 0) {
    const pid_t process = process_of(thread);
    add_made(thread, process == thread ? parent_of(process) : process, 0);
  }
  const int signal = WSTOPSIG(status);
  const int event = status >> 16;
  if (std::exchange(of.is_interrupted, false) && !is_ending_) sample(thread, of);
  const bool is_group_stop = event == PTRACE_EVENT_STOP && signal != SIGTRAP;
  if (event != 0 && event != PTRACE_EVENT_STOP) handle_event(thread, event);
  const int delivered = event == 0 ? signal : 0;
  if (is_ending_) {
    // The sampling ends, so detach the thread. A thread that was stopped by a signal stays stopped.
    if (ptrace(PTRACE_DETACH, thread, nullptr, delivered) == 0 || errno == ESRCH)
      threads_.erase(thread);
    return;
  }
  if (is_group_stop) {
    ptrace(PTRACE_LISTEN, thread, nullptr, nullptr);
    of.is_listening = true;
  } else {
    ptrace(PTRACE_CONT, thread, nullptr, delivered);
    if (const auto found = threads_.find(thread); found != threads_.end())
      found->second.is_listening = false;
  }
}

void ptrace_session::sample(pid_t thread, traced& of) {
  code_registers registers;
  if (!read_registers(thread, registers)) return;
  if (const auto runs = runs_of(of.process, thread)) {
    const std::uint64_t period = 1'000'000'000 / samples_per_second_;
    if (runs->nanoseconds - of.ran < period / 2) return;
    // The kernel often stops a thread just after a system call in which the thread yielded its
    // processor, and such samples would be too frequent. So take the sample only if the thread has
    // not been scheduled anew since the tick, because then the thread was running at the tick. Also
    // take it if the thread had to wait at the tick because this process used its processor.
    if (runs->times != of.times_run && !of.is_displaced) return;
    of.ran = runs->nanoseconds;
  }
  const address_space* space = into_.space_of(of.process);
  if (space == nullptr || space->find(registers.instruction) == nullptr ||
      clock::now() - mapped_at_[of.process] > mapping_interval) {
    read_mappings(of.process);
  }
  if (!std::exchange(of.is_named, true))
    into_.add_thread(of.process, thread, name_of(of.process, thread));
  noted_record noted;
  noted.record.time = record_time();
  noted.record.process = of.process;
  noted.record.thread = thread;
  sample_record seen;
  if (has_callers_) {
    seen.addresses = addresses_of(of.process, registers);
  } else {
    seen.addresses = {registers.instruction};
  }
  noted.record.what = std::move(seen);
  into_.take(noted);
}

void ptrace_session::tick() {
  for (auto& [thread, of] : threads_) {
    if (of.is_interrupted || of.is_listening) continue;
    const thread_state now = state_of(of.process, thread);
    if (now.letter != 'R') continue;
    const auto runs = runs_of(of.process, thread);
    of.times_run = runs ? runs->times : 0;
    of.is_displaced = now.processor == ::sched_getcpu();
    of.is_interrupted = ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) == 0;
  }
}

void ptrace_session::collect() {
  int status = 0;
  pid_t thread = 0;
  while ((thread = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
    if (WIFSTOPPED(status)) {
      handle_stop(thread, status);
    } else {
      statuses_[thread] = status;
      const auto ended = threads_.find(thread);
      if (ended == threads_.end()) continue;
      if (!ended->second.is_told) ended_unreported_.insert(thread);
      threads_.erase(ended);
    }
  }
  // ECHILD means that this process has no traced threads any more. Forget all threads, even those
  // whose end was not reported.
  if (thread < 0 && errno == ECHILD) threads_.clear();
}

void ptrace_session::work() {
  collect();
  if (clock::now() < next_tick_) return;
  files_.look_for_perf_maps();
  tick();
  const auto period = std::chrono::nanoseconds(1'000'000'000 / samples_per_second_);
  // Missed ticks are dropped.
  next_tick_ = std::max(next_tick_ + period, clock::now());
}

std::optional<int> ptrace_session::status_of(pid_t process) const {
  const auto found = statuses_.find(process);
  if (found == statuses_.end()) return {};
  return found->second;
}

void ptrace_session::finish() {
  if (std::exchange(is_ending_, true)) return;
  const time_point deadline = clock::now() + max_end;
  for (const auto& [thread, of] : threads_)
    ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr);
  // A thread that is blocked in the kernel may not stop before the deadline. The kernel detaches
  // such threads when this process ends.
  while (!threads_.empty() && clock::now() < deadline) {
    collect();
    if (!threads_.empty()) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

} // namespace farcall::tool
