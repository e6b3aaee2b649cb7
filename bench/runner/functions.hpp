// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/future.hpp>
#include <farcall/async/host_device.hpp>
#include <farcall/call/reply.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

/// Functions that the benchmarks call on their targets, which run this same program.
namespace farcall::tool::offloaded {

void nothing();
/// Like nothing(), but returns a future, which is ready.
future<void> nothing_later();
/// Like nothing(), but replies by a deferred reply, before it returns.
void nothing_replied(reply<void> to);
/// Adds two doubles; also on devices.
FARCALL_HOST_DEVICE inline double add(double a, double b) { return a + b; }
double halved(double value);
std::uint64_t successor(std::uint64_t value);
/// Takes a payload as a view and reads its ends, so that the payload must have arrived.
std::uint64_t ends_of(std::span<const std::byte> payload);
/// Returns the calls of `count` on this target since the last call with `restart`.
std::uint64_t count(bool restart);

} // namespace farcall::tool::offloaded
