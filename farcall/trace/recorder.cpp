// SPDX-License-Identifier: Apache-2.0
#include <farcall/trace/recorder.hpp>
#include <farcall/trace/trace_range.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farcall::trace {
namespace {

std::uint64_t next_serial() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// Allocates memory for events and touches its pages. Otherwise a page fault during recording would
/// take longer than recording hundreds of events.
event* make_events(std::size_t size) {
  constexpr std::size_t huge_page = std::size_t{2} << 20;
  const std::size_t bytes = size * sizeof(event);
  void* const made = std::aligned_alloc(std::min(std::bit_ceil(bytes), huge_page), bytes);
  if (made == nullptr) throw std::bad_alloc();
  (void)::madvise(made, bytes, MADV_HUGEPAGE);
  std::memset(made, 0, bytes);
  return static_cast<event*>(made);
}

std::int64_t own_thread() noexcept { return ::syscall(SYS_gettid); }

} // namespace

// ---- event_ring ---------------------------------------------------------------------------------

void event_ring::free_memory::operator()(event* at) const noexcept { std::free(at); }

event_ring::event_ring(std::size_t size, std::uint32_t thread)
    : size_(size), events_(make_events(size)), thread_(thread), process_thread_(own_thread()) {
  std::array<char, 64> name{};
  if (process_thread_ == ::getpid()) {
    name_ = "main thread";
    return;
  }
  if (::pthread_getname_np(::pthread_self(), name.data(), name.size()) == 0) name_ = name.data();
}

bool event_ring::take(thread_events& to, std::size_t most) {
  // Load has_ended_ before the other fields. Acquire, paired with the release store in end(). If
  // this load reads true, all events and misses of the thread are visible below.
  const bool has_ended = has_ended_.load(std::memory_order_acquire);
  to.thread = thread_;
  to.process_thread = process_thread_;
  to.name = name_;
  // Acquire, paired with the release store in add(), so that the events below `head` are visible.
  const std::uint64_t head = head_.load(std::memory_order_acquire);
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  const std::uint64_t end = tail + std::min<std::uint64_t>(head - tail, most);
  to.events.reserve(end - tail);
  for (std::uint64_t at = tail; at != end; ++at)
    to.events.push_back(events_[at & (size_ - 1)]);
  to.missed = missed_.load(std::memory_order_relaxed);
  // Release, paired with the acquire load in add(), which then overwrites the places of these
  // events.
  tail_.store(end, std::memory_order_release);
  return has_ended && end == head;
}

// ---- recorder -----------------------------------------------------------------------------------

/// The calling thread's rings, one for each recorder that has recorded events of the thread. A null
/// ring means that the recorder drops the thread's events. Pointers to recorders stay valid,
/// because recorders are never destroyed.
struct recorder::rings_of_thread {
  struct held {
    const recorder* of;
    std::shared_ptr<event_ring> ring;
  };
  std::vector<held> all;
  static constinit thread_local bool have_ended; ///< outlives the object

  rings_of_thread() = default;
  rings_of_thread(const rings_of_thread&) = delete;
  rings_of_thread& operator=(const rings_of_thread&) = delete;
  ~rings_of_thread() {
    have_ended = true;
    cached_ = {};
    for (const held& h : all) {
      if (h.ring) h.ring->end();
    }
  }

  static rings_of_thread& mine() {
    static thread_local rings_of_thread own;
    return own;
  }
};

constinit thread_local bool recorder::rings_of_thread::have_ended = false;
constinit thread_local recorder::cached_ring recorder::cached_;
constinit std::atomic<recorder*> recorder::current_{nullptr};

recorder::recorder(std::size_t events)
    : serial_(next_serial()), events_(events), source_(find_tick_source()) {
  watch_forks();
}

struct recorder::made_ones {
  std::mutex mutex;
  std::vector<std::unique_ptr<recorder>> all;

  /// Returns the list of recorders, which is never destroyed, like the recorders.
  static made_ones& get() {
    static auto* const made = new made_ones;
    return *made;
  }
  /// Called with the lock.
  void choose_current() const noexcept {
    const auto last =
        std::find_if(all.rbegin(), all.rend(), [](const auto& r) { return r->is_on(); });
    current_.store(last == all.rend() ? nullptr : last->get(), std::memory_order_release);
    trace_range::is_traced.store(last != all.rend(), std::memory_order_relaxed);
  }
};

recorder& recorder::make(std::size_t events) {
  made_ones& made = made_ones::get();
  std::unique_ptr<recorder> another(new recorder(events));
  const std::lock_guard guard(made.mutex);
  made.all.push_back(std::move(another));
  made.choose_current();
  return *made.all.back();
}

