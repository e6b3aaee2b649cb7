// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Each source of this program includes this header first. The program compiles its own copy of the
/// ring, which calls ring_window() in each window between two steps; the test runs the ring's other
/// side there.
namespace farcall::test {
void ring_window(const char* name) noexcept;
}

#define FARCALL_RING_HOOK(window) ::farcall::test::ring_window(#window)
