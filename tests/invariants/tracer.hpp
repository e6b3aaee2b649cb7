// SPDX-License-Identifier: Apache-2.0
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

/// System calls by window, the number given to mark().
using traced_calls = std::map<unsigned long, std::vector<traced_call>>;

enum class mark_kind : unsigned long { begin = 0x66613, end = 0x66614 };

/// Begins or ends a window in the traced program. This is a system call without an effect, which is
/// not counted.
void mark(mark_kind kind, unsigned long window) noexcept;

struct trace_result {
  bool was_allowed = false; ///< false if the system does not allow tracing
  int status = -1;          ///< exit status of the program
  traced_calls calls;
};

/// Runs this program again with `variable` set to 1, and traces it to its end.
[[nodiscard]] trace_result trace_self(const char* variable);

/// Returns, for example, "12 x system call 202 by thread 34; ".
[[nodiscard]] std::string text_of(const std::vector<traced_call>& calls);

} // namespace farcall::test
