// SPDX-License-Identifier: Apache-2.0
#pragma once

/// GPUs as nodes: functions with code for devices, launches, and operations on devices. Readers
/// should start with device_fn.hpp and device.hpp. May be compiled by CUDA's compiler or any other.
/// Includes farcall.hpp.

#include <farcall/async/call.hpp>
#include <farcall/async/combine.hpp>
#include <farcall/async/coroutine.hpp>
#include <farcall/async/future.hpp>
#include <farcall/async/node.hpp>
#include <farcall/call/register_callables.hpp>
#include <farcall/copy/buffer.hpp>
#include <farcall/copy/transfer.hpp>
#include <farcall/gpu/device.hpp>
#include <farcall/gpu/device_calls.hpp>
#include <farcall/gpu/device_fn.hpp>
#include <farcall/gpu/grid.hpp>
#include <farcall/gpu/handler.hpp>
#include <farcall/gpu/team.hpp>
#include <farcall/offload/job.hpp>
