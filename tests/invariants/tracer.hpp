#pragma once

#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

/// Counts the system calls of a program and of all processes that it starts, between two marks.
namespace farcall::test {

/// A system call that was made between two marks.
struct traced_call {
  pid_t thread = 0;
  unsigned long number = 0;
};

/// By the number given to mark().
using traced_calls = std::map<unsigned long, std::vector<traced_call>>;

enum class mark_kind : unsigned long { begin = 0x66613, end = 0x66614 };

/// In the traced program: from here, or up to here, calls count for `window`. Itself a system call
/// that does nothing and is not counted.
void mark(mark_kind kind, unsigned long window) noexcept;

struct trace_result {
  bool was_allowed = false; ///< false: this system lets nobody trace
  int status = -1;          ///< exit status of the program
  traced_calls calls;
};

/// Runs this program again with `variable` set to 1, traced, to its end.
[[nodiscard]] trace_result trace_self(const char* variable);

/// "12 x futex (202) by thread 34, …"
[[nodiscard]] std::string text_of(const std::vector<traced_call>& calls);

} // namespace farcall::test
