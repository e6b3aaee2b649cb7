// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/acceptor.hpp>
#include <farcall/am/engine.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>

#include <exception>
#include <new>
#include <optional>
#include <string>
#include <system_error>

namespace farcall::am {

void acceptor::listen(transport& t) {
  listeners_.push_back(std::make_unique<listener>());
  listeners_.back()->via = &t;
  listeners_.back()->arrivals = &t.arrivals();
  if (lane_driver* const driver = t.driver()) {
    drivers_.push_back(driver);
    owner_.lanes().note_driver();
  }
}

std::vector<transport*> acceptor::transports() const {
  std::vector<transport*> all;
  for (const auto& l : listeners_)
    all.push_back(l->via);
  return all;
}

void acceptor::close_refused() noexcept {
  std::erase_if(refused_, [this](std::pair<transport*, endpoint>& r) {
    auto& [via, c] = r;
    if (c.driver != nullptr) c.driver->progress();
    // Read and drop the unread records of a refused lane, because the lane counts as closed only
    // once all its records were read. Drop at most as many bytes as the ring holds. Otherwise a
    // faulty peer could keep this thread here for ever, by writing without end or by leaving the
    // commit words of read records in place.
    const std::uint64_t end = c.in.tail + c.in.size;
    for (record_view record = peek(c.in); record && record.bytes != 0 && c.in.tail < end;
         record = peek(c.in)) {
      release(c.in, record);
    }
    if (!owner_.has_failed(c.peer) && !via->is_closed(c)) return false;
    via->close(c);
    return true;
  });
}

void acceptor::refuse(transport& via, endpoint& c, std::string_view why) noexcept {
  try {
    static auto& refusals = *new log::limited_log("more lanes could not be served");
    refusals.error("a lane that " + node_text(c.peer) + " opened is refused: " + std::string(why));
  } catch (const std::bad_alloc&) {
    // If there is no memory for the log line, write none. The peer still learns of the refusal.
  }
  refuse_lane(c.out, why);
  refused_.emplace_back(&via, c);
}

void acceptor::accept() noexcept {
  const std::lock_guard guard(mutex_);
  close_refused();
  for (const auto& l : listeners_) {
    const std::uint32_t now = l->arrivals->load(std::memory_order_acquire);
    if (now == l->seen.load(std::memory_order_relaxed)) continue;
    while (std::optional<endpoint> c = l->via->accept()) {
      try {
        adopt(*l->via, *c);
      } catch (const std::bad_alloc&) {
        refuse(*l->via, *c, "its process has no memory left for it");
      } catch (const std::system_error&) {
        refuse(*l->via, *c,
               "its process can start no thread for it (memory limit, or 'ulimit -u')");
      } catch (const std::exception& e) {
        refuse(*l->via, *c, e.what());
      }
    }
    // Store the number of seen arrivals only after the lanes have their workers. A thread that
    // calls has_arrivals() before this store still gets true. It then waits in accept() for the
    // mutex, after which it finds the lanes.
    l->seen.store(now, std::memory_order_release);
  }
}

void acceptor::adopt(transport& via, const endpoint& c) {
  if (c.driver != nullptr) owner_.lanes().note_driver();
  if (place_of(c.peer) >= options_.nodes || owner_.has_failed(c.peer)) {
    via.close(c);
    return;
  }
  if (c.own_worker) {
    start_lane_worker(via, c);
    return;
  }
  // Take the number modulo the number of workers. A number out of range is the peer's mistake, but
  // the lane can be served all the same.
  worker& w = *owner_.workers().all()[c.worker % options_.workers];
  if (!w.add(via, c)) throw error("worker " + std::to_string(w.index()) + " has too many lanes");
  notify_if_armed(w.wakes());
  owner_.workers().sharing().is_awake(w);
}

void acceptor::start_lane_worker(transport& via, const endpoint& c) {
  // Refuse a doorbell outside the range for single-lane workers, because requests at such a
  // doorbell would not wake the lane's thread.
  if (c.worker < doorbells_.first_lane() || c.worker >= doorbells_.acceptor()) {
    static auto& impossible = *new log::limited_log("more lanes were impossible");
    impossible.warning(node_text(c.peer) + " opens a lane at an impossible doorbell; refused");
    via.close(c);
    return;
  }
  std::erase_if(lane_workers_, [](lane_worker& old) {
    if (!old.done.load(std::memory_order_acquire)) return false;
    if (old.thread.is_joinable()) old.thread.join();
    return true;
  });
  lane_worker& made = lane_workers_.emplace_back();
  try {
    made.serving = std::make_unique<worker>(owner_, c.worker, doorbells_[c.worker], 1);
    if (!made.serving->add(via, c)) throw error("a worker of its own has too many lanes");
    made.thread = owner_.workers().make_thread(
        [this, &made] {
          owner_.workers().serve_lane(*made.serving);
          made.done.store(true, std::memory_order_release);
        },
        worker_pool::runs_handlers::yes);
  } catch (...) {
    lane_workers_.pop_back();
    throw;
  }
}

void acceptor::run() {
  armed_doorbell wakes{&doorbells_[doorbells_.acceptor()]};
  for (;;) {
    arm({&wakes, 1});
    // If the engine is stopping, accept the lanes that have arrived once more before the end,
    // because they may bring requests to stop calls that still run here.
    const bool is_last = owner_.workers().is_stopping();
    if (has_arrivals()) accept();
    if (is_last) return;
    // Call watch() at regular times for as long as it returns a deadline. After a sleep that ends
    // by its timeout, the doorbell is still armed, so this inner loop does not arm it again. To arm
    // a doorbell, all threads of the process must pass a memory barrier, which would be too slow
    // for each of these checks.
    time_point next_poll{};
    do {
      next_poll = owner_.workers().sharing().watch();
      sleep_on({&wakes, 1}, next_poll);
    } while (next_poll != no_deadline &&
             wakes.which->word.load(std::memory_order_relaxed) == wakes.seen);
  }
}

std::size_t acceptor::reclaim(worker& w) noexcept {
  const std::lock_guard guard(mutex_);
  return w.reclaim();
}

void acceptor::give_back(worker& w, bool all) noexcept {
  if (!w.shares_lanes()) return;
  const std::lock_guard guard(mutex_);
  w.give_back(all);
}

void acceptor::cut(const std::vector<node_id>& failed) noexcept {
  const std::lock_guard guard(mutex_);
  for (const node_id node : failed) {
    for (const auto& w : owner_.workers().all())
      w->cut(node);
    for (lane_worker& w : lane_workers_)
      w.serving->cut(node);
    for (const auto& l : listeners_)
      l->via->forget(node);
  }
}

void acceptor::join() noexcept {
  for (lane_worker& w : lane_workers_)
    w.thread.join();
}

void acceptor::detach() noexcept {
  const std::lock_guard guard(mutex_);
  for (lane_worker& w : lane_workers_) {
    if (w.thread.is_joinable()) w.thread.release();
  }
}

} // namespace farcall::am
