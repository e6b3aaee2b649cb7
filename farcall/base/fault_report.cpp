// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/clock.hpp>
#include <farcall/base/code_places.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/fault_report.hpp>
#include <farcall/base/fixed_text.hpp>
#include <farcall/base/helper_scripts.hpp>
#include <farcall/base/other_threads.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>

#include <cxxabi.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#if __has_include(<execinfo.h>)
#include <execinfo.h>
#define FARCALL_HAS_BACKTRACE
#endif

// Returns the calling thread's handle in ThreadSanitizer. The address of the function is null in
// programs without ThreadSanitizer.
extern "C" [[gnu::weak]] void* current_sanitizer_thread() noexcept asm("__tsan_get_current_fiber");

namespace farcall {
namespace {

constexpr std::array signals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr std::size_t max_frames = 32;
/// Time that a report may take beyond its time limit, for instance because it is blocked.
/// Afterwards the process is ended by force.
constexpr std::chrono::milliseconds spare_time{500};
/// Size of a signal stack. The size suffices for the code of this file, and for the registers of
/// any processor.
constexpr std::size_t signal_stack_bytes = std::size_t{64} << 10;

/// Atomic, because a thread may start while report_faults() runs. Relaxed: it orders no other data.
constinit std::atomic<node_id> this_node{no_node};
/// Id of the process that called report_faults(). A forked child has another id.
pid_t this_process = 0;
fault_report_options options;
constinit std::atomic<fault_listener*> fault_hearer{nullptr};
constinit std::terminate_handler terminate_before = nullptr;
constinit std::atomic<bool> exception_is_noted{false};

fixed_text report;
fixed_text place_text; ///< the listener's first text
fixed_text names_text; ///< the listener's second text: the place, and the running functions
fixed_text lines;      ///< the running functions with their lines, as found by the scripts
fixed_text rest;       ///< second part of the report, which is written to standard error
fixed_text exception_text;
std::array<fixed_text, helper_scripts> scripts;

constinit std::atomic<int> first_signal{0}; ///< signal that ends the process
constinit std::atomic<bool> is_complete{false};

std::string_view name_of(int signal) noexcept {
  switch (signal) {
  case SIGSEGV:
    return "SIGSEGV";
  case SIGBUS:
    return "SIGBUS";
  case SIGFPE:
    return "SIGFPE";
  case SIGABRT:
    return "SIGABRT";
  default:
    return "SIGILL";
  }
}

#if defined(__x86_64__) || defined(__aarch64__) || defined(__riscv)
constexpr bool knows_registers = true;
#else
constexpr bool knows_registers = false;
#endif

/// Returns the address of the faulting instruction; 0 if unknown.
std::uintptr_t place_of([[maybe_unused]] const mcontext_t& machine) noexcept {
#if defined(__x86_64__)
  return static_cast<std::uintptr_t>(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return machine.pc;
#elif defined(__riscv)
  return machine.__gregs[REG_PC];
#else
  return 0;
#endif
}

std::uintptr_t stack_pointer([[maybe_unused]] const mcontext_t& machine) noexcept {
#if defined(__x86_64__)
  return static_cast<std::uintptr_t>(machine.gregs[REG_RSP]);
#elif defined(__aarch64__)
  return machine.sp;
#elif defined(__riscv)
  return machine.__gregs[REG_SP];
#else
  return 0;
#endif
}

/// Frame address on the thread's stack at the time when the thread made its signal_stack; 0 if the
/// thread has made none. The stack was already in use from its beginning to this address.
constinit thread_local std::uintptr_t used_before = 0;

/// True if the fault means that the thread's stack is full. In this case, `address` is just below
/// the stack pointer or, in a function with large local variables, inside these variables above it.
/// A fault beyond the beginning of the stack is no overflow, but comes from an array that is
/// overrun.
bool is_stack_overflow(const mcontext_t& machine, std::uintptr_t address) noexcept {
  constexpr std::uintptr_t below = std::uintptr_t{64} << 10;
  constexpr std::uintptr_t above = std::uintptr_t{16} << 20;
  const std::uintptr_t top = stack_pointer(machine);
  if (top < used_before + below && address >= used_before) return false;
  return top != 0 && address > top - below && address < top + above;
}

/// Returns the return address of a function that has just begun; 0 if unknown.
std::uintptr_t return_address([[maybe_unused]] const mcontext_t& machine) noexcept {
#if defined(__x86_64__)
  return *reinterpret_cast<const std::uintptr_t*>(machine.gregs[REG_RSP]);
#elif defined(__aarch64__)
  return machine.regs[30];
#elif defined(__riscv)
  return machine.__gregs[REG_RA];
#else
  return 0;
#endif
}

void add_file(fixed_text& to, const code_place& where) noexcept {
  if (*where.file != '\0') return to.add(where.file);
  to.add("/proc/");
  to.add_number(static_cast<std::uintptr_t>(::getpid()));
  to.add("/exe");
}

/// Stores the addresses of the running functions, the innermost first, and returns their number.
std::size_t frames_at(const mcontext_t& machine, std::array<std::uintptr_t, max_frames>& frames) {
  const std::uintptr_t at = place_of(machine);
  std::size_t n = 0;
  if (knows_registers && find_code(at).file == nullptr) {
    // The program has called an address that is no code, for instance a null pointer. The stack
    // cannot be followed from there, so report only the caller.
    frames[n++] = return_address(machine) - 1;
    return n;
  }
#ifdef FARCALL_HAS_BACKTRACE
  std::array<void*, max_frames> stack{};
  const auto depth = static_cast<std::size_t>(::backtrace(stack.data(), max_frames));
  const auto end = stack.begin() + static_cast<std::ptrdiff_t>(depth);
  auto from = std::find(stack.begin(), end, reinterpret_cast<void*>(at));
  // Skip the frames of this signal handler, and the system's frames that called it.
  if (from == end)
    from = stack.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(depth, 3));
  for (; from != end; ++from) {
    const auto address = reinterpret_cast<std::uintptr_t>(*from);
    // Subtract 1, because a return address is behind its call.
    frames[n++] = address == at ? address : address - 1;
  }
#else
  frames[n++] = at;
#endif
  return n;
}

/// Filter in the language of sed, which leaves only the program's own functions of the lines that
/// addr2line prints. Lines of farcall, and of functions that end a process, are deleted. The line
/// of the function that runs a call's handler is deleted with all lines after it, which are further
/// out. That function is in invoke.hpp; if lines are unknown, it is recognised by the name
/// remote_call. A lambda that the compiler has inlined into remote_call gets its name from
/// remote_call. readable_fault() filters names in the same way.
constexpr std::string_view without_own_frames =
    " -e 's/ (discriminator [0-9]*)$//' -e 's/^ *(inlined by) //'"
    " -e '/\\/farcall\\/call\\/invoke\\.hpp:/,$d'"
    " -e '/^farcall::detail::remote_call<.* at .*?$/"
    "{s/^[^<]*<\\(.*\\)>::run(.*$/    a call of \\1/;q;}'"
    " -e 's/^farcall::detail::remote_call<.*>::run(.* at /a lambda or function object at /'"
    " -e '/^\\([a-z]* \\)\\{0,1\\}farcall::\\(detail\\|am\\|job\\|serve_\\|(anonymous "
    "namespace)\\)/d'"
    " -e '/\\/farcall\\/[a-z]*\\/[a-z_]*\\.hpp:/d'"
    " -e '/^\\([?]\\|_start\\|__libc_start\\|start_thread\\|clone\\)/d'"
    " -e "
    "'/"
    "^\\(__GI_\\)\\{0,1\\}\\(abort\\|raise\\|gsignal\\|__assert_\\|__pthread_kill\\|pthread_kill\\)"
    "/d'"
    " -e '/^\\(std::terminate\\|__gnu_cxx::__verbose\\|__cxxabiv1::\\|__cxa_\\)/d'"
    " -e 's/ at [^ ]*?$//' -e 's/^/    /'";

void add_filter(fixed_text& to) noexcept {
  to.add("own() { sed");
  to.add(without_own_frames);
  to.add("; }\n");
}

/// Writes a script by which the debugger prints the frames outside of the signal handler in
/// addr2line's format. The debugger knows the functions' arguments if the program was built with
/// debug information. Without arguments, the script prints nothing, because the lines of addr2line
/// say more. The debugger reads only this thread, because the stopped threads are in signal
/// handlers, too.
void write_script_for_debugger(fixed_text& to) noexcept {
  add_filter(to);
  to.add("command -v gdb >/dev/null || exit 0\n"
         "out=$(gdb -nx -q -batch"
         " -iex 'set auto-load off' -iex 'set debuginfod enabled off' -ex 'set width 0'"
         " -ex 'set print address off' -ex 'set print entry-values no'"
         " -ex 'bt 40' -p ");
  to.add_number(static_cast<std::uintptr_t>(::syscall(SYS_gettid)));
  to.add(" | sed -n '/<signal handler called>/,$p' |"
         " sed -n -e '/^$/q' -e '/signal handler called/d' -e '/^\\[/d' -e '/^(More /d'"
         " -e 's/^#[0-9]* *\\(0x[0-9a-f]* in \\)\\{0,1\\}//'"
         " -e 's/ from [^ ]*$//' -e 's/) ()$/)/' -e '/ at /!s/$/ at ??:?/' -e p | own)\n"
         "case $out in *\\(*=*\\)*) echo \"$out\" ;; esac\n");
}

void write_script_for_lines(fixed_text& to, std::span<const code_place> frames) noexcept {
  add_filter(to);
  to.add("command -v addr2line >/dev/null || "
         "{ echo '    (addr2line, of binutils, would name the functions)'; exit; }\n"
         "out=$({ :");
  // Use one command for each file, because reading the file takes most of the time.
  const char* file = nullptr;
  for (const code_place& frame : frames) {
    if (frame.file == nullptr || std::string_view(frame.file).find('\'') != std::string_view::npos)
      continue;
    if (frame.file != file) {
      to.add("; addr2line -Cfipe '");
      add_file(to, frame);
      to.add("'");
      file = frame.file;
    }
    to.add(" ");
    to.add_address(frame.in_file);
  }
  to.add("; } | own)\n"
         "echo \"${out:-    (no function of the program has a name)}\"\n");
}

/// Returns the longest run of whole lines, from the start of the text, that a listener can get.
std::string_view told_part(const fixed_text& of) noexcept {
  std::string_view text = of.text().substr(0, max_fault_text);
  if (text.size() < of.text().size()) text = text.substr(0, text.rfind('\n'));
  while (text.ends_with('\n'))
    text.remove_suffix(1);
  return text;
}

void tell_listener(int signal, const fixed_text& where, bool has_names) noexcept {
  fault_listener* const other = fault_hearer.load(std::memory_order_acquire);
  if (other != nullptr && ::getpid() == this_process)
    other->receive_fault(signal, told_part(where), has_names);
}

/// Adds the address and the file name of code that has no symbol.
void add_address_in_file(fixed_text& to, const code_place& where) noexcept {
  const std::string_view path = *where.file == '\0' ? "the program" : where.file;
  to.add_address(where.in_file);
  to.add(" in ");
  to.add(path.substr(path.rfind('/') + 1));
}

void add_names(fixed_text& to, std::span<const code_place> frames) noexcept {
  for (const code_place& frame : frames) {
    if (frame.file == nullptr) continue;
    if (to.is_empty()) {
      to.add("in\n");
    } else if (!to.text().ends_with('\n')) {
      to.add(", in\n");
    }
    to.add("    ");
    if (frame.symbol.empty()) {
      add_address_in_file(to, frame);
    } else {
      to.add(frame.symbol);
    }
    to.add("\n");
  }
}

void begin_line(fixed_text& to) noexcept {
  to.add("farcall[");
  to.add_number(static_cast<std::uintptr_t>(::getpid()));
  to.add("] error: node ");
  to.add_number(this_node.load(std::memory_order_relaxed));
}

/// If the report on standard error is unfinished, completes it by a line that says why the rest is
/// missing.
void drop_rest(std::string_view why) noexcept {
  if (options.kind != crash_report::full || rest.is_empty() || is_complete.exchange(true)) return;
  rest.add(": the functions with their lines are left out: ");
  rest.add(why);
  rest.add("\n");
  rest.write_to(STDERR_FILENO);
}

constexpr std::string_view takes_too_long = "finding them takes too long";

[[noreturn]] void die_of(int signal) noexcept {
  struct sigaction usual{};
  usual.sa_handler = SIG_DFL;
  ::sigaction(signal, &usual, nullptr);
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  ::syscall(SYS_tgkill, ::getpid(), ::syscall(SYS_gettid), signal);
  ::_exit(128 + signal);
}

/// Handler of the alarm, which ends the process by the signal that has caused the report. The alarm
/// expires if the report takes too long, for instance because another thread holds a lock that it
/// needs. It also expires if the process goes on after the report.
void on_alarm(int /*signal*/) noexcept {
  drop_rest(takes_too_long);
  die_of(first_signal.load());
}

void set_alarm(std::chrono::milliseconds after) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(after);
  itimerval timer{};
  timer.it_value.tv_sec = seconds.count();
  timer.it_value.tv_usec = std::chrono::microseconds(after - seconds).count();
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

/// Limits the time of the report with an alarm, because the report may block on a lock. Ignores
/// SIGPIPE, because the reader of standard error may have gone.
void be_bounded() noexcept {
  struct sigaction action{};
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, nullptr);
  action.sa_handler = &on_alarm;
  ::sigaction(SIGALRM, &action, nullptr);
  // Block other signals, because the program's own handlers may wait for threads that are stopped.
  sigset_t blocked;
  ::sigfillset(&blocked);
  ::sigdelset(&blocked, SIGALRM);
  for (const int fault : signals)
    ::sigdelset(&blocked, fault);
  ::pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
  set_alarm(options.time + spare_time);
}

void add_place(fixed_text& to, int signal, const siginfo_t& info, bool is_full) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(info.si_addr);
  if (signal == SIGABRT) {
    to.add(exception_text.text());
  } else if (signal != SIGSEGV && signal != SIGBUS) {
    return;
  } else if (info.si_code == SI_KERNEL && address == 0) {
    to.add("at an address that no process can have");
  } else {
    to.add("at address ");
    to.add_address(address);
  }
  if (is_full) to.add(", for want of stack (calls too deep, or local variables too large)");
}

