#include <farcall/base/clock.hpp>
#include <farcall/base/fault_report.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string_view>

#include <dlfcn.h>
#include <link.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#if __has_include(<execinfo.h>)
#include <execinfo.h>
#define FARCALL_HAS_BACKTRACE
#endif

namespace farcall {
namespace {

constexpr std::array signals{SIGSEGV, SIGBUS, SIGFPE, SIGILL};
constexpr std::size_t most_frames = 32;
/// That long the one who looks up lines may take.
constexpr std::chrono::seconds patience{15};
/// Enough for what this file does, and for the registers of any processor.
constexpr std::size_t signal_stack_bytes = std::size_t{64} << 10;

node_id this_node = no_node;
constinit std::atomic<fault_listener*> fault_hearer{nullptr};

/// Text in a place of its own: a thread that faults may hold malloc's lock.
class fixed_text {
 public:
  void add(std::string_view text) noexcept {
    const std::size_t n = std::min(text.size(), bytes_.size() - 1 - size_);
    std::copy_n(text.data(), n, bytes_.data() + size_);
    size_ += n;
  }
  void add_number(std::uintptr_t number, int base) noexcept {
    std::array<char, 24> digits{};
    const auto done = std::to_chars(digits.data(), digits.data() + digits.size(), number, base);
    add({digits.data(), done.ptr});
  }
  void add_address(std::uintptr_t address) noexcept {
    add("0x");
    add_number(address, 16);
  }
  void write() const noexcept {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, bytes_.data(), size_);
  }
  /// What is in a file, from its beginning, as far as there is space.
  void add_file(int file) noexcept {
    const ssize_t got = ::pread(file, bytes_.data() + size_, bytes_.size() - 1 - size_, 0);
    if (got > 0) size_ += static_cast<std::size_t>(got);
  }
  /// Ends with a zero, as the rest of the bytes.
  [[nodiscard]] char* data() noexcept { return bytes_.data(); }
  [[nodiscard]] std::string_view text() const noexcept { return {bytes_.data(), size_}; }

 private:
  std::array<char, 16384> bytes_{};
  std::size_t size_ = 0;
};

fixed_text report;
fixed_text place_text; ///< the report, but for its beginning
fixed_text script;
fixed_text hint;

std::string_view name_of(int signal) noexcept {
  switch (signal) {
  case SIGSEGV:
    return "SIGSEGV";
  case SIGBUS:
    return "SIGBUS";
  case SIGFPE:
    return "SIGFPE";
  default:
    return "SIGILL";
  }
}

#if defined(__x86_64__) || defined(__aarch64__) || defined(__riscv)
constexpr bool knows_registers = true;
#else
constexpr bool knows_registers = false;
#endif

/// The instruction at fault; 0 where this is not known.
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

/// An address in the stack that the thread had used up to its signal_stack; 0: it has none.
constinit thread_local std::uintptr_t used_before = 0;

/// Whether code reached for the end of its stack: just below what it used, or, with large local
/// variables, somewhere in them. Not beyond its beginning, where arrays that are overrun end.
bool is_stack_overflow(const mcontext_t& machine, std::uintptr_t address) noexcept {
  constexpr std::uintptr_t below = std::uintptr_t{64} << 10;
  constexpr std::uintptr_t above = std::uintptr_t{16} << 20;
  const std::uintptr_t top = stack_pointer(machine);
  if (top < used_before + below && address >= used_before) return false;
  return top != 0 && address > top - below && address < top + above;
}

/// Where a function that has just begun will return to; 0 where this is not known.
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

/// Where code lies: in which file, at which address there.
struct place_in_file {
  const char* file = nullptr; ///< null: in none; empty: in the program
  std::uintptr_t address = 0;
};

place_in_file find(std::uintptr_t address) noexcept {
  Dl_info info{};
  void* map = nullptr;
  if (::dladdr1(reinterpret_cast<void*>(address), &info, &map, RTLD_DL_LINKMAP) == 0) return {};
  const auto* const module = static_cast<const link_map*>(map);
  return {module->l_name, address - module->l_addr};
}

void add_file(fixed_text& to, const place_in_file& where) noexcept {
  if (*where.file != '\0') return to.add(where.file);
  to.add("/proc/");
  to.add_number(static_cast<std::uintptr_t>(::getpid()), 10);
  to.add("/exe");
}

/// Addresses of the functions that were running, the innermost first.
std::size_t frames_at(const mcontext_t& machine, std::array<std::uintptr_t, most_frames>& frames) {
  const std::uintptr_t at = place_of(machine);
  std::size_t n = 0;
  if (knows_registers && find(at).file == nullptr) {
    // A call of what is no function; who made it is all that can be told.
    frames[n++] = return_address(machine) - 1;
    return n;
  }
#ifdef FARCALL_HAS_BACKTRACE
  std::array<void*, most_frames> stack{};
  const auto depth = static_cast<std::size_t>(::backtrace(stack.data(), most_frames));
  const auto end = stack.begin() + static_cast<std::ptrdiff_t>(depth);
  auto from = std::find(stack.begin(), end, reinterpret_cast<void*>(at));
  // Behind this handler and what the system calls it by.
  if (from == end)
    from = stack.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(depth, 3));
  for (; from != end; ++from) {
    const auto address = reinterpret_cast<std::uintptr_t>(*from);
    // A return address is behind its call.
    frames[n++] = address == at ? address : address - 1;
  }
#else
  frames[n++] = at;
#endif
  return n;
}

