// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "options.hpp"

namespace farcall::bench {

/// Role of a process that will be killed: makes a call, reports it on standard output, and keeps
/// workers on the device until the end.
int hold_device(const options& o);

/// Makes one call and reports it.
int call_once(const options& o);

/// Makes a call that never ends, prints a diagnosis on standard error, gives the device up, reports
/// that, and ends like any process.
int spin_and_give_up(const options& o);

/// Ends like a program that calls exit() while it works: the job is not ended, and its workers
/// stay.
int exit_with_workers(const options& o);

} // namespace farcall::bench
