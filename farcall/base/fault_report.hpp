#pragma once

#include <farcall/base/language.hpp>
#include <farcall/base/node_id.hpp>

namespace farcall {

/// From now on a fault of this process (SIGSEGV, SIGBUS, SIGFPE, SIGILL) is written to standard
/// error before the process dies of it, as it would have: the signal, the address, and the
/// functions of the program that were running, with file and line where the program has them and
/// `addr2line` is installed. Frames of farcall are left out. A signal that the program, or a
/// sanitizer, handles already is left alone; so is one that another process has sent.
void report_faults(node_id self) noexcept;

} // namespace farcall
