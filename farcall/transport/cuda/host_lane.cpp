#include <farcall/transport/cuda/host_lane.hpp>
#include <farcall/transport/cuda/workers.hpp>

#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace farcall::cuda {
namespace {

/// Every so many looks in vain a waiting thread sees whether the device is well.
constexpr unsigned looks_per_check = 1024;

constexpr std::uint64_t record_span(std::uint32_t word) noexcept {
  return align_up(std::uint64_t{commit_bytes(word)}, record_alignment);
}

} // namespace

host_lane::host_lane(lane_block& block, std::uint32_t ring_bytes, workers& all,
                     std::uint32_t worker, launching launches)
    : block_(&block), size_(ring_bytes), all_(&all), worker_(worker),
      launching_(std::move(launches)) {
  received_ = make_line_aligned(ring_bytes);
}

host_lane::~host_lane() = default;

void host_lane::reset_rings(bell& wakes) noexcept {
  clear_ring(block_->requests());
  clear_ring(received_.get());
  walked_ = 0;
  is_refused_ = false;
  long_records_.clear();
  out_consumed_.store(0, std::memory_order_relaxed);
  in_consumed_.store(0, std::memory_order_relaxed);
  farcall::attach(writer_, received_.get(), size_, in_consumed_);
  notify_on_commit(writer_, wakes);
}

void host_lane::fill(channel& end) noexcept {
  farcall::attach(end.out, block_->requests(), size_, out_consumed_);
  farcall::attach(end.in, received_.get(), size_, in_consumed_);
  notify_on_commit(end.out, &host_lane::committed, this);
  end.carrier = this;
  end.takes_long = false;
}

// ---- down ---------------------------------------------------------------------------------------

void host_lane::committed(void* self) noexcept {
  auto& lane = *static_cast<host_lane*>(self);
  const std::lock_guard guard(lane.send_mutex_);
  lane.send_locked();
}

void host_lane::take_credit() noexcept {
  // Acquire; partner: the device's release store in tell_consumed().
  const std::uint64_t consumed = load_acquire(&block_->down_consumed);
  // A device that has read what was never sent is faulty; it gets nothing more.
  if (next_down_.load(std::memory_order_relaxed) - consumed > ring_slots) return;
  down_consumed_ = consumed;
  while (!long_records_.empty() && long_records_.front().slot <= consumed)
    long_records_.pop_front();
}

bool host_lane::has_room() noexcept {
  const std::uint64_t next = next_down_.load(std::memory_order_relaxed);
  if (next - down_consumed_ < ring_slots) return true;
  take_credit();
  return next - down_consumed_ < ring_slots;
}

void host_lane::put(const std::uint32_t* payload) noexcept {
  const std::uint64_t next = next_down_.load(std::memory_order_relaxed);
  store_slot(block_->down[slot_at(next)], payload, words_of(payload[0]), lap_of(next));
  next_down_.store(next + 1, std::memory_order_release);
}

void host_lane::send_locked() noexcept {
  if (is_cut_ || state_ == state::free) return;
  std::byte* const ring = block_->requests();
  const std::uint64_t mask = size_ - 1;
  bool any = false;
  bool is_full = false;
  if (!long_records_.empty()) take_credit();
  while (!is_refused_) {
    // Acquire; partner: the release store in commit().
    const std::uint32_t word =
        ring_detail::commit_at(ring, walked_ & mask).load(std::memory_order_acquire);
    if (word == 0) break;
    if (commit_kind(word) == record_kind::corrupt) {
      is_refused_ = true;
      break;
    }
    if (commit_kind(word) == record_kind::pad) {
      walked_ += record_span(word);
      continue;
    }
    const std::byte* const record = ring + (walked_ & mask);
    launch_plan plan;
    if (launching_.find) {
      if (const launcher run = launching_.find(record, commit_bytes(word), plan)) {
        std::uint32_t slot = 0;
        std::memcpy(&slot, record + offsetof(record_header, slot), sizeof slot);
        is_full = !launch(run, plan, slot);
        if (is_full) break;
        walked_ += record_span(word);
        continue;
      }
    }
    is_full = !has_room();
    if (is_full) break;
    if (commit_bytes(word) <= slot_bytes) {
      put(reinterpret_cast<const std::uint32_t*>(record));
    } else {
      long_slot where{};
      std::memcpy(&where.record, record, sizeof where.record);
      where.offset = static_cast<std::uint32_t>(walked_ & mask);
      long_records_.push_back({next_down_.load(std::memory_order_relaxed) + 1, walked_});
      put(reinterpret_cast<const std::uint32_t*>(&where));
    }
    walked_ += record_span(word);
    any = true;
  }
  // Release: our reads of the records happen before they are overwritten. Partner: the acquire load
  // in reserve_slow().
  out_consumed_.store(long_records_.empty() ? walked_ : long_records_.front().start,
                      std::memory_order_release);
  if (is_close_due_ && send_news(lane_closed, {})) {
    is_close_due_ = false;
    any = true;
  }
  is_waiting_.store(is_full || is_close_due_ || !long_records_.empty(), std::memory_order_relaxed);
  if (any) all_->wake(worker_);
}

