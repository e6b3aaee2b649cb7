// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Includes all headers for calls of C++ functions on other nodes. Start reading with job.hpp and
/// call.hpp.

#include <farcall/async/balanced_map.hpp>
#include <farcall/async/call.hpp>
#include <farcall/async/combine.hpp>
#include <farcall/async/coroutine.hpp>
#include <farcall/async/future.hpp>
#include <farcall/async/map.hpp>
#include <farcall/async/node.hpp>
#include <farcall/async/promise.hpp>
#include <farcall/async/shared_future.hpp>
#include <farcall/async/task.hpp>
#include <farcall/async/via.hpp>
#include <farcall/call/register_callables.hpp>
#include <farcall/call/reply.hpp>
#include <farcall/copy/buffer.hpp>
#include <farcall/copy/in_order.hpp>
#include <farcall/copy/transfer.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/trace/trace_range.hpp>
