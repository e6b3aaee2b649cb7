// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/completion_descriptor.hpp>
#include <farcall/am/continuation.hpp>
#include <farcall/am/engine.hpp>
#include <farcall/am/interrupt.hpp>
#include <farcall/async/ready_or_late.hpp>
#include <farcall/base/counted.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/kept_blocks.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/c/convert.hpp>
#include <farcall/c/future.hpp>
#include <farcall/c/message_parts.hpp>
#include <farcall/c/queue.h>
#include <farcall/memory/biased_lock.hpp>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include <sys/epoll.h>

using namespace farcall;
using namespace farcall::c;

namespace farcall::c {

/// An element that is in a queue, or will be. As the continuation of its future, it puts itself
/// into the queue when the future is ready, or when the deadline of the call has passed.
class queue_element final : public am::continuation {
 public:
  /// Makes an element of a future that is not ready, or whose element will be put into the queue by
  /// fc_queue::put(). `future` may be null. Throws std::bad_alloc and, for a future with a deadline
  /// that is not ready, std::system_error.
  queue_element(counted_ptr<fc_queue> to, fc_future* future, std::uint64_t tag);
  ~queue_element() override;

  /// Reuses the memory of elements that the calling thread has taken.
  static void* operator new(std::size_t bytes);
  static void operator delete(void* memory) noexcept;

  /// Starts to wait for the future. On return, the element may have been taken and destroyed.
  void begin() noexcept { timed_.begin(state_of(*future_), *this); }
  void run() noexcept override;

  [[nodiscard]] fc_completion content() const noexcept { return {tag_, future_}; }
  /// Destroys the element and its future.
  void drop() noexcept {
    delete future_;
    delete this;
  }

  queue_element* next = nullptr; ///< next element of the same list

 private:
  counted_ptr<fc_queue> to_;
  fc_future* future_;
  std::uint64_t tag_;
  detail::ready_or_late timed_;
};

} // namespace farcall::c

/// A completion queue. It exists until it is closed and none of its calls is under way, because its
/// elements hold references. Any thread may use it.
struct fc_queue final : counted {
  explicit fc_queue(detail::job_core& job)
      : engine_(am::engine_of(*job.client).weak_from_this()), client_(job.client),
        host_(job, host_id), opened_(this) {}
  fc_queue(const fc_queue&) = delete;
  fc_queue& operator=(const fc_queue&) = delete;
  ~fc_queue() { delete descriptor_.load(std::memory_order_relaxed); }

  /// Puts an element into the queue and wakes threads that wait for one. Drops the element if the
  /// queue is closed. Never blocks.
  void put(queue_element& e) noexcept;
  /// Adds a future. Throws invalid_argument if it belongs to another job, forked, and what the
  /// constructor of queue_element throws.
  void add(fc_future& future, std::uint64_t tag);
  /// Puts an element without a future into the queue. Throws forked and std::bad_alloc.
  void signal(std::uint64_t tag) {
    (void)job_engine();
    put(*new queue_element(counted_ptr(this), nullptr, tag));
  }

  /// Takes elements as described at fc_queue_take(). Returns 0 if the queue was empty until the
  /// deadline. Throws forked, interrupted, and error if the queue is empty after the end of its
  /// job.
  [[nodiscard]] std::size_t take(std::span<fc_completion> to, time_point deadline);
  /// Returns the descriptor of fc_queue_fd(). Throws forked and error.
  [[nodiscard]] int fd();
  /// See fc_queue_close().
  void close() noexcept;

  /// Throws invalid_argument if `where` belongs to another job than the queue; also forked, and
  /// error if the job has ended.
  void require_job_of(const fc_node& where) const;

 private:
  /// Returns the engine of the queue's job, or null if the job has ended. Throws forked.
  [[nodiscard]] std::shared_ptr<am::engine> job_engine() const {
    auto found = engine_.lock();
    if (found) found->require_own_process();
    return found;
  }
  /// Value of arrived_ after close(). It is the address of no element.
  [[nodiscard]] queue_element* closed_mark() noexcept {
    return reinterpret_cast<queue_element*>(this);
  }
  [[nodiscard]] bool has_some() const noexcept {
    // Acquire, paired with the exchange in pop(), so that this thread sees the flag if another
    // thread is about to take the elements.
    return arrived_.load(std::memory_order_acquire) != nullptr ||
           has_ordered_.load(std::memory_order_relaxed);
  }
  /// Moves elements to `to` and returns their number.
  [[nodiscard]] std::size_t pop(std::span<fc_completion> to) noexcept;
  /// Appends the list of elements that arrived, the last one first, to the ordered list. Call with
  /// the lock held.
  void order(queue_element* last_arrived) noexcept;

