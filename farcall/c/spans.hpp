// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/c/convert.hpp>
#include <farcall/copy/transfer.hpp>

#include <cstdint>
#include <string>

/// Checks of the spans that a C program passes.
namespace farcall::c {

/// Throws error if the span has less than `bytes` bytes.
inline void require_inside(std::uint64_t bytes, const fc_span& span) {
  if (bytes > span.bytes) detail::throw_too_long(bytes, span.bytes);
}

/// Returns the job of the handle `job`, in which `span` can be used. Throws error if the span
/// belongs to another job, and invalid_argument if the job has no node with the span's number.
[[nodiscard]] inline detail::job_state& job_with(fc_job* job, const fc_span& span) {
  detail::job_state& state = job_of(job);
  if (span.reserved != 0 && span.reserved != state.mark) detail::throw_other_job(span.node);
  if (state.members->has(span.node)) return state;
  throw invalid_argument("this span is of node " + std::to_string(span.node) +
                         ", and the job has " + std::to_string(state.members->nodes()) + " nodes");
}

} // namespace farcall::c
