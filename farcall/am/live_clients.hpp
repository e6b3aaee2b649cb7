// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

namespace farcall::am {

class client;

/// Registry of the engines that exist in this process. An event may outlive its engine, for example
/// if a promise is kept after its job has ended. The event therefore asks the registry whether its
/// engine still exists. If a new engine has the same address by now, the event uses the new engine,
/// which does no harm. Any thread may use the registry.
namespace live_clients {

void add(const client& c) noexcept;
void remove(const client& c) noexcept;
[[nodiscard]] bool has(const client* c) noexcept;

/// Returns a client that replaces clients that have ended, for handles that outlive their client.
/// Its functions throw error, and its noexcept functions do nothing. Never destroyed.
[[nodiscard]] client& ended() noexcept;

} // namespace live_clients
} // namespace farcall::am
