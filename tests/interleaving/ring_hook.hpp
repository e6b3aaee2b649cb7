#pragma once

/// Included ahead of everything else in this program, which has a copy of the ring of its own: the
/// ring then stops in each of its windows and lets the test run the other side there.
namespace farcall::test {
void ring_window(const char* name) noexcept;
}

#define FARCALL_RING_HOOK(window) ::farcall::test::ring_window(#window)
