// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

#include <ucontext.h>

namespace farcall::veo {

/// Tags of addresses. On the host, addresses of a target process's memory carry a tag: bit 63, and
/// the number of the process in bits 62 to 59. Kernels use such addresses directly, because the
/// Vector Engine ignores the tag. aarch64 also ignores the tag. On x86-64 an access to a tagged
/// address faults; the fault handler then removes the tag from all registers and repeats the
/// instruction.

/// Sets which tags the fault handler strips: the tag of the process with the number 0 to 15, or the
/// tags of all processes for -1. Any other number disables stripping, which is also the initial
/// state. Any thread may call this function at any time.
void strip_tags_of(int process_identifier) noexcept;

/// Strips this process's tag from the registers of an interrupted thread; the fault handler calls
/// this function. Returns true if the instruction can be repeated. The repeated instruction cannot
/// fault for the same tag again, because the tag has been removed.
bool strip_tags(const siginfo_t& fault, ucontext_t& context) noexcept;

} // namespace farcall::veo
