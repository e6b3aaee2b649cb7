#pragma once

#include <csignal>

#include <ucontext.h>

namespace farcall::veo {

/// Addresses of memory in a target process carry a tag at the host: bit 63, and in bits 62 to 59
/// the number of the process. The vector engine ignores the tag, so kernels use such addresses as
/// they are. aarch64 ignores it too; on x86-64 the access faults, and the fault handler takes the
/// tag out of all registers and tries again.

/// Says which tag is this process's own: 0 to 15, or -1 for all of them. Before the first call, or
/// with another number, tags are not touched. Any thread, at any time.
void strip_tags_of(int process_identifier) noexcept;

/// For the fault handler: whether it was our tag, and the instruction can be tried again.
/// Never twice for the same fault, since a tag that was taken out does not come back.
bool strip_tags(const siginfo_t& fault, ucontext_t& context) noexcept;

} // namespace farcall::veo