/// What becomes of addr2line's lines, in sed's words: those of farcall go, and all that is further
/// out than a call's handler, which is in invoke.hpp, or a remote_call where lines are not known.
/// Where the compiler has put a lambda into that, its line goes by the name of the latter.
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
    " -e 's/ at [^ ]*?$//' -e 's/^/    /'";

/// The frames behind the signal handler, as addr2line would write them. The debugger knows
/// arguments where the program was built for it; without any, addr2line's lines say more.
void add_lines_of_debugger(fixed_text& to) noexcept {
  // Ended by what it cannot put off, as it does while it reads a large program.
  to.add("out=$({ command -v gdb >/dev/null && timeout -s KILL 4 gdb -nx -q -batch"
         " -iex 'set auto-load off' -iex 'set debuginfod enabled off' -ex 'set width 0'"
         " -ex 'set print address off' -ex 'set print entry-values no'"
         " -ex 'thread apply all -q -s bt 40' -p ");
  to.add_number(static_cast<std::uintptr_t>(::getpid()), 10);
  to.add(" </dev/null; } 2>/dev/null | sed -n '/<signal handler called>/,/^$/p' |"
         " sed -n -e '/^$/q' -e '/signal handler called/d' -e '/^\\[/d'"
         " -e 's/^#[0-9]* *\\(0x[0-9a-f]* in \\)\\{0,1\\}//'"
         " -e 's/ from [^ ]*$//' -e 's/) ()$/)/' -e '/ at /!s/$/ at ??:?/' -e p | own)\n"
         // A debugger that was ended in the middle may leave the process stopped.
         "kill -CONT $PPID\n"
         "case $out in *\\(*=*\\)*) ;; *) out= ;; esac\n");
}

/// A command that writes the functions with their lines, without those of farcall, to standard
/// error and to `copy`.
void write_script(const std::array<std::uintptr_t, most_frames>& frames, std::size_t n,
                  int copy) noexcept {
  script.add("own() { sed");
  script.add(without_own_frames);
  script.add("; }\n");
  add_lines_of_debugger(script);
  script.add("[ -n \"$out\" ] || command -v addr2line >/dev/null 2>&1 ||"
             " out='    (addr2line, of binutils, would name the functions)'\n"
             "[ -n \"$out\" ] || out=$({ :");
  // One command for all that lie in one file: reading it takes most of the time.
  const char* file = nullptr;
  for (std::size_t i = 0; i != n; ++i) {
    const place_in_file where = find(frames[i]);
    if (where.file == nullptr || std::string_view(where.file).find('\'') != std::string_view::npos)
      continue;
    if (where.file != file) {
      script.add("; addr2line -Cfipe '");
      add_file(script, where);
      script.add("'");
      file = where.file;
    }
    script.add(" ");
    script.add_address(where.address);
  }
  script.add("; } 2>/dev/null | own)\n"
             "out=${out:-    (no function of the program has a name)}\n"
             "echo \"$out\" >&2\n"
             "{ echo \"$out\" >/proc/self/fd/");
  // By its name: some shells know descriptors of one digit only.
  script.add_number(static_cast<std::uintptr_t>(copy), 10);
  script.add("; } 2>/dev/null");
}

/// As much of the text as others are told, in whole lines.
void tell_listener() noexcept {
  fault_listener* const other = fault_hearer.load(std::memory_order_acquire);
  if (other == nullptr) return;
  std::string_view text = place_text.text().substr(0, longest_fault_text);
  if (text.size() < place_text.text().size()) text = text.substr(0, text.rfind('\n'));
  while (text.ends_with('\n'))
    text.remove_suffix(1);
  other->hear_fault(text);
}

