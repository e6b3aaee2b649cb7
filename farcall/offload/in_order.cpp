#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/call/caller.hpp>
#include <farcall/offload/combine.hpp>
#include <farcall/offload/in_order.hpp>
#include <farcall/offload/job_state.hpp>
#include <farcall/offload/memory_handlers.hpp>
#include <farcall/offload/shared_future.hpp>

#include <cstring>
#include <exception>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace farcall {
namespace detail {
namespace {

/// Waits for the copies in order of the lane; false when `deadline` passed.
[[nodiscard]] bool settle(job_state& job, am::requester& lane, time_point deadline) {
  if (!lane.has_transfers.load(std::memory_order_relaxed)) return true;
  const auto is_of_lane = [&](const auto& copy) { return copy.lane == &lane; };
  if (!job.in_order.settle(is_of_lane, deadline)) return false;
  job.in_order.update(lane);
  return true;
}

/// What a copy in order has to do with at one end.
class ordered_lane {
 public:
  ordered_lane(const ordered_end& end, std::size_t bytes)
      : job_(state_of(end.job)), by_(end.by), node_(job_, end.node), messages_(requester_of(end)),
        begin_(end.address), end_(end.address + bytes) {}

  /// Waits for earlier copies of the same memory.
  void settle_overlapping() {
    if (!messages_.has_transfers.load(std::memory_order_relaxed)) return;
    (void)job_.in_order.settle(
        [this](const auto& copy) {
          return copy.lane == &messages_ && copy.begin < end_ && begin_ < copy.end;
        },
        no_deadline);
  }

  /// Its calls have ended.
  [[nodiscard]] bool is_quiet() { return messages_.is_quiet(); }

  /// Ready when those made until now have.
  [[nodiscard]] future<void> fence() {
    return future_access::make<void>(
        send<call_mode::awaited, void>(messages_, am::fence_key, {}, no_deadline), no_deadline);
  }

  /// A copy can be made by calls in the lane: memory that another node can name, and not too much.
  [[nodiscard]] bool takes_as_message(std::size_t bytes) {
    transport* const way = job_.members->route_to(node_.id()).via;
    const bool is_of_domain = way != nullptr && way->memory() != nullptr;
    return !is_of_domain && bytes <= piece_of(messages_);
  }

  /// async(), in the lane.
  template <class... A>
  [[nodiscard]] auto call(A... args) {
    return by_ != nullptr ? async(*by_, args...) : async(node_, args...);
  }

  /// Has later calls and copies wait for `copy`.
  void add(am::local_completion& copy) {
    job_.in_order.add({node_.id(), &messages_, begin_, end_}, copy);
  }

 private:
  [[nodiscard]] am::requester& requester_of(const ordered_end& end) const {
    if (end.by == nullptr) return place_of(node_).messages;
    if (end.by->where() != node_) {
      const bool is_of_other_job = end.by->where().job() != &end.job;
      throw error("a copy of memory of " + node_text(end.node) +
                      " cannot be in the order of a lane to " + node_text(end.by->where().id()) +
                      (is_of_other_job ? " of another job" : ""),
                  end.node);
    }
    return place_of(*end.by).messages;
  }

