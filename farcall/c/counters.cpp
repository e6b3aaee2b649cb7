// SPDX-License-Identifier: Apache-2.0
#include <farcall/c/convert.hpp>
#include <farcall/memory/process_counters.hpp>
#include <farcall/offload/job_counters.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

using namespace farcall;
using namespace farcall::c;

namespace {

fc_counter_values sums_of(const process_counters& all) {
  fc_counter_values sums{};
  for (const process_counters::caller& c : all.callers) {
    sums.calls += c.calls;
    sums.posts += c.posts;
    sums.replies += c.answers;
    sums.failures += c.failures;
    sums.bytes_sent += c.bytes_out;
    sums.bytes_received += c.bytes_in;
    sums.full += c.full;
  }
  for (const process_counters::server& s : all.servers) {
    sums.bytes_sent += s.bytes_out;
    sums.bytes_received += s.bytes_in;
  }
  for (const process_counters::worker& w : all.workers) {
    sums.served += w.requests;
    sums.sleeps += w.sleeps;
  }
  for (const process_counters::thread& t : all.threads) {
    sums.puts += t.puts;
    sums.gets += t.gets;
    sums.copies += t.copies;
    sums.bytes_put += t.bytes_put;
    sums.bytes_got += t.bytes_got;
    sums.bytes_copied += t.bytes_copied;
    sums.sleeps += t.sleeps;
  }
  return sums;
}

} // namespace

fc_status fc_counters(fc_job* job, fc_counter_values* values) {
  return guarded([&] {
    require(values, "values");
    const std::size_t size = values->size;
    if (size < sizeof values->size) {
      throw invalid_argument("fc_counter_values.size is " + std::to_string(size) +
                             "; set it to sizeof(fc_counter_values)");
    }
    fc_counter_values sums = sums_of(detail::counters_of(job_of(job)));
    sums.size = size;
    // Fill only the members that the program's header has. Members of a later version stay 0.
    std::memset(values, 0, size);
    std::memcpy(values, &sums, std::min(size, sizeof sums));
  });
}
