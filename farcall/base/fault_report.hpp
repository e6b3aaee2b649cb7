#pragma once

#include <farcall/base/language.hpp>
#include <farcall/base/node_id.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace farcall {

/// How much is told of a fault: nothing; the functions by their symbols, at once; and the same with
/// lines and arguments, which follow.
enum class crash_report : unsigned char { off, names, full };

/// Hears where this process faults, while it dies of that.
class fault_listener {
 public:
  /// As one reads it behind the name of the signal: "at address 0x10, in" and a line for each
  /// function, by its symbol; see readable_fault(). Called in the thread that faults, by its signal
  /// handler: only what is allowed there. All other threads have stopped. Twice: first without
  /// names, which is the only time if finding them faults, too.
  virtual void hear_fault(int signal, std::string_view where, bool has_names) noexcept = 0;

 protected:
  ~fault_listener() = default;
};

/// Longest text that a fault_listener gets.
inline constexpr std::size_t longest_fault_text = 4000;

/// Who is told of faults from now on, besides standard error; null: nobody. Any thread.
void tell_faults_to(fault_listener* listener) noexcept;

/// Makes a text that a fault_listener got readable: functions by the names that programs have for
/// them, without farcall's own, and without what has called the handler of a call.
[[nodiscard]] std::string readable_fault(std::string_view where);

struct fault_report_options {
  crash_report kind = crash_report::full;
  /// For all of the report; then the process ends.
  std::chrono::milliseconds time{3000};
  /// True if looking for lines must not delay other processes, which may be about to tell of
  /// faults.
  bool gives_way = true;
};

/// From now on a fault of this process (SIGSEGV, SIGBUS, SIGFPE, SIGILL), and its abort(), is
/// told to the listener at once, and written to standard error before the process dies of it, as it
/// would have: the signal, the address, and the functions of the program that were running, with
/// file and line where the program has them and `addr2line` is installed; with their arguments
/// where `gdb` is, too, and may attach. Frames of farcall are left out. A signal that the program,
/// or a sanitizer, handles already is left alone; so is one that another process has sent.
void report_faults(node_id self, const fault_report_options& o = {}) noexcept;

/// A stack for signal handlers, used by the thread that has made it for as long as it lives: a
/// thread whose own stack is full can report its fault on no other. Nothing where faults are not
/// reported, where the thread has one already, or where there is no memory for it.
class signal_stack {
 public:
  signal_stack() noexcept;
  signal_stack(const signal_stack&) = delete;
  signal_stack& operator=(const signal_stack&) = delete;
  ~signal_stack();

 private:
  void* memory_ = nullptr;
};

} // namespace farcall
