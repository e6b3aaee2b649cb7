// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/memory/counter_segment.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace farcall {

class members;
struct card;
struct process_counters;
struct route;

namespace detail {

struct job_state;

/// Makes the memory segment that contains the counters of this process's calls and copies. If
/// memory or file descriptors are lacking, writes this to the log and returns null; the process
/// then has no counters.
[[nodiscard]] std::shared_ptr<counter_segment> make_counters(const members& members);

/// Returns the counts that job::counters() describes. Throws what that function throws.
[[nodiscard]] process_counters counters_of(job_state& job);

/// Adds a node's description and route to the counters, so that tools can show them. Throws
/// std::bad_alloc.
void describe_peer(job_state& state, const card& c, const route& r);

/// Adds the name of a function to the counters of all jobs of this process, also of later ones.
/// `handler` is the name of the handler that calls the function if a request has the function
/// handle `handle`. Call this function once for each function. Does nothing if there is no memory.
void name_in_counters(const std::string& handler, std::uint32_t handle,
                      const std::string& name) noexcept;

} // namespace detail
} // namespace farcall
