#pragma once

/// Call any C++ function somewhere else. Start with job.hpp and call.hpp.

#include <farcall/call/register_callables.hpp>
#include <farcall/call/reply.hpp>
#include <farcall/offload/buffer.hpp>
#include <farcall/offload/call.hpp>
#include <farcall/offload/combine.hpp>
#include <farcall/offload/coroutine.hpp>
#include <farcall/offload/future.hpp>
#include <farcall/offload/in_order.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/offload/map.hpp>
#include <farcall/offload/node.hpp>
#include <farcall/offload/promise.hpp>
#include <farcall/offload/shared_future.hpp>
#include <farcall/offload/task.hpp>
#include <farcall/offload/transfer.hpp>
#include <farcall/offload/via.hpp>
#include <farcall/trace/trace_range.hpp>