void recorder::stop() noexcept {
  made_ones& made = made_ones::get();
  const std::lock_guard guard(made.mutex);
  is_on_.store(false, std::memory_order_relaxed);
  made.choose_current();
}

void recorder::clear() noexcept {
  const std::lock_guard guard(mutex_);
  rings_.clear();
  lanes_.clear();
  changed_lanes_.clear();
  ranges_.clear();
  new_ranges_.clear();
}

void recorder::after_fork_in_child() noexcept {
  // Stop recording in the child of a fork, because no thread of the child takes events. This
  // function is called for each recorder, while the child has only one thread.
  is_on_.store(false, std::memory_order_relaxed);
  current_.store(nullptr, std::memory_order_relaxed);
  trace_range::is_traced.store(false, std::memory_order_relaxed);
  cached_ = {};
}

void recorder::leave_thread_out() {
  auto& mine = rings_of_thread::mine().all;
  mine.push_back({this, nullptr});
  cached_ = {serial_, nullptr};
}

void recorder::name_thread(std::string name) noexcept {
  event_ring* const ring = cached_.serial == serial_ ? cached_.ring : ring_of_thread();
  if (ring == nullptr) return;
  // take() reads the name.
  const std::lock_guard guard(mutex_);
  ring->name(std::move(name));
}

event_ring* recorder::ring_of_thread() noexcept {
  // Record nothing if this thread's rings have been destroyed. At the end of a thread, thread-local
  // objects that are destroyed later than the rings may still record events.
  if (!is_on() || rings_of_thread::have_ended) return nullptr;
  rings_of_thread& mine = rings_of_thread::mine();
  const auto at = std::find_if(mine.all.begin(), mine.all.end(),
                               [this](const auto& h) { return h.of == this; });
  if (at != mine.all.end()) {
    cached_ = {serial_, at->ring.get()};
    return cached_.ring;
  }
  // Drop the rings of recorders that are off, because the jobs of these recorders have ended. Clear
  // cached_ before, because it may point to one of these rings.
  cached_ = {};
  std::erase_if(mine.all, [](const auto& h) { return !h.of->is_on(); });
  try {
    const std::lock_guard guard(mutex_);
    auto made = std::make_shared<event_ring>(events_, threads_);
    rings_.reserve(rings_.size() + 1);
    mine.all.push_back({this, made});
    rings_.push_back(made);
    ++threads_;
    cached_ = {serial_, made.get()};
    return made.get();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

std::uint32_t recorder::add_lane(node_id peer, bool is_caller) noexcept {
  const std::lock_guard guard(mutex_);
  try {
    const auto number = static_cast<std::uint32_t>(lanes_.size()) + 1;
    if (number > event::lane_mask) return 0;
    changed_lanes_.push_back(number);
    lanes_.push_back({number, peer, is_caller, 0});
    return number;
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

void recorder::name_lane(std::uint32_t number, std::uint32_t peers_number) noexcept {
  const std::lock_guard guard(mutex_);
  if (number == 0 || number > lanes_.size()) return;
  lanes_[number - 1].peers_number = peers_number;
  try {
    changed_lanes_.push_back(number);
  } catch (const std::bad_alloc&) {
    // Ignore the error. The timeline then shows calls on this lane without arrows to their
    // handlers.
  }
}

std::uint32_t recorder::number_of_range(std::string_view name) {
  const std::lock_guard guard(mutex_);
  if (const auto known = ranges_.find(name); known != ranges_.end()) return known->second;
  if (ranges_.size() == max_ranges) return 0;
  const auto number = static_cast<std::uint32_t>(ranges_.size());
  new_ranges_.emplace_back(name);
  ranges_.emplace(name, number);
  return number;
}

bool recorder::is_filling() {
  const std::lock_guard guard(mutex_);
  return std::any_of(rings_.begin(), rings_.end(),
                     [](const auto& ring) { return ring->is_filling(); });
}

recorded recorder::take(std::size_t most) {
  const std::lock_guard guard(mutex_);
  recorded taken;
  for (const std::uint32_t number : changed_lanes_) {
    if (number <= lanes_.size()) taken.lanes.push_back(lanes_[number - 1]);
  }
  taken.threads.reserve(rings_.size());
  std::erase_if(rings_,
                [&](const auto& ring) { return ring->take(taken.threads.emplace_back(), most); });
  changed_lanes_.clear();
  taken.first_range = static_cast<std::uint32_t>(ranges_.size() - new_ranges_.size());
  taken.ranges.swap(new_ranges_);
  return taken;
}

} // namespace farcall::trace
