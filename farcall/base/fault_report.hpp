// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>
#include <farcall/base/node_id.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace farcall {

/// Detail of fault reports. With `off`, there is no report. With `names`, the report names the
/// functions at once, by their symbols. With `full`, the report also has lines and arguments of the
/// functions, which takes some time.
enum class crash_report : unsigned char { off, names, full };

/// Receives the place of a fault in the process that is dying of the fault.
class fault_listener {
 public:
  /// Receives the text `where`, which continues the name of the signal, for instance "at address
  /// 0x10, in". A line with the symbol of each running function follows; see readable_fault().
  /// Called by the signal handler of the faulting thread, so it must be async-signal-safe. The
  /// other threads have been stopped. Called twice: first without names of functions, and then with
  /// names. If finding the names faults, too, there is only the first call.
  virtual void receive_fault(int signal, std::string_view where, bool has_names) noexcept = 0;

 protected:
  ~fault_listener() = default;
};

/// Longest text that a fault_listener gets.
inline constexpr std::size_t max_fault_text = 4000;

/// Sets the listener of faults, which gets them in addition to standard error; may be null. Any
/// thread.
void tell_faults_to(fault_listener* listener) noexcept;

/// Makes the text that a fault_listener gets readable. Replaces symbols by the names that functions
/// have in the source code. Removes the lines of farcall's own functions, and of functions further
/// out than a call's handler.
[[nodiscard]] std::string readable_fault(std::string_view where);

/// Returns a text that ends with a text of readable_fault() as one line, for the log: with commas
/// between the functions, and the advice about addresses in parentheses.
[[nodiscard]] std::string fault_in_one_line(std::string_view text);

struct fault_report_options {
  crash_report kind = crash_report::full;
  /// Time limit for the whole report, after which the process ends.
  std::chrono::milliseconds time{3000};
  /// True if the search for lines uses only CPU time that no other process wants, because other
  /// processes may be about to report faults themselves.
  bool gives_way = true;
};

/// From now on, reports faults of this process (SIGSEGV, SIGBUS, SIGFPE, SIGILL) and abort(). The
/// report goes to the listener at once, and to standard error. Afterwards the process dies of the
/// fault, as it would have without a report. The report has the signal, the address and the
/// program's running functions. It has files and lines if the program has them and `addr2line` is
/// installed, and arguments if `gdb` is installed and may attach. Frames of farcall are omitted.
/// Signals that the program or a sanitizer already handles are left to them; signals from other
/// processes are not reported.
void report_faults(node_id self, const fault_report_options& o = {}) noexcept;

/// A stack for signal handlers of the thread that has made this object, as long as the object
/// lives. A thread whose own stack is full needs another stack to report its fault. Does nothing if
/// faults are not reported, if the thread has such a stack already, or if memory has run out.
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
