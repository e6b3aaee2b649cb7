// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/combine.hpp>
#include <farcall/async/shared_future.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/call/caller.hpp>
#include <farcall/copy/copy_state.hpp>
#include <farcall/copy/in_order.hpp>
#include <farcall/copy/memory_handlers.hpp>

#include <cstring>
#include <exception>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace farcall {
namespace detail {
namespace {

/// Waits for the ordered copies of the lane. Returns false if `deadline` passed.
[[nodiscard]] bool settle(copy_state& copies, am::requester& lane, time_point deadline) {
  if (!lane.has_transfers.load(std::memory_order_relaxed)) return true;
  const auto is_of_lane = [&](const auto& copy) { return copy.lane == &lane; };
  if (!copies.in_order.settle(is_of_lane, deadline)) return false;
  copies.in_order.update(lane);
  return true;
}

/// Lane and memory at one end of an ordered copy.
class ordered_lane {
 public:
  ordered_lane(const ordered_end& end, std::size_t bytes)
      : copies_(copies_of(end.job)), by_(end.by), node_(end.job, end.node),
        messages_(requester_of(end)), begin_(end.address), end_(end.address + bytes) {}

  /// Waits for earlier copies of the lane that overlap this memory.
  void settle_overlapping() {
    if (!messages_.has_transfers.load(std::memory_order_relaxed)) return;
    (void)copies_.in_order.settle(
        [this](const auto& copy) {
          return copy.lane == &messages_ && copy.begin < end_ && begin_ < copy.end;
        },
        no_deadline);
  }

  /// True if all calls of the lane have ended.
  [[nodiscard]] bool is_quiet() { return messages_.is_quiet(); }

  /// Returns a future that is ready once the current calls of the lane have ended.
  [[nodiscard]] future<void> fence() {
    return future_access::make<void>(
        send<call_mode::awaited, void>(messages_, am::fence_key, {}, no_deadline), no_deadline);
  }

  /// True if the copy can be sent as one message of the lane, whose order then holds for the copy,
  /// too. This requires that the node's memory is in no domain, and that the bytes fit in one
  /// message.
  [[nodiscard]] bool takes_as_message(std::size_t bytes) {
    return copies_.domain_of(node_.id()) == nullptr && bytes <= piece_of(messages_);
  }

  /// Makes a call in this lane by async().
  template <class... A>
  [[nodiscard]] auto call(A... args) {
    return by_ != nullptr ? async(*by_, args...) : async(node_, args...);
  }

  /// Makes later calls and ordered copies of this lane wait for `copy`.
  void add(am::local_completion& copy) {
    copies_.in_order.add({node_.id(), &messages_, begin_, end_}, copy);
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

  copy_state& copies_;
  const lane* by_;
  farcall::node node_;
  am::requester& messages_;
  std::uint64_t begin_;
  std::uint64_t end_;
};

/// Makes later calls and ordered copies of the lanes wait for `copy`, if it is not ready yet.
/// Returns a future of the same result.
[[nodiscard]] future<void> follow(future<void> copy, std::initializer_list<ordered_lane*> lanes) {
  am::completion* const state = future_access::state(copy);
  if (state == nullptr || state->ready()) return copy;
  if (state->source() != nullptr) {
    // A call owns the state of this future, which only one future may hold. Share the result,
    // because both the lanes and the caller need to hold it.
    const shared_future<void> shared = copy.share();
    for (ordered_lane* lane : lanes)
      lane->add(static_cast<am::local_completion&>(*future_access::state(shared)));
    return shared.then([](const shared_future<void>& done) { done.get(); });
  }
  for (ordered_lane* lane : lanes)
    lane->add(static_cast<am::local_completion&>(*state));
  return copy;
}

/// Returns the future that `transfer()` returns. If `transfer()` throws node_failed, returns a
/// future that holds this exception.
template <class F>
[[nodiscard]] future<void> or_failure(const F& transfer) {
  try {
    return transfer();
  } catch (const node_failed&) {
    return failed_future<void>(std::current_exception());
  }
}

/// Runs `now()`, which starts a copy, once the current calls of the lane have ended. Makes later
/// calls and ordered copies of the lane wait for the end of that copy.
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
          .then([=](future<bytes_read> reply) {
            const std::vector<std::byte> got = reply.get().bytes;
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
    copy_state& copies = copies_of(*where.job());
    const time_point deadline = deadline_after(copies.release_timeout);
    const call_place place = by != nullptr ? place_of(*by) : place_of(timed_node(where, deadline));
    if (!settle(copies, place.messages, deadline)) {
      log::warning("a buffer on " + node_text(where.id()) + " could not be freed within " +
                   std::to_string(copies.release_timeout.count()) +
                   " ms (release_timeout), and its " +
                   "memory stays taken until the job ends: a copy to or from it goes on");
      return;
    }
  } catch (const std::exception& e) {
    // Ignore the error here. The call of release_behind() below gets the same error and logs it.
    (void)e;
  }
  release_behind(where, by, address);
}

} // namespace detail

void ordered_place::await_transfers(const detail::call_place& place) {
  (void)detail::settle(detail::copies_of(place.job), place.messages, no_deadline);
}

} // namespace farcall