bool host_lane::launch(launcher run, launch_plan& plan, std::uint32_t slot) noexcept {
  const std::uint64_t number = launches_begun_.load(std::memory_order_relaxed);
  if (number - launches_ended_.load(std::memory_order_acquire) == most_launches) return false;
  const std::size_t place = number % most_launches;
  plan.node = launching_.node;
  plan.done = &block_->launches_done[place];
  plan.done_value = number + 1;
  plan.blocks_done = launching_.blocks_done;
  launched_[place] = {slot, nullptr};
  try {
    launching_.device->launch(launching_.stream, run, plan);
  } catch (const std::exception& e) {
    static std::mutex mutex;
    static std::set<std::string> texts; // few, and for ever: an answer may be read late
    const std::lock_guard guard(mutex);
    launched_[place].failure = texts.insert(e.what()).first->c_str();
    store_release(plan.done, plan.done_value);
  }
  // Release; partner: the acquire load in end_launches().
  launches_begun_.store(number + 1, std::memory_order_release);
  all_->expect_soon();
  return true;
}

void host_lane::end_launches() noexcept {
  for (;;) {
    const std::uint64_t number = launches_ended_.load(std::memory_order_relaxed);
    if (number == launches_begun_.load(std::memory_order_acquire)) return;
    const std::size_t place = number % most_launches;
    if (load_acquire(&block_->launches_done[place]) != number + 1) return;
    const launched& l = launched_[place];
    if (l.slot != UINT32_MAX && !is_dropping_) {
      // As a device's worker answers, in host memory.
      alignas(16) std::uint32_t answer[slot_words] = {};
      answer[1] = l.slot;
      std::uint32_t bytes = sizeof(record_header);
      record_kind kind = record_kind::reply;
      if (l.failure != nullptr) {
        constexpr std::string_view type = "farcall::device_error";
        const std::string_view text = std::string_view(l.failure).substr(0, 200);
        answer[2] = static_cast<std::uint32_t>(type.size());
        answer[3] = static_cast<std::uint32_t>(text.size());
        std::memcpy(answer + 4, type.data(), type.size());
        std::memcpy(reinterpret_cast<char*>(answer + 4) + type.size(), text.data(), text.size());
        bytes = static_cast<std::uint32_t>(16 + type.size() + text.size());
        kind = record_kind::reply_error;
      }
      answer[0] = commit_word(bytes, kind);
      if (!take(answer)) return;
    }
    launches_ended_.store(number + 1, std::memory_order_release);
  }
}

bool host_lane::send_news(record_kind kind, const lane_shape& shape) noexcept {
  if (!has_room()) return false;
  const lane_news news{
      {commit_word(sizeof news, kind), shape.bell}, shape.worker, shape.own_worker ? 1U : 0U};
  put(reinterpret_cast<const std::uint32_t*>(&news));
  return true;
}

bool host_lane::has_unread() const noexcept {
  const std::uint64_t next = next_down_.load(std::memory_order_acquire);
  return next != load_acquire(&block_->down_consumed);
}

// ---- up -----------------------------------------------------------------------------------------

/// True when the message was dealt with, false when it has to wait.
bool host_lane::take(const std::uint32_t* message) noexcept {
  const std::uint32_t word = message[0];
  const std::uint32_t bytes = commit_bytes(word);
  const record_kind kind = commit_kind(word);
  if (kind == lane_opened || kind == lane_closed) {
    if (kind == lane_opened) {
      // Not while the lane before is still in use.
      if (was_accepted_ || is_opened_) return false;
      std::memcpy(&opening_, message, sizeof opening_);
      is_opened_ = true;
      is_dropping_ = is_ended_ = false;
    } else {
      // Not before somebody serves the lane, who then sees its end.
      if (is_opened_) return false;
      is_ended_ = true;
      if ((writer_.attention->load(std::memory_order_seq_cst) & asleep_flag) != 0)
        writer_.kick(writer_.kick_context);
    }
    return true;
  }
  if (is_dropping_ || is_ended_) return true;
  if (is_opened_ || writer_.base == nullptr) return false;
  std::byte* const to = try_reserve(writer_, bytes);
  if (to == nullptr) return false;
  if (bytes <= slot_bytes) {
    std::memcpy(to + sizeof word, message + 1, bytes - sizeof word);
  } else {
    // Behind the header the bytes lie in the cell.
    std::memcpy(to + sizeof word, message + 1, sizeof word);
    std::memcpy(to + sizeof(record_header), block_->cell(message[2], size_) + sizeof(record_header),
                bytes - sizeof(record_header));
  }
  commit(writer_, to, bytes, kind);
  return true;
}

