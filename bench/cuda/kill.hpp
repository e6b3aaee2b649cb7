#pragma once

#include "options.hpp"

namespace farcall::bench {

/// In a process that was started to be killed: makes a call, says so on standard output, and keeps
/// workers on the device until then.
int hold_device(const options& o);

/// Makes one call and says so.
int call_once(const options& o);

/// Makes a call that never ends, says on standard error what is known of it, gives the device up,
/// says so, and ends as any process does.
int spin_and_give_up(const options& o);

/// Ends as a program that calls exit() in the middle: its job is not ended, and its workers stay.
int exit_with_workers(const options& o);

} // namespace farcall::bench
