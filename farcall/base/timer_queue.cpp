// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/timer_queue.hpp>

#include <utility>

namespace farcall {

void timer_queue::reserve() {
  if (heap_.capacity() <= reserved_) heap_.reserve(2 * reserved_ + 16);
  ++reserved_;
}

void timer_queue::add(timer& t, time_point when) noexcept {
  t.when_ = when;
  t.queue_ = this;
  heap_.emplace_back(); // does not allocate, because reserve() has allocated the capacity
  put(counted_ptr<timer>(&t), heap_.size() - 1);
  rise(heap_.size() - 1);
}

counted_ptr<timer> timer_queue::extract(timer& t) noexcept {
  return t.queue_ == this ? extract_at(t.index_) : counted_ptr<timer>();
}

counted_ptr<timer> timer_queue::extract_due(time_point now) noexcept {
  return next() <= now && !heap_.empty() ? extract_at(0) : counted_ptr<timer>();
}

counted_ptr<timer> timer_queue::extract_at(std::size_t index) noexcept {
  swap(index, heap_.size() - 1);
  counted_ptr<timer> t = std::move(heap_.back());
  heap_.pop_back();
  t->queue_ = nullptr;
  if (index < heap_.size()) {
    rise(index);
    sink(index);
  }
  return t;
}

void timer_queue::put(counted_ptr<timer> t, std::size_t index) noexcept {
  t->index_ = index;
  heap_[index] = std::move(t);
}

void timer_queue::swap(std::size_t a, std::size_t b) noexcept {
  if (a == b) return;
  counted_ptr<timer> moved = std::move(heap_[a]);
  put(std::move(heap_[b]), a);
  put(std::move(moved), b);
}

void timer_queue::rise(std::size_t index) noexcept {
  while (index != 0) {
    const std::size_t parent = (index - 1) / 2;
    if (heap_[parent]->when_ <= heap_[index]->when_) return;
    swap(index, parent);
    index = parent;
  }
}

void timer_queue::sink(std::size_t index) noexcept {
  for (;;) {
    std::size_t earliest = index;
    for (const std::size_t child : {2 * index + 1, 2 * index + 2}) {
      if (child < heap_.size() && heap_[child]->when_ < heap_[earliest]->when_) earliest = child;
    }
    if (earliest == index) return;
    swap(index, earliest);
    index = earliest;
  }
}

} // namespace farcall
