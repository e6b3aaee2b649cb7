// SPDX-License-Identifier: Apache-2.0
#include <farcall/c/convert.hpp>
#include <farcall/c/equals.h>
#include <farcall/c/made_jobs.hpp>
#include <farcall/offload/equals.hpp>
#include <farcall/offload/job.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

using namespace farcall;
using namespace farcall::c;

fc_status fc_job_start_spmd(int* argc, char** argv, const fc_job_options* options, fc_job** job) {
  return guarded([&] {
    require(job, "job");
    given_options o = options_of(options);
    *job = made_jobs::instance().add(
        {std::move(o.output), argc == nullptr ? farcall::job(spmd, o.options)
                                              : farcall::job(spmd, *argc, argv, o.options)});
  });
}

fc_status fc_job_close(fc_job* job) {
  return guarded([&] {
    made_jobs& all = made_jobs::instance();
    fc_job* const handle = job != nullptr ? job : handle_of(job_of(job));
    all.find(handle).close();
    (void)all.take(handle);
  });
}

fc_status fc_barrier(fc_job* job, int64_t timeout_ns) {
  return guarded([&] {
    detail::job_state& state = job_of(job);
    detail::collectives_of(state, "fc_barrier()").barrier(state, deadline_in(timeout_ns));
  });
}

fc_status fc_all_gather(fc_job* job, const void* mine, size_t size, void* all, int64_t timeout_ns) {
  return guarded([&] {
    detail::job_state& state = job_of(job);
    detail::collectives& together = detail::collectives_of(state, "fc_all_gather()");
    const std::size_t nodes = state.members->nodes();
    require_size(size);
    if (size != 0) {
      require(mine, "mine");
      require(all, "all");
      require_size(size > SIZE_MAX / nodes ? SIZE_MAX : size * nodes);
    }
    together.all_gather(state, std::span(static_cast<const std::byte*>(mine), size),
                        std::span(static_cast<std::byte*>(all), size * nodes),
                        deadline_in(timeout_ns));
  });
}

fc_status fc_broadcast(fc_job* job, void* bytes, size_t size, uint32_t root, int64_t timeout_ns) {
  return guarded([&] {
    detail::job_state& state = job_of(job);
    detail::collectives& together = detail::collectives_of(state, "fc_broadcast()");
    require_size(size);
    if (size != 0) require(bytes, "bytes");
    together.broadcast(state, std::span(static_cast<std::byte*>(bytes), size), root,
                       deadline_in(timeout_ns));
  });
}

fc_status fc_progress_in_place(fc_job* job) {
  return guarded([&] { job_of(job).engine->waiter().poll_all_in_place(); });
}
