#pragma once

/// GPUs as nodes: functions that have code for devices, launches, and what a device is asked. Start
/// with device_fn.hpp and device.hpp. In a file that CUDA's compiler reads, and elsewhere too.
/// Brings what farcall.hpp brings.

#include <farcall/call/register_callables.hpp>
#include <farcall/gpu/device.hpp>
#include <farcall/gpu/device_calls.hpp>
#include <farcall/gpu/device_fn.hpp>
#include <farcall/gpu/grid.hpp>
#include <farcall/gpu/handler.hpp>
#include <farcall/gpu/team.hpp>
#include <farcall/offload/buffer.hpp>
#include <farcall/offload/call.hpp>
#include <farcall/offload/combine.hpp>
#include <farcall/offload/coroutine.hpp>
#include <farcall/offload/future.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/offload/node.hpp>
#include <farcall/offload/transfer.hpp>
