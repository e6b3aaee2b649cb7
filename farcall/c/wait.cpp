// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/interrupt.hpp>
#include <farcall/async/wait_any.hpp>
#include <farcall/c/convert.hpp>
#include <farcall/c/future.hpp>

#include <algorithm>
#include <span>
#include <vector>

using namespace farcall;
using namespace farcall::c;

fc_status fc_wait_all(fc_future* const* futures, size_t count, int64_t timeout_ns) {
  return guarded([&] {
    if (count != 0) require(futures, "futures");
    const time_point end = deadline_in(timeout_ns);
    for (fc_future* f : std::span(futures, count)) {
      if (f == nullptr) continue;
      const auto left = end == no_deadline
                            ? std::chrono::nanoseconds(-1)
                            : std::max(end - clock::now(), std::chrono::nanoseconds::zero());
      if (const fc_status status = fc_future_wait(f, left.count()); status != FC_OK) return status;
    }
    return FC_OK;
  });
}

fc_status fc_wait_any(fc_future* const* futures, size_t count, int64_t timeout_ns, size_t* index) {
  return guarded_wait([&] {
    if (count != 0) require(futures, "futures");
    require(index, "index");
    std::vector<am::completion*> states;
    std::vector<std::size_t> places;
    time_point earliest = no_deadline;
    for (std::size_t i = 0; i < count; ++i) {
      if (futures[i] == nullptr) continue;
      if (fc_future_test(futures[i])) {
        *index = i;
        return FC_OK;
      }
      states.push_back(state_of(*futures[i]));
      places.push_back(i);
      earliest = std::min(earliest, deadline_of(*futures[i]));
    }
    if (states.empty()) throw invalid_argument("there is no future to wait for");
    if (const auto ready = detail::wait_any(states, std::min(deadline_in(timeout_ns), earliest))) {
      *index = places[*ready];
      return FC_OK;
    }
    // If the deadline of a call has passed, report its future as ready, as fc_future_test() does.
    const auto late = std::find_if(places.begin(), places.end(), [&](std::size_t place) {
      return detail::has_passed(deadline_of(*futures[place]));
    });
    if (late == places.end()) return fail(FC_TIMEOUT, "none of the futures was ready in time");
    *index = *late;
    return FC_OK;
  });
}

void fc_set_interrupt(fc_interrupt is_interrupted, void* user) {
  am::thread_interrupt = {is_interrupted, user};
}