void write_report(int signal, const siginfo_t& info, const void* context) noexcept {
  const time_point deadline = clock::now() + options.time;
  const bool is_about_memory = signal == SIGSEGV || signal == SIGBUS;
  const mcontext_t& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
  const bool is_full =
      is_about_memory && is_stack_overflow(machine, reinterpret_cast<std::uintptr_t>(info.si_addr));
  be_bounded();
  // Stop the other threads before peers are told of the fault, because this node must not change
  // memory of peers once they consider it dead.
  if (::getpid() == this_process) stop_other_threads(signal);
  add_place(place_text, signal, info, is_full);
  tell_listener(signal, place_text, false);
  begin_line(report);
  report.add(" got ");
  report.add(name_of(signal));
  if (!place_text.is_empty()) report.add(signal == SIGABRT ? ", " : " ");
  report.add(place_text.text());
  report.add("\n");
  report.write_to(STDERR_FILENO);
  begin_line(rest);

  std::array<std::uintptr_t, max_frames> addresses{};
  std::array<code_place, max_frames> places{};
  const std::size_t n = frames_at(machine, addresses);
  std::transform(addresses.begin(), addresses.begin() + static_cast<std::ptrdiff_t>(n),
                 places.begin(), find_code);
  const std::span<code_place> frames(places.data(), n);
  find_symbols(frames);
  names_text.add(place_text.text());
  add_names(names_text, frames);
  constexpr std::string_view hint =
      "    An address of another node, captured or inside of a class, means nothing here.\n";
  const bool has_hint = is_about_memory && !is_full;
  if (has_hint && names_text.text().ends_with('\n')) names_text.add(hint);
  tell_listener(signal, names_text, true);

  if (options.kind != crash_report::full) return;
  write_script_for_debugger(scripts[0]);
  write_script_for_lines(scripts[1], frames);
  const bool was_whole = run_helper_scripts(scripts, lines, deadline, options.gives_way);
  if (!was_whole) return drop_rest(takes_too_long);
  if (is_complete.exchange(true)) return;
  rest.add(" was in\n");
  rest.add(lines.text());
  if (has_hint) rest.add(hint);
  rest.write_to(STDERR_FILENO);
}

