// SPDX-License-Identifier: Apache-2.0
#include "perf_events.hpp"

#include <tools/common/environment.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <asm/perf_regs.h>
#endif

namespace farcall::tool {

namespace {

/// Number of bytes that a sample copies from the stack, from the stack pointer upwards.
constexpr std::uint32_t stack_bytes = 8192;

int open_event(perf_event_attr& attributes, pid_t thread, int processor) {
  return static_cast<int>(
      syscall(SYS_perf_event_open, &attributes, thread, processor, -1, PERF_FLAG_FD_CLOEXEC));
}

/// Parses the list of online processors, such as "0-3,8".
std::vector<int> online_processors() {
  const std::string text = first_line_of("/sys/devices/system/cpu/online");
  std::vector<int> all;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int first = 0;
    const auto [behind_first, failure] = std::from_chars(at, end, first);
    if (failure != std::errc{}) break;
    int last = first;
    at = behind_first;
    if (at < end && *at == '-') at = std::from_chars(at + 1, end, last).ptr;
    for (int cpu = first; cpu <= last; ++cpu)
      all.push_back(cpu);
    if (at < end && *at != ',') break;
    ++at;
  }
  if (all.empty()) {
    for (int cpu = 0; cpu < static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)); ++cpu)
      all.push_back(cpu);
  }
  return all;
}

bool is_refusal(int reason) {
  return reason == EPERM || reason == EACCES || reason == ENOSYS || reason == EOPNOTSUPP ||
         reason == ENOENT;
}

[[noreturn]] void fail_to_open(int reason) {
  const std::string text = fmt::format("perf_event_open: {}", reason_text(reason));
  if (is_refusal(reason)) throw perf_refused(text);
  throw failed_run(fmt::format("cannot sample: {}", text));
}

/// Raises the limit of open descriptors to the highest value that is allowed. Returns true if the
/// limit was increased.
bool raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return false;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

perf_event_attr common_attributes() {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  attributes.sample_id_all = 1;
  attributes.use_clockid = 1;
  attributes.clockid = CLOCK_MONOTONIC;
  attributes.watermark = 1;
  attributes.sample_type =
      PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
  return attributes;
}

} // namespace

std::uint64_t sampled_registers() {
#if defined(__x86_64__)
  constexpr std::uint64_t low = (std::uint64_t{1} << (PERF_REG_X86_IP + 1)) - 1;
  constexpr std::uint64_t high = ((std::uint64_t{1} << 8) - 1) << PERF_REG_X86_R8;
  return low | high;
#else
  return 0;
#endif
}

/// Ring into which the events of one processor write. A dummy event of this thread owns the ring,
/// because it exists longer than the sampled threads. So the ring's descriptor stays usable for
/// poll() when a sampled thread ends.
class perf_events::ring {
 public:
  /// Throws perf_refused or failed_run. If the processor is offline, the ring has no event and no
  /// memory.
  ring(int processor, std::size_t max_bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (bytes_ = max_bytes;; bytes_ /= 2) {
      perf_event_attr attributes = common_attributes();
      attributes.config = PERF_COUNT_SW_DUMMY;
      attributes.wakeup_watermark = static_cast<std::uint32_t>(bytes_ / 4);
      event_ = unique_fd(open_event(attributes, 0, processor));
      if (!event_ && errno == ENODEV) return;
      if (!event_) fail_to_open(errno);
      void* const at =
          mmap(nullptr, page + bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, event_.get(), 0);
      if (at != MAP_FAILED) {
        mapped_ = std::span(static_cast<std::byte*>(at), page + bytes_);
        return;
      }
      // An ordinary user may lock only little memory (perf_event_mlock_kb), so try a smaller ring.
      if ((errno != EPERM && errno != ENOMEM) || bytes_ <= 8 * page)
        throw failed_run(fmt::format("cannot map memory for samples: {}; see perf_event_mlock_kb "
                                     "in /proc/sys/kernel",
                                     reason_text(errno)));
    }
  }
  ring(const ring&) = delete;
  ring& operator=(const ring&) = delete;
  ~ring() {
    if (!mapped_.empty()) munmap(mapped_.data(), mapped_.size());
  }

  [[nodiscard]] int event() const { return event_.get(); }

