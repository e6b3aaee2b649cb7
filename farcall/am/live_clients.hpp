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

/// Stands for one that has gone, for handles that outlive it: all of it throws error, but for what
/// is noexcept, which does nothing. Never destroyed.
[[nodiscard]] client& ended() noexcept;

} // namespace live_clients
} // namespace farcall::am