  job_state& job_;
  const lane* by_;
  farcall::node node_;
  am::requester& messages_;
  std::uint64_t begin_;
  std::uint64_t end_;
};

/// Has what comes later in the lanes wait for `copy`.
[[nodiscard]] future<void> follow(future<void> copy, std::initializer_list<ordered_lane*> lanes) {
  am::completion* const state = future_access::state(copy);
  if (state == nullptr || state->ready()) return copy;
  if (state->source() != nullptr) {
    // A call, which only one can hold.
    const shared_future<void> shared = copy.share();
    for (ordered_lane* lane : lanes)
      lane->add(static_cast<am::local_completion&>(*future_access::state(shared)));
    return shared.then([](const shared_future<void>& done) { done.get(); });
  }
  for (ordered_lane* lane : lanes)
    lane->add(static_cast<am::local_completion&>(*state));
  return copy;
}

/// The lane to a node that has failed, or its failure as that of the copy.
template <class F>
[[nodiscard]] future<void> or_failure(const F& transfer) {
  try {
    return transfer();
  } catch (const node_failed&) {
    return failed_future<void>(std::current_exception());
  }
}

/// As `now()`, once the lane's calls have ended.
template <class F>
[[nodiscard]] future<void> behind_calls(ordered_lane& lane, F now) {
  return follow(lane.fence().then([now = std::move(now)](future<void> calls) {
    calls.get();
    return now();
  }),
                {&lane});
}

} // namespace

future<void> put_in_order(const ordered_end& to, const std::byte* from, std::size_t bytes,
                          transfer_mode mode) {
  return or_failure([&] {
    ordered_lane lane(to, bytes);
    lane.settle_overlapping();
    const auto put = [=, &job = to.job, where = to.node, at = to.address](transfer_mode how) {
      return put_bytes(job, where, at, from, bytes, how);
    };
    if (lane.is_quiet()) return follow(put(mode), {&lane});
    if (lane.takes_as_message(bytes))
      return lane.call(fn<&write_here>, to.address, bytes_sent{{from, bytes}});
    return behind_calls(lane, [put] { return put(transfer_mode::async); });
  });
}

future<void> get_in_order(const ordered_end& from, std::byte* to, std::size_t bytes,
                          transfer_mode mode) {
  return or_failure([&] {
    ordered_lane lane(from, bytes);
    lane.settle_overlapping();
    const auto get = [=, &job = from.job, where = from.node, at = from.address](transfer_mode how) {
      return get_bytes(job, where, at, to, bytes, how);
    };
    if (lane.is_quiet()) return follow(get(mode), {&lane});
    if (lane.takes_as_message(bytes)) {
      return lane.call(fn<&read_here>, from.address, std::uint64_t{bytes})
          .then([=](future<bytes_read> answer) {
            const std::vector<std::byte> got = answer.get().bytes;
            if (got.size() != bytes) throw malformed_message("a get came back short");
            if (!got.empty()) std::memcpy(to, got.data(), got.size());
          });
    }
    return behind_calls(lane, [get] { return get(transfer_mode::async); });
  });
}

future<void> copy_in_order(const ordered_end& from, const ordered_end& to, std::size_t bytes) {
  if (&from.job != &to.job) throw_different_jobs();
  return or_failure([&] {
    ordered_lane source(from, bytes);
    ordered_lane target(to, bytes);
    std::vector<future<void>> calls;
    for (ordered_lane* lane : {&source, &target}) {
      lane->settle_overlapping();
      if (!lane->is_quiet()) calls.push_back(lane->fence());
    }
    const auto copy = [=, &job = from.job, a = from.node, at = from.address, b = to.node,
                       to_at = to.address] { return copy_between(job, a, at, b, to_at, bytes); };
    if (calls.empty()) return follow(copy(), {&source, &target});
    return follow(when_all(std::move(calls)).then([copy](future<std::vector<future<void>>> all) {
      for (future<void>& each : all.get())
        each.get();
      return copy();
    }),
                  {&source, &target});
  });
}

void release_in_order(const node& where, const lane* by, std::uint64_t address) noexcept {
  if (!where.has_job()) return;
  if (by != nullptr && by->where() != where) by = nullptr;
  try {
    job_state& job = state_of(*where.job());
    const time_point deadline = deadline_after(job.release_timeout);
    const call_place place = by != nullptr ? place_of(*by) : place_of(timed_node(where, deadline));
    if (!settle(job, place.messages, deadline)) {
      log::warning("a buffer on " + node_text(where.id()) + " could not be freed within " +
                   std::to_string(job.release_timeout.count()) + " ms (release_timeout), and its " +
                   "memory stays taken until the job ends: a copy to or from it goes on");
      return;
    }
  } catch (const std::exception& e) {
    // Whoever frees it meets the same, and says so.
    (void)e;
  }
  release_behind(where, by, address);
}

} // namespace detail

void ordered_place::await_transfers(const detail::call_place& place) {
  (void)detail::settle(detail::state_of(place.job), place.messages, no_deadline);
}

} // namespace farcall
