// SPDX-License-Identifier: Apache-2.0
#include "variants.hpp"

#include "offload.hpp"

#include <bench/runner/functions.hpp>
#include <tools/common/pinning.hpp>

#include <farcall/base/library_thread.hpp>
#include <farcall/base/unique_fd.hpp>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <latch>
#include <vector>

#include <fmt/format.h>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace farcall::tool {
namespace {

/// Calls that wake a thread, in a batch: few, since they take a thousand times as long as others.
constexpr std::size_t wake_ups = 100;

void add_one(const unique_fd& fd) {
  const std::uint64_t one = 1;
  require(::write(fd.get(), &one, sizeof one) == sizeof one, "a count added to an eventfd");
}

std::uint64_t take(const unique_fd& fd) {
  std::uint64_t count = 0;
  require(::read(fd.get(), &count, sizeof count) == sizeof count, "a count taken from an eventfd");
  return count;
}

figure measure_eventfd(bench_session& session, std::size_t batches) {
  const unique_fd there{::eventfd(0, EFD_CLOEXEC)};
  const unique_fd back{::eventfd(0, EFD_CLOEXEC)};
  require(there && back, "two descriptors");
  std::atomic<bool> ending{false};
  library_thread other("farcall-tool", [&] {
    pin_this_thread(session.cores().target);
    for (;;) {
      (void)take(there);
      if (ending) return;
      add_one(back);
    }
  });
  const auto end = [&] {
    ending = true;
    add_one(there);
    other.join();
  };
  try {
    figure f = session.measure("eventfd, there and back", batches, wake_ups, [&] {
      for (std::size_t i = 0; i < wake_ups; ++i) {
        add_one(there);
        (void)take(back);
      }
    });
    end();
    return f;
  } catch (...) {
    end();
    throw;
  }
}

/// Measures in a job of its own: in the other job hundreds of threads have had lanes, and
/// progress() visits them all.
figure measure_wait_fd(bench_session& session, std::size_t batches) {
  job one(job_of_this_program(shm_target_on(session.cores().target)));
  const node target = one.targets().front();
  session.wait_for_process(pids_of(one).front());
  pollfd watched{one.wait_fd(), POLLIN, 0};
  figure f = session.measure("async, empty, poll() on wait_fd", batches, wake_ups, [&] {
    for (std::size_t i = 0; i < wake_ups; ++i) {
      bool done = false;
      (void)async(target, offloaded::nothing).then([&](future<void> ready) {
        ready.get();
        done = true;
      });
      while (!done) {
        require(::poll(&watched, 1, -1) == 1 || errno == EINTR, "a descriptor that is readable");
        one.progress();
      }
    }
  });
  session.wait_for_process(0);
  return f;
}

/// Threads that have called once, so that each has a lane, and now sleep.
class idle_threads {
 public:
  idle_threads(const node& target, std::size_t count)
      : called_(static_cast<std::ptrdiff_t>(count)) {
    for (std::size_t i = 0; i < count; ++i) {
      threads_.emplace_back("farcall-tool", [this, &target] {
        sync(target, offloaded::nothing);
        called_.count_down();
        end_.wait();
      });
    }
    called_.wait();
  }
  idle_threads(const idle_threads&) = delete;
  idle_threads& operator=(const idle_threads&) = delete;
  idle_threads(idle_threads&&) = delete;
  idle_threads& operator=(idle_threads&&) = delete;
  ~idle_threads() {
    end_.count_down();
    for (library_thread& t : threads_)
      t.join();
  }

 private:
  std::latch called_;
  std::latch end_{1};
  std::vector<library_thread> threads_;
};

figure measure_idle_lanes(bench_session& session, std::size_t batches) {
  const idle_threads others(session.target(), idle_lane_count);
  return measure_empty(session, fmt::format("sync, empty, beside {} idle lanes", idle_lane_count),
                       batches, offloaded::nothing);
}

struct quotient {
  const char* what;
  const char* of;
  double value;
};

std::vector<quotient> quotients(const call_variants& v, const figure& empty) {
  return {
      {"handler with a ready future", "a plain one", v.ready_future.ns.p50 / empty.ns.p50},
      {"handler with a reply", "a plain one", v.reply.ns.p50 / empty.ns.p50},
      {"call by wait_fd", "eventfd", v.wait_fd.ns.p50 / v.eventfd.ns.p50},
      {"beside idle lanes", "without", v.idle_lanes.ns.p50 / v.one_lane.ns.p50},
  };
}

} // namespace

call_variants measure_variants(bench_session& session, std::size_t batches) {
  call_variants v;
  v.ready_future = measure_empty(session, "sync, empty, handler with a ready future", batches,
                                 offloaded::nothing_later);
  v.reply = measure_empty(session, "sync, empty, handler with a reply", batches,
                          offloaded::nothing_replied);
  v.one_lane = measure_empty(session, "sync, empty, again", batches, offloaded::nothing);
  v.idle_lanes = measure_idle_lanes(session, batches);
  v.eventfd = measure_eventfd(session, batches);
  v.wait_fd = measure_wait_fd(session, batches);
  return v;
}

std::string variants_text(const call_variants& v, const figure& empty) {
  std::string text;
  for (const quotient& q : quotients(v, empty)) {
    if (!text.empty()) text += "; ";
    text += fmt::format("{}: {:.2f} × {}", q.what, q.value, q.of);
  }
  return text + '\n';
}

json variants_json(const call_variants& v, const figure& empty) {
  json document;
  for (const figure* f :
       {&v.ready_future, &v.reply, &v.one_lane, &v.idle_lanes, &v.eventfd, &v.wait_fd})
    document[f->what] = figure_json(*f);
  json ratios;
  for (const quotient& q : quotients(v, empty))
    ratios[q.what] = rounded(q.value);
  document["ratios"] = ratios;
  return document;
}

} // namespace farcall::tool