  const std::weak_ptr<am::engine> engine_;
  am::client* const client_;     ///< only compared, because the job may have ended
  const node host_;              ///< node of the job, which knows whether the job has ended
  counted_ptr<fc_queue> opened_; ///< the program's reference; null after close()
  /// Elements that arrived since the last pop(), the last one first.
  std::atomic<queue_element*> arrived_{nullptr};
  std::atomic<bool> has_ordered_{false}; ///< true if the ordered list has elements
  /// Descriptor that is readable if the queue may have elements; owned, and null before fd().
  std::atomic<am::completion_descriptor*> descriptor_{nullptr};

  biased_lock lock_{biased_lock::shared{}}; ///< guards the members below
  queue_element* first_ = nullptr;          ///< ordered list: the elements before arrived_
  queue_element* last_ = nullptr;           ///< last element of the ordered list, if there is one
  unique_fd epoll_; ///< contains descriptor_ and the descriptor of the job; see fd()
};

namespace farcall::c {
namespace {

thread_local kept_blocks taken_elements;

} // namespace

void* queue_element::operator new(std::size_t bytes) { return taken_elements.allocate(bytes); }

void queue_element::operator delete(void* memory) noexcept { taken_elements.release(memory); }

queue_element::~queue_element() = default;

queue_element::queue_element(counted_ptr<fc_queue> to, fc_future* future, std::uint64_t tag)
    : to_(std::move(to)), future_(future), tag_(tag) {
  if (future == nullptr) return;
  if (am::completion* const state = state_of(*future))
    timed_ = detail::ready_or_late(state, c::deadline_of(*future));
}

void queue_element::run() noexcept {
  (void)timed_.end(state_of(*future_), nullptr);
  to_->put(*this);
}

} // namespace farcall::c

void fc_queue::put(queue_element& e) noexcept {
  // Keep the queue during this function, because the taker of the element releases its reference.
  const counted_ptr<fc_queue> self(this);
  queue_element* before = arrived_.load(std::memory_order_relaxed);
  // Acquire and release, paired with the exchange in pop(). The taker sees the element, and this
  // thread sees the descriptor if the descriptor was made before the last pop().
  do {
    if (before == closed_mark()) return e.drop();
    e.next = before;
  } while (!arrived_.compare_exchange_weak(before, &e, std::memory_order_acq_rel,
                                           std::memory_order_relaxed));
  if (am::completion_descriptor* const d = descriptor_.load(std::memory_order_acquire)) d->signal();
  if (const auto job = engine_.lock()) notify_if_armed(job->waiter().local());
}

void fc_queue::add(fc_future& future, std::uint64_t tag) {
  (void)job_engine();
  const am::completion* const state = state_of(future);
  const bool is_ready = state == nullptr || state->ready();
  if (!is_ready && state->owner() != nullptr && state->owner() != client_)
    throw invalid_argument("this future belongs to another job than the queue");
  auto* const made = new queue_element(counted_ptr(this), &future, tag);
  if (is_ready) {
    put(*made);
  } else {
    made->begin();
  }
}

void fc_queue::order(queue_element* last_arrived) noexcept {
  queue_element* const last = last_arrived;
  queue_element* list = nullptr;
  while (last_arrived != nullptr) {
    queue_element* const before = std::exchange(last_arrived->next, list);
    list = std::exchange(last_arrived, before);
  }
  if (list == nullptr) return;
  (first_ == nullptr ? first_ : last_->next) = list;
  last_ = last;
}

std::size_t fc_queue::pop(std::span<fc_completion> to) noexcept {
  const std::lock_guard guard(lock_);
  // Make the descriptor unreadable before looking for elements, because each later element makes it
  // readable again.
  am::completion_descriptor* const d = descriptor_.load(std::memory_order_relaxed);
  if (d != nullptr && d->is_signalled()) d->clear();
  // Set the flag before the elements leave arrived_, so that has_some() sees them at all times.
  has_ordered_.store(true, std::memory_order_relaxed);
  order(arrived_.exchange(nullptr, std::memory_order_acq_rel));
  std::size_t count = 0;
  while (count < to.size() && first_ != nullptr) {
    const queue_element* const e = std::exchange(first_, first_->next);
    to[count++] = e->content();
    delete e;
  }
  // Relaxed, like above, because only the thread that holds the lock uses the list.
  has_ordered_.store(first_ != nullptr, std::memory_order_relaxed);
  if (d != nullptr && first_ != nullptr) d->signal();
  return count;
}

