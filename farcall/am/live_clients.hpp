#pragma once

#include <farcall/base/language.hpp>

namespace farcall::am {

class client;

/// Which engines of this process are there, for events that may outlive theirs: what depends on a
/// promise of the program's ends when that is kept, perhaps after the job. A later engine may have
/// the same address, and is as good to ask. Any thread.
namespace live_clients {

void add(const client& c) noexcept;
void remove(const client& c) noexcept;
[[nodiscard]] bool has(const client* c) noexcept;

/// Client in place of one that has ended, for handles that outlive it. Its functions throw error;
/// noexcept functions do nothing. Never destroyed.
[[nodiscard]] client& ended() noexcept;

} // namespace live_clients
} // namespace farcall::am