bool was_sent_by_itself(const siginfo_t& info) noexcept {
  return info.si_code <= 0 && info.si_pid == ::getpid();
}

void on_fault(int signal, siginfo_t* info, void* context) noexcept {
  static std::atomic<pid_t> reporting{0};
  const int error_number = errno;
  // True if a process or a thread has sent the signal. In this case no instruction has caused the
  // signal, and a return from the handler repeats no faulting instruction.
  const bool is_sent = info->si_code <= 0;
  if (is_sent && stop_if_asked(info->si_pid)) {
    errno = error_number;
    return;
  }
  if (!is_sent || (signal == SIGABRT && was_sent_by_itself(*info))) {
    const auto self = static_cast<pid_t>(::syscall(SYS_gettid));
    pid_t other = 0;
    if (!reporting.compare_exchange_strong(other, self) && other != self) {
      // Another thread already reports a fault. Wait until that thread has ended the process.
      const timespec pause{.tv_sec = 3600, .tv_nsec = 0};
      for (;;)
        ::nanosleep(&pause, nullptr);
    } else if (other == 0) {
      first_signal.store(signal);
      write_report(signal, *info, context);
      // After the return from this handler, the faulting instruction normally faults again and ends
      // the process. If it does not, the alarm ends the process.
      set_alarm(spare_time);
    } else {
      drop_rest("the stack cannot be read");
    }
  }
  // Restore the default action, even if the report itself has faulted because of a broken stack.
  struct sigaction as_before{};
  as_before.sa_handler = SIG_DFL;
  ::sigaction(signal, &as_before, nullptr);
  if (is_sent) ::raise(signal);
  errno = error_number;
}