/// Bounded: what it waits for may hang.
void run_script() noexcept {
  std::array<char, 8> shell{"/bin/sh"};
  std::array<char, 3> option{"-c"};
  std::array<char*, 4> arguments{shell.data(), option.data(), script.data(), nullptr};
  pid_t child = 0;
#ifdef PR_SET_PTRACER
  // The debugger is no parent of this process.
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
#endif
  if (::posix_spawn(&child, shell.data(), nullptr, nullptr, arguments.data(), environ) != 0) return;
  const time_point deadline = clock::now() + patience;
  while (::waitpid(child, nullptr, WNOHANG) == 0) {
    if (clock::now() >= deadline) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      return;
    }
    const timespec pause{.tv_sec = 0, .tv_nsec = 1'000'000};
    ::nanosleep(&pause, nullptr);
  }
}

/// Whatever the report waits for, as a lock that another thread holds, the process ends: by SIGALRM
/// then. And who reads standard error may have gone.
void be_bounded() noexcept {
  struct sigaction action{};
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, nullptr);
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGALRM, &action, nullptr);
  sigset_t alarms;
  ::sigemptyset(&alarms);
  ::sigaddset(&alarms, SIGALRM);
  ::pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr);
  ::alarm(static_cast<unsigned>(patience.count()) + 1);
}

void write_report(int signal, const siginfo_t& info, const void* context) noexcept {
  const bool is_about_memory = signal == SIGSEGV || signal == SIGBUS;
  const mcontext_t& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
  const auto address = reinterpret_cast<std::uintptr_t>(info.si_addr);
  const bool is_full = is_about_memory && is_stack_overflow(machine, address);
  report.add("farcall[");
  report.add_number(static_cast<std::uintptr_t>(::getpid()), 10);
  report.add("] error: node ");
  report.add_number(this_node, 10);
  report.add(" got ");
  report.add(name_of(signal));
  if (is_about_memory && info.si_code == SI_KERNEL && address == 0) {
    place_text.add("at an address that no process can have, ");
  } else if (is_about_memory) {
    place_text.add("at address ");
    place_text.add_address(address);
    place_text.add(", ");
  }
  if (is_full) place_text.add("for want of stack (calls too deep, or local variables too large), ");
  place_text.add("in\n");
  report.add(is_about_memory ? " " : ", ");
  report.add(place_text.text());
  be_bounded();
  report.write();
  tell_listener();
  // Not closed on exec: the script has it, too.
  const int copy = ::memfd_create("farcall-fault", 0);
  std::array<std::uintptr_t, most_frames> frames{};
  write_script(frames, frames_at(machine, frames), copy);
  run_script();
  if (copy >= 0) place_text.add_file(copy);
  if (is_about_memory && !is_full) {
    hint.add(
        "    An address of another node, captured or inside of a class, means nothing here.\n");
    hint.write();
    place_text.add(hint.text());
  }
  tell_listener();
}

void on_fault(int signal, siginfo_t* info, void* context) noexcept {
  static std::atomic<pid_t> reporting{0};
  const int error_number = errno;
  // Sent by a process, or by the thread itself: no instruction is at fault, so none is repeated.
  const bool is_sent = info->si_code <= 0;
  if (!is_sent) {
    const auto self = static_cast<pid_t>(::syscall(SYS_gettid));
    pid_t other = 0;
    if (!reporting.compare_exchange_strong(other, self) && other != self) {
      // It ends the process.
      const timespec pause{.tv_sec = patience.count() * 2, .tv_nsec = 0};
      ::nanosleep(&pause, nullptr);
    } else if (other == 0) {
      write_report(signal, *info, context);
    }
  }
  // Also where reading a broken stack for the report has faulted.
  struct sigaction as_before{};
  as_before.sa_handler = SIG_DFL;
  ::sigaction(signal, &as_before, nullptr);
  if (is_sent) ::raise(signal);
  errno = error_number;
}

} // namespace

signal_stack::signal_stack() noexcept {
  used_before = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  stack_t present{};
  if (this_node == no_node || ::sigaltstack(nullptr, &present) != 0 ||
      (present.ss_flags & SS_DISABLE) == 0)
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
  // The program may have set up another since.
  if (::sigaltstack(nullptr, &present) == 0 && present.ss_sp == memory_) {
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    if (::sigaltstack(&none, nullptr) != 0) return;
  }
  ::munmap(memory_, signal_stack_bytes);
}

void tell_faults_to(fault_listener* other) noexcept {
  // Release; partner: the acquire load in tell_listener().
  fault_hearer.store(other, std::memory_order_release);
}

void report_faults(node_id self) noexcept {
  this_node = self;
#ifdef FARCALL_HAS_BACKTRACE
  // The first call loads a library, which a handler must not.
  std::array<void*, 1> nothing{};
  static_cast<void>(::backtrace(nothing.data(), 1));
#endif
  for (const int signal : signals) {
    struct sigaction present{};
    if (::sigaction(signal, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) continue;
    struct sigaction reported{};
    reported.sa_sigaction = &on_fault;
    reported.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigaction(signal, &reported, nullptr);
  }
}

} // namespace farcall
