// SPDX-License-Identifier: Apache-2.0
#include "fault.hpp"

#include "machine_context.hpp"
#include "thread_creator.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <new>
#include <span>
#include <string_view>
#include <system_error>

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farcall::veo {
namespace {

constexpr std::array fault_signals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

// --- signal stack ------------------------------------------------------------------------------

// Size of the signal stack. It has space for two sets of the processor's widest registers, and for
// the unwinder.
constexpr std::size_t handler_stack_bytes = std::size_t{256} << 10;

class handler_stack {
 public:
  handler_stack() noexcept {
    ::sigaltstack(nullptr, &before_);
    if ((before_.ss_flags & SS_DISABLE) == 0 && before_.ss_size >= handler_stack_bytes) return;
    void* memory = ::mmap(nullptr, handler_stack_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    // Continue if the signal stack cannot be allocated. The only consequence is that a stack
    // overflow of this thread ends the process.
    if (memory == MAP_FAILED) return;
    stack_t ours{};
    ours.ss_sp = memory;
    ours.ss_size = handler_stack_bytes;
    ::sigaltstack(&ours, nullptr);
    memory_ = memory;
  }

  ~handler_stack() {
    if (memory_ == nullptr) return;
    stack_t now{};
    ::sigaltstack(nullptr, &now);
    if (now.ss_sp == memory_) ::sigaltstack(&before_, nullptr);
    ::munmap(memory_, handler_stack_bytes);
  }

  handler_stack(const handler_stack&) = delete;
  handler_stack& operator=(const handler_stack&) = delete;

 private:
  stack_t before_{};
  void* memory_ = nullptr;
};

// --- report of a fault, which must not allocate or lock -----------------------------------------

class report_line {
 public:
  report_line& operator<<(std::string_view text) noexcept {
    const std::size_t fits = std::min(text.size(), text_.size() - length_);
    std::copy_n(text.data(), fits, text_.data() + length_);
    length_ += fits;
    return *this;
  }

  report_line& number(std::uint64_t value, unsigned base = 10) noexcept {
    std::array<char, 20> digits{};
    std::size_t first = digits.size();
    do {
      digits[--first] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    return *this << std::string_view(digits.data() + first, digits.size() - first);
  }

  report_line& address(std::uint64_t value) noexcept { return (*this << "0x").number(value, 16); }

  /// Writes the name of the function at an address and the name of its library. Writes the offset
  /// in the library if the function is not exported.
  report_line& code(const void* place) noexcept {
    Dl_info info{};
    const auto at = reinterpret_cast<std::uint64_t>(place);
    if (::dladdr(place, &info) == 0 || info.dli_fname == nullptr) return address(at);
    if (info.dli_sname != nullptr) {
      *this << "'" << info.dli_sname << "'";
    } else {
      address(at - reinterpret_cast<std::uint64_t>(info.dli_fbase));
    }
    return *this << " of " << info.dli_fname;
  }

  void write() noexcept {
    std::size_t written = 0;
    while (written < length_) {
      const ssize_t more = ::write(STDERR_FILENO, text_.data() + written, length_ - written);
      if (more < 0 && errno == EINTR) continue;
      if (more <= 0) break;
      written += static_cast<std::size_t>(more);
    }
    length_ = 0;
  }

 private:
  std::array<char, 1024> text_; // the first length_ characters are in use
  std::size_t length_ = 0;
};

std::string_view name_of(int signal) noexcept {
  switch (signal) {
  case SIGSEGV:
    return "SIGSEGV";
  case SIGBUS:
    return "SIGBUS";
  case SIGFPE:
    return "SIGFPE";
  case SIGILL:
    return "SIGILL";
  case SIGABRT:
    return "SIGABRT";
  default:
    return "a signal";
  }
}

// Largest distance of a faulting address from the stack pointer at which the fault is reported as a
// stack overflow.
constexpr std::uint64_t around_the_stack_pointer = std::uint64_t{64} << 10;

void describe(report_line& line, int signal, const siginfo_t& fault,
              const machine_context& registers) noexcept {
  const auto address = reinterpret_cast<std::uint64_t>(fault.si_addr);
  if (fault.si_code <= 0) {
    if (signal != SIGABRT) line << ", which this process sent itself";
    return;
  }
  if (signal == SIGFPE || signal == SIGILL) {
    line << ", raised by the instruction at ";
    line.address(address);
    return;
  }
  if (fault.si_code == SI_KERNEL) {
    line << ", for an access to no possible address";
    return;
  }
  line << ", for an access to ";
  line.address(address);
  if (address - registers.stack_pointer() + around_the_stack_pointer <
      2 * around_the_stack_pointer) {
    line << ": the stack has probably overflowed (veo_set_thr_ctxt_stacksize makes it larger)";
  }
}

bool is_of_this_process(const siginfo_t& fault) noexcept {
  return fault.si_code > 0 || fault.si_pid == ::getpid();
}

// Process in which a fault ends the kernel's call. In a child process that a kernel has forked, a
// fault ends the process: the child is also inside the call, but has no caller to which it could
// reply.
std::atomic<pid_t> owner{0};
static_assert(std::atomic<pid_t>::is_always_lock_free);

// Jump target for a fault that occurs while a report is written; null while none is written.
[[gnu::tls_model("initial-exec")]] constinit thread_local sigjmp_buf* rescue = nullptr;

std::atomic<void (*)(std::span<void* const>) noexcept> explain{nullptr};

void unblock(std::span<const int> signals) noexcept {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals)
    sigaddset(&set, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void print_trace(machine_context registers, const siginfo_t& fault) noexcept {
  sigjmp_buf here;
  // Unblock the fault signals, so that a fault of the trace itself runs the handler again. The
  // handler then jumps back to this function.
  unblock(fault_signals);
  if (sigsetjmp(here, 0) == 0) {
    rescue = &here;
    // If the fault is a jump to an address without code, begin with the frame of the caller,
    // because that address has no frame.
    if (fault.si_code > 0 &&
        reinterpret_cast<std::uint64_t>(fault.si_addr) == registers.program_counter()) {
      Dl_info unused{};
      if (::dladdr(fault.si_addr, &unused) == 0) registers.leave_call();
    }
    std::array<void*, 64> frames{};
    const int count = ::backtrace(frames.data(), static_cast<int>(frames.size()));
    // Skip the frames of the fault handler, which are the first in the trace.
    auto* end = frames.data() + count;
    auto* first =
        std::find(frames.data(), end, reinterpret_cast<void*>(registers.program_counter()));
    if (first == end) first = frames.data();
    // End the trace at the kernel, because the kernel's callers belong to farcall.
    end = std::find_if(first, end, native::is_in_invoke);
    ::backtrace_symbols_fd(first, static_cast<int>(end - first), STDERR_FILENO);
    // `explain` is read relaxed, because it is set before kernels run.
    if (const auto f = explain.load(std::memory_order_relaxed)) f({first, end});
  } else {
    (report_line() << "  (no further: the stack is damaged)\n").write();
  }
  rescue = nullptr;
}

/// Kind of thread that got the signal: a thread that runs a kernel, a thread that a kernel has
/// created, or any other thread.
enum class victim : std::uint8_t { kernel, thread_of_kernel, other };

void report(int signal, const siginfo_t& fault, machine_context registers, victim who,
            const register_image* image) noexcept {
  report_line line;
  line << "farcall: ";
  if (who == victim::kernel) {
    (line << "kernel ").code(image->code);
  } else {
    (line << "thread ").number(static_cast<std::uint64_t>(::gettid()));
    line << (who == victim::other ? ", which runs no kernel," : ", which a kernel has made,");
  }
  line << " got " << name_of(signal);
  if (is_of_this_process(fault)) {
    describe(line, signal, fault, registers);
  } else {
    (line << " from process ").number(static_cast<std::uint64_t>(fault.si_pid));
  }
  (line << "\n").write();
  print_trace(registers, fault);
}

// --- threads that call kernels, and threads that kernels create ----------------------------------

// List of threads that call kernels. Entries are added at the front and never removed, because a
// fault handler may be iterating over the list.
std::atomic<kernel_thread*> all_threads{nullptr};
static_assert(std::atomic<kernel_thread*>::is_always_lock_free);

/// Calls `f` with the thread in the list that created the calling thread, directly or by way of
/// other threads. If this creator is unknown or has ended, calls `f` with each thread in the list.
/// Threads that are not in a kernel call are skipped.
template <class F>
void for_each_possible_maker(F f) noexcept {
  const pid_t creator = creator_of_this_thread();
  bool is_known = false;
  for (const bool any : {false, true}) {
    if (any && is_known) return;
    // Acquire pairs with the release exchange in free_entry(), so that the members of the entries
    // are visible.
    for (kernel_thread* t = all_threads.load(std::memory_order_acquire); t != nullptr;
         t = t->next) {
      // Acquire pairs with the release store in kernel_thread_entry(), so that the reset of `told`
      // is visible.
      const pid_t id = t->id.load(std::memory_order_acquire);
      if (id <= 0 || (!any && id != creator)) continue;
      is_known = true;
      if (t->current.load(std::memory_order_relaxed) != nullptr) f(*t);
    }
  }
}

bool has_maker() noexcept {
  bool any = false;
  for_each_possible_maker([&](const kernel_thread&) { any = true; });
  return any;
}

// --- signal handler ----------------------------------------------------------------------------

[[noreturn]] void die_of(int signal) noexcept {
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  ::sigaction(signal, &standard, nullptr);
  unblock(std::span(&signal, 1));
  ::syscall(SYS_tgkill, ::getpid(), ::gettid(), signal);
  ::_exit(128 + signal);
}

/// Ends the call of the kernel that created this thread. Blocks until the process ends, because
/// neither this thread nor the kernel can continue.
[[noreturn]] void end_with_maker(int signal) noexcept {
  for_each_possible_maker([&](kernel_thread& t) {
    t.told.store(signal, std::memory_order_relaxed);
    ::syscall(SYS_tgkill, ::getpid(), t.id.load(std::memory_order_relaxed), signal);
  });
  // End the process after 2 s. It usually ends earlier, when the kernel's call has returned, but
  // the call does not return if the kernel has blocked the signal.
  timespec left{.tv_sec = 2, .tv_nsec = 0};
  while (::nanosleep(&left, &left) != 0) {
  }
  die_of(signal);
}

/// Handles a signal that end_with_maker() has sent to this thread: ends the kernel call that this
/// thread is running, if there is one. Returns false for any other signal.
bool was_told(int signal, const siginfo_t& fault, ucontext_t& context) noexcept {
  kernel_thread* const self = fault_guard::this_thread();
  if (self == nullptr || fault.si_code != SI_TKILL || fault.si_pid != ::getpid() ||
      self->told.load(std::memory_order_relaxed) != signal) {
    return false;
  }
  register_image* const image = self->current.load(std::memory_order_relaxed);
  // Do nothing if the kernel has returned before the signal arrived, or if a fault of the kernel
  // itself is being reported.
  if (image == nullptr || image->frame == nullptr || rescue != nullptr) return true;
  report_line line;
  (line << "farcall: kernel ").code(image->code) << " ends with it\n";
  line.write();
  image->fault_signal = static_cast<std::uint64_t>(signal);
  machine_context(context).land(*image);
  return true;
}

extern "C" void farcall_veo_on_fault(int signal, siginfo_t* fault, void* interrupted) {
  const int error_before = errno;
  auto& context = *static_cast<ucontext_t*>(interrupted);
  if (was_told(signal, *fault, context)) {
    errno = error_before;
    return;
  }
  if (rescue != nullptr) siglongjmp(*rescue, 1);
  const bool is_access = signal == SIGSEGV || signal == SIGBUS;
  if (!is_access || !strip_tags(*fault, context)) {
    kernel_thread* const self = fault_guard::this_thread();
    register_image* const image =
        self == nullptr ? nullptr : self->current.load(std::memory_order_relaxed);
    machine_context registers(context);
    // `owner` is read relaxed, because it publishes no other data.
    const bool is_ours =
        is_of_this_process(*fault) && owner.load(std::memory_order_relaxed) == ::getpid();
    if (image == nullptr) {
      // A kernel can have created this thread only if the thread has no entry in the list. Threads
      // with an entry call kernels themselves.
      const bool is_made = is_ours && self == nullptr && has_maker();
      report(signal, *fault, registers, is_made ? victim::thread_of_kernel : victim::other,
             nullptr);
      if (is_made) end_with_maker(signal);
      die_of(signal);
    }
    report(signal, *fault, registers, victim::kernel, image);
    if (image->frame == nullptr || !is_ours) die_of(signal);
    image->fault_signal = static_cast<std::uint64_t>(signal);
    registers.land(*image);
  }
  errno = error_before;
}

} // namespace

/// Registers the calling thread, which calls kernels, in the list `all_threads`. The thread keeps
/// its entry until it ends.
class kernel_thread_entry {
 public:
  kernel_thread_entry() noexcept : thread_(free_entry()) {
    become_thread_creator();
    thread_->told.store(0, std::memory_order_relaxed);
    // Release pairs with the acquire load in for_each_possible_maker(): a thread that sees the id
    // also sees that `told` is 0.
    thread_->id.store(::gettid(), std::memory_order_release);
  }
  ~kernel_thread_entry() {
    fault_guard::this_thread_ = nullptr;
    if (thread_ != &spare_) thread_->id.store(0, std::memory_order_release);
  }
  kernel_thread_entry(const kernel_thread_entry&) = delete;
  kernel_thread_entry& operator=(const kernel_thread_entry&) = delete;

  kernel_thread* thread() const noexcept { return thread_; }

 private:
  kernel_thread* free_entry() noexcept {
    for (kernel_thread* t = all_threads.load(std::memory_order_acquire); t != nullptr;
         t = t->next) {
      pid_t none = 0;
      if (t->id.compare_exchange_strong(none, -1, std::memory_order_acquire)) return t;
    }
    auto* made = new (std::nothrow) kernel_thread;
    // Use an entry outside of the list if memory is exhausted. The only consequence is that faults
    // in threads which this kernel has created cannot end its call.
    if (made == nullptr) return &spare_;
    made->id.store(-1, std::memory_order_relaxed);
    made->next = all_threads.load(std::memory_order_relaxed);
    // Release pairs with the acquire loads of all_threads: a thread that finds this entry also sees
    // its members.
    while (!all_threads.compare_exchange_weak(made->next, made, std::memory_order_release)) {
    }
    return made;
  }

  handler_stack stack_;
  kernel_thread spare_;
  kernel_thread* thread_;
};

kernel_thread* fault_guard::join() noexcept {
  thread_local const kernel_thread_entry entry;
  this_thread_ = entry.thread();
  return this_thread_;
}

void explain_traces_by(void (*f)(std::span<void* const> places) noexcept) noexcept {
  explain.store(f, std::memory_order_relaxed);
}

void install_fault_handlers() {
  static std::atomic_flag installed;
  owner.store(::getpid(), std::memory_order_relaxed);
  // The flag is relaxed, because it only selects the call that installs the handlers. Other threads
  // see the handlers through sigaction().
  if (installed.test_and_set(std::memory_order_relaxed)) return;
  // Load the unwinder now, because the first call of backtrace() allocates memory and a fault
  // handler must not.
  std::array<void*, 4> frames{};
  ::backtrace(frames.data(), static_cast<int>(frames.size()));
  struct sigaction action{};
  action.sa_sigaction = farcall_veo_on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (const int signal : fault_signals) {
    if (::sigaction(signal, &action, nullptr) != 0) {
      throw std::system_error(errno, std::generic_category(), "handling faults of kernels");
    }
  }
}

} // namespace farcall::veo