void host_lane::receive_locked() noexcept {
  alignas(16) std::uint32_t message[slot_words];
  if (has_launches() && !is_cut_) end_launches();
  for (;;) {
    const slot& next = block_->up[slot_at(next_up_)];
    if (is_cut_ || !load_slot(next, lap_of(next_up_), message)) {
      if (++misses_ % looks_per_check == 0) all_->look(clock::now());
      return;
    }
    misses_ = 0;
    const bool was_long = commit_bytes(message[0]) > slot_bytes;
    // A record that cannot be one ends the lane, as it would in its user's hands.
    const bool is_sane = commit_bytes(message[0]) >= sizeof(record_header) &&
                         commit_bytes(message[0]) <= record_limit(size_) &&
                         (!was_long || message[2] <= size_ - size_ / long_cells);
    if (!is_sane) {
      all_->fail("it has written a record that is none");
      is_cut_ = true;
      return;
    }
    if (!take(message)) return;
    ++next_up_;
    if (was_long || next_up_ - up_told_ >= ring_slots / 4) {
      up_told_ = next_up_;
      // Release: our reads happen before the device writes there again.
      store_release(&block_->up_consumed, next_up_);
    }
  }
}

// ---- life ---------------------------------------------------------------------------------------

void host_lane::open(const lane_shape& shape, bell& wakes) {
  const std::scoped_lock guard(send_mutex_, receive_mutex_);
  reset_rings(wakes);
  is_dropping_ = is_ended_ = false;
  was_accepted_ = true;
  state_ = state::open;
  // The ring was drained, so there is room.
  (void)send_news(lane_opened, shape);
}

void host_lane::close() noexcept {
  {
    const std::lock_guard guard(receive_mutex_);
    is_dropping_ = true;
  }
  const std::lock_guard guard(send_mutex_);
  if (state_ != state::open) return;
  is_close_due_ = true;
  send_locked();
  state_ = state::closing;
}

bool host_lane::is_free() noexcept {
  const std::scoped_lock guard(send_mutex_, receive_mutex_);
  if (state_ == state::free) return true;
  if (state_ == state::open) return false;
  send_locked();
  // In this order: what was consumed has been answered.
  const bool is_consumed = !is_close_due_ && !has_unread();
  receive_locked();
  if (!is_consumed || has_launches()) return false;
  state_ = state::free;
  return true;
}

bool host_lane::has_been_opened() noexcept {
  const std::lock_guard guard(receive_mutex_);
  receive_locked();
  return is_opened_;
}

void host_lane::accept(bell& wakes) noexcept {
  const std::scoped_lock guard(send_mutex_, receive_mutex_);
  reset_rings(wakes);
  is_opened_ = is_ended_ = false;
  was_accepted_ = true;
  state_ = state::open;
}

bool host_lane::has_ended() noexcept {
  const std::lock_guard guard(receive_mutex_);
  receive_locked();
  return is_ended_;
}

void host_lane::end() noexcept {
  const std::scoped_lock guard(send_mutex_, receive_mutex_);
  state_ = state::free;
  was_accepted_ = false;
  is_dropping_ = !is_ended_;
  is_ended_ = false;
}

void host_lane::cut() noexcept {
  const std::scoped_lock guard(send_mutex_, receive_mutex_);
  is_cut_ = true;
}

void host_lane::progress() noexcept {
  // What has come may be what a full lane waits for.
  if (receive_mutex_.try_lock()) {
    receive_locked();
    receive_mutex_.unlock();
  }
  if (is_waiting_.load(std::memory_order_relaxed) && send_mutex_.try_lock()) {
    send_locked();
    send_mutex_.unlock();
  }
}

void host_lane::watch() noexcept { all_->expect_soon(); }

} // namespace farcall::cuda