void note_exception(const std::string& type, const char* what) {
  if (exception_is_noted.exchange(true)) return;
  exception_text.add("by an uncaught exception, ");
  exception_text.add(type);
  if (what == nullptr) return;
  exception_text.add(": ");
  exception_text.add(what);
}

[[noreturn]] void on_terminate() {
  if (const std::type_info* const type = abi::__cxa_current_exception_type()) {
    try {
      throw;
    } catch (const std::exception& e) {
      note_exception(demangle(type->name()), e.what());
    } catch (...) {
      note_exception(demangle(type->name()), nullptr);
    }
  }
  if (terminate_before != nullptr) terminate_before();
  std::abort();
}

} // namespace

signal_stack::signal_stack() noexcept {
  used_before = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  stack_t present{};
  if (this_node.load(std::memory_order_relaxed) == no_node ||
      ::sigaltstack(nullptr, &present) != 0 || (present.ss_flags & SS_DISABLE) == 0)
    return;
  void* const at = ::mmap(nullptr, signal_stack_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (at == MAP_FAILED) return;
  stack_t own{};
  own.ss_sp = at;
  own.ss_size = signal_stack_bytes;
  if (::sigaltstack(&own, nullptr) == 0)
    memory_ = at;
  else
    ::munmap(at, signal_stack_bytes);
}

signal_stack::~signal_stack() {
  if (memory_ == nullptr) return;
  stack_t present{};
  // Disable this signal stack only if it is still set, because the program may have set another
  // one.
  if (::sigaltstack(nullptr, &present) == 0 && present.ss_sp == memory_) {
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    if (::sigaltstack(&none, nullptr) != 0) return;
  }
  ::munmap(memory_, signal_stack_bytes);
}

void tell_faults_to(fault_listener* other) noexcept {
  // Release, paired with the acquire load in tell_listener(), so that the listener's members are
  // visible there.
  fault_hearer.store(other, std::memory_order_release);
}

void report_faults(node_id self, const fault_report_options& o) noexcept {
  if (o.kind == crash_report::off) return;
  this_node.store(self, std::memory_order_relaxed);
  this_process = ::getpid();
  options = o;
#ifdef FARCALL_HAS_BACKTRACE
  // Call backtrace() once now, because its first call loads a library, which a signal handler must
  // not do.
  std::array<void*, 1> nothing{};
  static_cast<void>(::backtrace(nothing.data(), 1));
#endif
  for (const int signal : signals) {
    // Don't report abort() in a program with ThreadSanitizer, because ThreadSanitizer has a thread
    // in which no signal may be handled. A report would stop this thread by a signal, and the
    // process would then end by another signal than SIGABRT. ThreadSanitizer itself handles the
    // other faults.
    if (signal == SIGABRT && current_sanitizer_thread != nullptr) continue;
    struct sigaction present{};
    if (::sigaction(signal, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) continue;
    struct sigaction reported{};
    reported.sa_sigaction = &on_fault;
    reported.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigaction(signal, &reported, nullptr);
    if (signal == SIGABRT) terminate_before = std::set_terminate(&on_terminate);
  }
}

} // namespace farcall
