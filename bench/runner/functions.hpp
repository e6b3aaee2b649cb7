#pragma once

#include <farcall/call/reply.hpp>
#include <farcall/offload/future.hpp>
#include <farcall/offload/host_device.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

/// What the benchmarks run on their targets. The command starts itself as the target, so these
/// functions are there.
namespace farcall::tool::offloaded {

void nothing();
/// As nothing(): its result is there on return.
future<void> nothing_later();
/// As nothing(): replies before it returns.
void nothing_replied(reply<void> to);
/// Two doubles in, one out; on devices too.
FARCALL_HOST_DEVICE inline double add(double a, double b) { return a + b; }
double halved(double value);
std::uint64_t successor(std::uint64_t value);
/// Takes a payload as a view and looks at its ends, so that it must have arrived.
std::uint64_t ends_of(std::span<const std::byte> payload);
/// Calls of `count` on this target since the last call of it with `restart`.
std::uint64_t count(bool restart);

} // namespace farcall::tool::offloaded
