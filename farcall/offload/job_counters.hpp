#pragma once

#include <farcall/memory/counter_segment.hpp>

#include <memory>

namespace farcall {

class membership;
struct card;
struct route;

namespace detail {

struct job_state;

/// Where this process counts its part in the job. Null where it cannot be had, which is logged:
/// nobody reads then what is counted.
[[nodiscard]] std::shared_ptr<counter_segment> make_counters(const membership& members);

/// Tells readers of the counters who a node is, and how it is reached. Throws std::bad_alloc.
void describe_peer(job_state& state, const card& c, const route& r);

} // namespace detail
} // namespace farcall