std::size_t fc_queue::take(std::span<fc_completion> to, time_point deadline) {
  const auto job = job_engine();
  std::size_t count = pop(to);
  if (count == to.size()) return count;
  if (job) {
    job->waiter().poll_all();
    count += pop(to.subspan(count));
  }
  if (count != 0) return count;
  // A job that has ended may still have an engine, if one of its handlers has not returned.
  if (!job || !host_.has_job())
    throw error("the job of this queue has ended, and the queue is empty");
  const auto is_filled = [](void* queue) noexcept {
    return static_cast<const fc_queue*>(queue)->has_some();
  };
  // Wait again if another thread has taken the elements before.
  while (count == 0 && !detail::has_passed(deadline)) {
    const am::interruptible waits;
    if (job->waiter().wait_until(is_filled, this, true, deadline)) count = pop(to);
  }
  return count;
}

int fc_queue::fd() {
  const auto job = job_engine();
  if (!job) throw error("the job of this queue has ended");
  const int of_job = job->waiter().wait_fd();
  const std::lock_guard guard(lock_);
  if (epoll_) return epoll_.get();
  auto made = std::make_unique<am::completion_descriptor>();
  unique_fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) throw_system_error("making the descriptor of a queue", errno);
  for (const int each : {of_job, made->get()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, each, &event) != 0)
      throw_system_error("making the descriptor of a queue", errno);
  }
  epoll_ = std::move(epoll);
  am::completion_descriptor& descriptor = *made.release();
  // Release, paired with the acquire load in put().
  descriptor_.store(&descriptor, std::memory_order_release);
  // Signal once, so that the descriptor also reports elements that are in the queue already.
  descriptor.signal();
  return epoll_.get();
}

void fc_queue::close() noexcept {
  const counted_ptr<fc_queue> self(std::move(opened_));
  queue_element* rest = nullptr;
  {
    const std::lock_guard guard(lock_);
    // Acquire and release, as in pop(). Elements that arrive later find the mark and drop
    // themselves.
    order(arrived_.exchange(closed_mark(), std::memory_order_acq_rel));
    rest = std::exchange(first_, nullptr);
    epoll_ = {};
  }
  while (rest != nullptr)
    std::exchange(rest, rest->next)->drop();
}

void fc_queue::require_job_of(const fc_node& where) const {
  require_node(where);
  const detail::job_core& job = job_of(where.job);
  job.client->require_own_process();
  if (job.client != client_)
    throw invalid_argument("this node belongs to another job than the queue", where.id);
}

fc_status fc_queue_open(fc_job* job, fc_queue** queue) {
  return guarded([&] {
    require(queue, "queue");
    *queue = new fc_queue(detail::usable(job_of(job)));
  });
}

void fc_queue_close(fc_queue* queue) {
  if (queue != nullptr) queue->close();
}

fc_status fc_call_async_to(fc_node where, fc_function function, const fc_bytes* parts,
                           size_t part_count, fc_queue* queue, uint64_t tag) {
  return guarded_wait([&] {
    require(queue, "queue");
    queue->require_job_of(where);
    // The program gets no future by which it could stop the call.
    where.flags &= ~stoppable_flag;
    std::unique_ptr<fc_future> call(
        start_future(where, function, message_parts(parts, part_count), c::deadline_of(where)));
    queue->add(*call, tag);
    // The queue owns the future now, which may even have been taken and dropped.
    (void)call.release(); // NOLINT(bugprone-unused-return-value): the queue owns it
  });
}

fc_status fc_queue_add(fc_queue* queue, fc_future* future, uint64_t tag) {
  return guarded([&] {
    require(queue, "queue");
    require(future, "future");
    queue->add(*future, tag);
  });
}

fc_status fc_queue_signal(fc_queue* queue, uint64_t tag) {
  return guarded([&] {
    require(queue, "queue");
    queue->signal(tag);
  });
}

fc_status fc_queue_take(fc_queue* queue, fc_completion* taken, size_t capacity, int64_t timeout_ns,
                        size_t* count) {
  return guarded([&] {
    require(queue, "queue");
    require(taken, "taken");
    require(count, "count");
    if (capacity == 0) throw invalid_argument("capacity must not be 0");
    const std::size_t n = queue->take({taken, capacity}, deadline_in(timeout_ns));
    if (n == 0) return fail(FC_TIMEOUT, "the queue had no element in time");
    *count = n;
    return FC_OK;
  });
}

fc_status fc_queue_fd(fc_queue* queue, int* fd) {
  return guarded([&] {
    require(queue, "queue");
    require(fd, "fd");
    *fd = queue->fd();
  });
}
