#include <farcall/am/completion_thread.hpp>
#include <farcall/am/deadline_thread.hpp>
#include <farcall/base/signals.hpp>

#include <condition_variable>
#include <thread>
#include <utility>
#include <vector>

namespace farcall::am {

timed_event::timed_event(client* owner) {
  if (owner != nullptr) owner_ = engine_of(*owner).weak_from_this();
}

deadline_thread& deadline_thread::of_process() {
  // Never destroyed: the thread lives as long as the process.
  static auto* const it = new deadline_thread;
  return *it;
}

struct deadline_thread::work {
  std::condition_variable changed;
  completion_thread others{local_completion::doorbell_of_no_client()};
  std::size_t wanted = 0; ///< events that are in the heap, or come
  std::vector<counted_ptr<timed_event>> heap;

  static bool is_later(const counted_ptr<timed_event>& a,
                       const counted_ptr<timed_event>& b) noexcept {
    return a->when_ > b->when_;
  }
  void put(counted_ptr<timed_event> e, std::size_t place) noexcept {
    e->place_ = place;
    heap[place] = std::move(e);
  }
  void swap(std::size_t a, std::size_t b) noexcept {
    if (a == b) return;
    counted_ptr<timed_event> moved = std::move(heap[a]);
    put(std::move(heap[b]), a);
    put(std::move(moved), b);
  }
  void rise(std::size_t place) noexcept {
    for (; place != 0 && is_later(heap[(place - 1) / 2], heap[place]); place = (place - 1) / 2)
      swap(place, (place - 1) / 2);
  }
  void sink(std::size_t place) noexcept {
    for (;;) {
      std::size_t first = place;
      for (const std::size_t below : {2 * place + 1, 2 * place + 2}) {
        if (below < heap.size() && is_later(heap[first], heap[below])) first = below;
      }
      if (first == place) return;
      swap(place, first);
      place = first;
    }
  }

  void add(counted_ptr<timed_event> e) noexcept {
    e->heap_ = this;
    heap.emplace_back(); // within what prepare() has reserved
    put(std::move(e), heap.size() - 1);
    rise(heap.size() - 1);
  }
  [[nodiscard]] counted_ptr<timed_event> extract(std::size_t place) noexcept {
    swap(place, heap.size() - 1);
    counted_ptr<timed_event> e = std::move(heap.back());
    heap.pop_back();
    --wanted;
    e->heap_ = nullptr;
    if (place < heap.size()) {
      rise(place);
      sink(place);
    }
    return e;
  }
};

deadline_thread::deadline_thread() { watch_forks(); }

void deadline_thread::after_fork_in_child() noexcept {
  // What the parent's thread works on stays as it is.
  work_ = nullptr;
  mutex_.unlock();
}

void deadline_thread::prepare() {
  const std::lock_guard guard(mutex_);
  if (work_ == nullptr) {
    auto made = std::make_unique<work>();
    std::thread([this, w = made.get()] { run(*w); }).detach();
    work_ = made.release();
  }
  if (work_->heap.capacity() <= work_->wanted) work_->heap.reserve(2 * work_->wanted + 16);
  ++work_->wanted;
}

void deadline_thread::set(timed_event& e, time_point when) noexcept {
  e.when_ = when;
  const std::lock_guard guard(mutex_);
  // What was prepared before a fork is the parent's.
  if (work_ == nullptr || work_->heap.capacity() == work_->heap.size()) return;
  work_->add(counted_ptr<timed_event>(&e));
  if (e.place_ == 0) work_->changed.notify_one();
}

void deadline_thread::take_back(timed_event& e) noexcept {
  counted_ptr<timed_event> held; // until the mutex is free
  const std::lock_guard guard(mutex_);
  if (e.heap_ != nullptr && e.heap_ == work_) held = work_->extract(e.place_);
}

void deadline_thread::run(work& w) noexcept {
  leave_signals_to_other_threads();
  std::unique_lock guard(mutex_);
  for (;;) {
    if (w.heap.empty()) {
      w.changed.wait(guard);
    } else if (const time_point next = w.heap.front()->when_; clock::now() < next) {
      w.changed.wait_until(guard, next);
    } else {
      counted_ptr<timed_event> due = w.extract(0);
      guard.unlock();
      {
        const std::shared_ptr<engine> owner = due->owner_.lock();
        const continuations_elsewhere moved(owner ? owner->other_thread() : w.others);
        due->happen();
      }
      due = {};
      guard.lock();
    }
  }
}

} // namespace farcall::am