  template <class Take>
  void read(std::vector<std::byte>& whole, Take take) {
    auto* const control = reinterpret_cast<perf_event_mmap_page*>(mapped_.data());
    const std::byte* const data = mapped_.data() + (mapped_.size() - bytes_);
    // The load pairs with the kernel's release store, which follows the writing of a record.
    const std::uint64_t head = std::atomic_ref(control->data_head).load(std::memory_order_acquire);
    std::uint64_t tail = control->data_tail;
    while (tail < head) {
      const std::size_t at = tail % bytes_;
      perf_event_header header{};
      std::memcpy(&header, data + at, sizeof header); // records are multiples of eight bytes
      if (header.size < sizeof header || header.size > head - tail) break;
      const std::size_t until_end = bytes_ - at;
      if (header.size <= until_end) {
        take(std::span(data + at, header.size));
      } else {
        whole.assign(data + at, data + bytes_);
        whole.insert(whole.end(), data, data + (header.size - until_end));
        take(std::span<const std::byte>(whole));
      }
      tail += header.size;
    }
    // The store pairs with the kernel's load, which comes before the kernel overwrites the space of
    // the records that were read.
    std::atomic_ref(control->data_tail).store(head, std::memory_order_release);
  }

 private:
  unique_fd event_;
  std::size_t bytes_ = 0;
  std::span<std::byte> mapped_;
};

perf_events::perf_events(unsigned samples_per_second, call_graph stacks)
    : samples_per_second_(samples_per_second), stacks_(stacks) {
  layout_.has_callers = stacks != call_graph::none;
  layout_.has_stack = stacks == call_graph::dwarf;
  layout_.registers = static_cast<unsigned>(std::popcount(sampled_registers()));
  // Without copies of stacks, a ring holds the samples of half a second, if there are 1000 samples
  // per second of 1 KiB (a stack of 128 frames). Samples with copies of stacks need more space.
  const std::size_t bytes = stacks == call_graph::dwarf ? 8 << 20 : 512 << 10;
  for (const int processor : online_processors()) {
    auto made = std::make_unique<ring>(processor, bytes);
    if (made->event() < 0) continue;
    readable_.push_back(made->event());
    rings_.emplace(processor, std::move(made));
  }
}

perf_events::~perf_events() = default;

bool perf_events::add(pid_t thread, bool from_exec) {
  perf_event_attr attributes = common_attributes();
  attributes.config = PERF_COUNT_SW_TASK_CLOCK;
  attributes.sample_period = 1'000'000'000 / samples_per_second_;
  attributes.inherit = 1;
  attributes.mmap = 1;
  attributes.mmap2 = 1;
  attributes.comm = 1;
  attributes.comm_exec = 1;
  attributes.task = 1;
  if (from_exec) {
    attributes.disabled = 1;
    attributes.enable_on_exec = 1;
  }
  if (layout_.has_callers) {
    attributes.sample_type |= PERF_SAMPLE_CALLCHAIN;
    attributes.exclude_callchain_kernel = 1;
  }
  if (layout_.has_stack) {
    attributes.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
    attributes.sample_regs_user = sampled_registers();
    attributes.sample_stack_user = stack_bytes;
  }
  for (const auto& [processor, ring] : rings_) {
    unique_fd event(open_event(attributes, thread, processor));
    if (!event && errno == EMFILE && raise_descriptor_limit())
      event = unique_fd(open_event(attributes, thread, processor));
    if (!event && errno == ESRCH) return false;
    if (!event && errno == ENODEV) continue;
    if (!event && errno == EMFILE) {
      throw failed_run("too few descriptors for all threads and processors; raise the limit: "
                       "ulimit -n");
    }
    if (!event) fail_to_open(errno);
    if (ioctl(event.get(), PERF_EVENT_IOC_SET_OUTPUT, ring->event()) != 0)
      throw failed_run(fmt::format("cannot collect samples: {}", reason_text(errno)));
    std::uint64_t number = 0;
    if (ioctl(event.get(), PERF_EVENT_IOC_ID, &number) == 0) threads_[number] = thread;
    events_.push_back(std::move(event));
  }
  return true;
}

void perf_events::read(const std::function<void(perf_record&)>& take) {
  for (const auto& [processor, ring] : rings_) {
    ring->read(record_, [&](std::span<const std::byte> bytes) {
      perf_record read;
      if (read_record(bytes, layout_, read)) take(read);
    });
  }
}

pid_t perf_events::thread_of(std::uint64_t event) const {
  const auto found = threads_.find(event);
  return found == threads_.end() ? 0 : found->second;
}

void perf_events::stop() {
  for (const unique_fd& event : events_)
    ioctl(event.get(), PERF_EVENT_IOC_DISABLE, 0);
}

} // namespace farcall::tool
