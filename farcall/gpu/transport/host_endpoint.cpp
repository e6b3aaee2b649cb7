// SPDX-License-Identifier: Apache-2.0
#include <farcall/gpu/transport/host_endpoint.hpp>
#include <farcall/gpu/transport/workers.hpp>

#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace farcall::cuda {
namespace {

/// Number of failed polls after which a thread that waits for a message checks whether the device
/// has failed.
constexpr unsigned looks_per_check = 1024;

} // namespace

host_endpoint::host_endpoint(lane_memory& block, std::uint32_t ring_bytes, workers& all,
                             std::uint32_t worker, launching launches)
    : staged_lane(&host_endpoint::committed), block_(&block), size_(ring_bytes), all_(&all),
      worker_(worker), launching_(std::move(launches)), received_(make_line_aligned(ring_bytes)) {}

host_endpoint::~host_endpoint() = default;

// ---- down ---------------------------------------------------------------------------------------

void host_endpoint::committed(void* lane) noexcept {
  auto& self = static_cast<host_endpoint&>(*static_cast<staged_lane*>(lane));
  const std::lock_guard guard(self.send_mutex_);
  self.send_locked();
}

void host_endpoint::take_credit() noexcept {
  // Acquire, paired with the device's store in tell_consumed() or release_consumed(), so that the
  // device's reads of the slots happen before the host writes into them again.
  const std::uint64_t consumed = load_acquire(&block_->down_consumed);
  // Ignore a position beyond the messages that were sent, because only a faulty device reports such
  // a position. The host keeps the earlier position, and so sends no more messages when the ring is
  // full.
  if (next_down_.load(std::memory_order_relaxed) - consumed > ring_slots) return;
  down_consumed_ = consumed;
  while (!staged_records_.empty() && staged_records_.front().slot <= consumed)
    staged_records_.pop_front();
}

bool host_endpoint::has_space() noexcept {
  const std::uint64_t next = next_down_.load(std::memory_order_relaxed);
  if (next - down_consumed_ < ring_slots) return true;
  take_credit();
  return next - down_consumed_ < ring_slots;
}

void host_endpoint::put(const std::uint32_t* payload) noexcept {
  const std::uint64_t next = next_down_.load(std::memory_order_relaxed);
  store_slot(block_->down[slot_at(next)], payload, words_of(payload[0]), phase_of(next));
  next_down_.store(next + 1, std::memory_order_release);
}

void host_endpoint::send_locked() noexcept {
  if (!is_sending(out_.state())) return;
  const std::uint64_t before = next_down_.load(std::memory_order_relaxed);
  if (!staged_records_.empty()) take_credit();
  bool has_gone = true;
  while (const record_view record = out_.next()) {
    has_gone = send(record);
    if (!has_gone) break;
    out_.take(record);
  }
  out_.give_credit(staged_records_.empty() ? out_.taken() : staged_records_.front().start);
  if (has_gone == is_blocked(out_.state()))
    out_.on(has_gone ? send_event::unblock : send_event::block);
  if (out_.state() == send_state::closing) say_goodbye();
  if (next_down_.load(std::memory_order_relaxed) == before) return;
  // Don't start the worker for this lane while all messages in it wait for an event. The worker
  // would find no message, leave, and have to be started again.
  if (awaits_event() && !has_unread()) {
    all_->expect_soon();
  } else {
    all_->wake(worker_);
  }
}

bool host_endpoint::send(const record_view& record) noexcept {
  if (launching_.find) {
    launch_plan plan;
    if (const launcher run = launching_.find(record.data, record.bytes, plan)) {
      std::uint32_t slot = 0;
      std::memcpy(&slot, record.data + offsetof(record_header, slot), sizeof slot);
      return launch(run, plan, slot);
    }
  }
  if (!has_space()) return false;
  if (record.bytes <= slot_bytes) {
    put(reinterpret_cast<const std::uint32_t*>(record.data));
    return true;
  }
  long_slot where{};
  std::memcpy(&where.record, record.data, sizeof where.record);
  where.offset = static_cast<std::uint32_t>(record.data - out_.base());
  staged_records_.push_back({next_down_.load(std::memory_order_relaxed) + 1, out_.taken()});
  put(reinterpret_cast<const std::uint32_t*>(&where));
  return true;
}

/// Finishes a lane that is being closed, after all of its records were sent. If this end has opened
/// the lane, also sends the notice that the lane is closed.
void host_endpoint::say_goodbye() noexcept {
  const bool has_gone = role() == lane_role::acceptor || send_notices(lane_closed, {});
  out_.on(has_gone ? send_event::finish : send_event::block);
}

bool host_endpoint::launch(launcher run, launch_plan& plan, std::uint32_t slot) noexcept {
  const std::uint64_t number = launches_begun_.load(std::memory_order_relaxed);
  if (number - launches_ended_.load(std::memory_order_acquire) == max_launches) return false;
  const bool is_gate = plan.kind == launch_kind::event_wait;
  if (is_gate && !has_space()) return false;
  const std::size_t place = number % max_launches;
  plan.node = launching_.node;
  plan.done = &block_->launches_done[place];
  plan.done_value = number + 1;
  plan.blocks_done = launching_.blocks_done;
  launched_[place] = {slot, nullptr, plan.kind == launch_kind::kernel, false};
  if (is_gate) put_gate(plan);
  try {
    launching_.device->launch(launching_.stream, run, plan);
    if (is_gate) store_release(plan.done, plan.done_value);
  } catch (const std::exception& e) {
    static std::mutex mutex;
    // Keep each text for ever, because a reply that contains it may be read late. There are only a
    // few different texts.
    static auto* const texts = new std::set<std::string>;
    const std::lock_guard guard(mutex);
    launched_[place].failure = texts->insert(e.what()).first->c_str();
    store_release(plan.done, plan.done_value);
    if (is_gate) store_release(plan.gate, plan.gate_value);
  }
  // Release, paired with the acquire load in end_launches(), so that a thread that sees the new
  // number of begun launches can read this launch's entry.
  launches_begun_.store(number + 1, std::memory_order_release);
  all_->expect_soon();
  return true;
}

/// Sends replies to all launches that have ended. Kernels in the lane's stream end in order. A
/// launch of when() ends when the program's stream reaches it, which may be earlier or later than
/// kernels before it.
void host_endpoint::end_launches() noexcept {
  const std::uint64_t begun = launches_begun_.load(std::memory_order_acquire);
  std::uint64_t ended = launches_ended_.load(std::memory_order_relaxed);
  bool is_stream_busy = false;
  for (std::uint64_t number = ended; number != begun; ++number) {
    launched& l = launched_[number % max_launches];
    if (l.has_ended || (l.is_in_order && is_stream_busy)) continue;
    if (load_acquire(&block_->launches_done[number % max_launches]) != number + 1) {
      is_stream_busy |= l.is_in_order;
      continue;
    }
    if (!reply_to(l)) break;
    l.has_ended = true;
  }
  while (ended != begun && launched_[ended % max_launches].has_ended)
    ++ended;
  launches_ended_.store(ended, std::memory_order_release);
}

/// Replies to a launch. Returns false if there is no space for the reply.
bool host_endpoint::reply_to(const launched& l) noexcept {
  if (l.slot == UINT32_MAX || in_.state() == receive_state::dropping) return true;
  // Build the reply in the host's memory, in the same form in which a worker on the device would
  // write it.
  alignas(16) std::uint32_t reply[slot_words] = {};
  reply[1] = l.slot;
  std::uint32_t bytes = sizeof(record_header);
  record_kind kind = record_kind::reply;
  if (l.failure != nullptr) {
    constexpr std::string_view type = "farcall::device_error";
    const std::string_view text = std::string_view(l.failure).substr(0, 200);
    reply[2] = static_cast<std::uint32_t>(type.size());
    reply[3] = static_cast<std::uint32_t>(text.size());
    std::memcpy(reply + 4, type.data(), type.size());
    std::memcpy(reinterpret_cast<char*>(reply + 4) + type.size(), text.data(), text.size());
    bytes = static_cast<std::uint32_t>(16 + type.size() + text.size());
    kind = record_kind::reply_error;
  }
  reply[0] = commit_word(bytes, kind);
  return take(reply);
}

bool host_endpoint::send_notices(record_kind kind, const lane_shape& shape) noexcept {
  if (!has_space()) return false;
  const lane_notice notices{{commit_word(sizeof notices, kind), shape.doorbell},
                            shape.worker,
                            shape.own_worker ? 1U : 0U};
  put(reinterpret_cast<const std::uint32_t*>(&notices));
  return true;
}

/// Makes the device wait for an event before it takes later messages of the lane. For this, puts a
/// notice into the lane, but lets CUDA write the notice's first word when the event has completed.
/// The device takes messages in order, and takes no message whose words are not all there.
void host_endpoint::put_gate(launch_plan& plan) noexcept {
  const std::uint64_t next = next_down_.load(std::memory_order_relaxed);
  slot& s = block_->down[slot_at(next)];
  store_release(&s.words[1], word_of(UINT32_MAX, phase_of(next)));
  plan.gate = &s.words[0];
  plan.gate_value = word_of(commit_word(sizeof(record_header), lane_waits), phase_of(next));
  next_down_.store(next + 1, std::memory_order_release);
  awaits_event_.store(true, std::memory_order_release);
}

/// True if the first word of the message at `position` was written, or if the slot already holds a
/// later message.
bool host_endpoint::is_written(std::uint64_t position) const noexcept {
  const std::uint32_t phase = phase_in(load_acquire(&block_->down[slot_at(position)].words[0]));
  return static_cast<std::int32_t>(phase - phase_of(position)) >= 0;
}

void host_endpoint::look_at_gates_locked() noexcept {
  // Wake the worker if the event has completed, because a worker that has left does not notice
  // this.
  if (has_unread()) all_->wake(worker_);
  const std::uint64_t next = next_down_.load(std::memory_order_relaxed);
  for (std::uint64_t i = load_acquire(&block_->down_consumed); i < next; ++i) {
    if (!is_written(i)) return;
  }
  awaits_event_.store(false, std::memory_order_release);
}

bool host_endpoint::has_unread() const noexcept {
  const std::uint64_t next = next_down_.load(std::memory_order_acquire);
  const std::uint64_t consumed = load_acquire(&block_->down_consumed);
  return next != consumed && is_written(consumed);
}

bool host_endpoint::has_all_consumed() const noexcept {
  return next_down_.load(std::memory_order_acquire) == load_acquire(&block_->down_consumed);
}

std::string host_endpoint::text() {
  const std::uint64_t begun = launches_begun();
  std::string text = "sends (" + std::string(name_of(out_.state())) +
                     "): " + std::to_string(next_down_.load(std::memory_order_acquire)) +
                     " written, the device tells of " +
                     std::to_string(load_acquire(&block_->down_consumed)) + " read; receives (" +
                     std::string(name_of(in_.state())) + "): ";
  if (const std::unique_lock lock(receive_mutex_, std::try_to_lock); lock) {
    alignas(16) std::uint32_t message[slot_words];
    const slot& next = block_->up[slot_at(next_up_)];
    text += std::to_string(next_up_) + " read, the next one " +
            (load_slot(next, phase_of(next_up_), message) ? "waits" : "is not there");
  } else {
    text += "a thread is about to";
  }
  if (begun != 0) {
    text += "; launches: " + std::to_string(launches_ended_.load(std::memory_order_acquire)) +
            " of " + std::to_string(begun) + " have ended";
  }
  return text;
}

// ---- up -----------------------------------------------------------------------------------------

bool host_endpoint::take(const std::uint32_t* message) noexcept {
  const record_kind kind = commit_kind(message[0]);
  if (kind == lane_opened) {
    // Leave the notice in its slot while the lane's previous use has not ended.
    if (!in_.on(receive_event::offer)) return false;
    std::memcpy(&opening_, message, sizeof opening_);
    return true;
  }
  // Leave the messages after the notice in their slots until accept(), because they are for the
  // server that accepts the lane.
  const receive_state state = in_.state();
  if (state == receive_state::offered) return false;
  if (kind == lane_closed) {
    if (in_.on(receive_event::end)) in_.wake();
    return true;
  }
  if (state != receive_state::open && state != receive_state::full) return true;
  return put_into_ring(message);
}

bool host_endpoint::put_into_ring(const std::uint32_t* message) noexcept {
  const std::uint32_t word = message[0];
  const std::uint32_t bytes = commit_bytes(word);
  std::byte* const to = in_.reserve(bytes);
  if (to == nullptr) return false;
  if (bytes <= slot_bytes) {
    std::memcpy(to + sizeof word, message + 1, bytes - sizeof word);
  } else {
    // Copy the rest of the record from the bounce buffer, because the slot has only the header.
    std::memcpy(to + sizeof word, message + 1, sizeof word);
    std::memcpy(to + sizeof(record_header),
                block_->bounce_buffer(message[2], size_) + sizeof(record_header),
                bytes - sizeof(record_header));
  }
  in_.commit(to, bytes, commit_kind(word));
  return true;
}

/// True if the record's lengths are plausible. The caller ends the lane at any other record,
/// because the lane's user would read wrong data.
bool host_endpoint::is_sane(const std::uint32_t* message) const noexcept {
  const std::uint32_t bytes = commit_bytes(message[0]);
  return bytes >= sizeof(record_header) && bytes <= record_limit(size_) &&
         (bytes <= slot_bytes || message[2] <= size_ - size_ / bounce_buffers);
}

void host_endpoint::receive_locked() noexcept {
  alignas(16) std::uint32_t message[slot_words];
  if (in_.state() == receive_state::corrupt) return;
  if (has_launches()) end_launches();
  for (;;) {
    const slot& next = block_->up[slot_at(next_up_)];
    if (!load_slot(next, phase_of(next_up_), message)) {
      if (++misses_ % looks_per_check == 0) all_->look(clock::now());
      return;
    }
    misses_ = 0;
    if (!is_sane(message)) {
      in_.on(receive_event::corrupt);
      out_.on(send_event::cut);
      all_->fail("it has written a record that is none");
      return;
    }
    if (!take(message)) return;
    ++next_up_;
    const bool was_long = commit_bytes(message[0]) > slot_bytes;
    if (was_long || next_up_ - up_told_ >= ring_slots / 4) {
      up_told_ = next_up_;
      // Release, so that the reads of the slots happen before the device writes into them again.
      store_release(&block_->up_consumed, next_up_);
    }
  }
}

// ---- life ---------------------------------------------------------------------------------------

void host_endpoint::begin(lane_role role, doorbell& wakes) noexcept {
  staged_records_.clear();
  staged_lane::begin(block_->requests(), received_.get(), size_, role, wakes);
}

void host_endpoint::open(const lane_shape& shape, doorbell& wakes) {
  const std::scoped_lock guard(send_mutex_, receive_mutex_);
  begin(lane_role::opener, wakes);
  // Ignore the result: the call succeeds, because the ring of slots is empty and has space for the
  // notice.
  (void)send_notices(lane_opened, shape);
}

void host_endpoint::close() noexcept {
  {
    const std::lock_guard guard(receive_mutex_);
    in_.on(receive_event::close);
  }
  const std::lock_guard guard(send_mutex_);
  if (out_.on(send_event::close)) send_locked();
}

bool host_endpoint::is_free() noexcept {
  const std::scoped_lock guard(send_mutex_, receive_mutex_);
  if (out_.state() == send_state::idle) return true;
  send_locked();
  // Read the device's position before receiving. The device sends a reply before it reports that it
  // has consumed the request. The call below therefore receives the replies to all consumed
  // requests.
  const bool is_consumed = out_.state() == send_state::finished && has_all_consumed();
  receive_locked();
  if (!is_consumed || has_launches()) return false;
  out_.on(send_event::release);
  in_.on(receive_event::release);
  return true;
}

bool host_endpoint::has_been_opened() noexcept {
  const std::lock_guard guard(receive_mutex_);
  receive_locked();
  return in_.state() == receive_state::offered;
}

void host_endpoint::accept(doorbell& wakes) noexcept {
  const std::scoped_lock guard(send_mutex_, receive_mutex_);
  begin(lane_role::acceptor, wakes);
}

bool host_endpoint::has_ended() noexcept {
  const std::lock_guard guard(receive_mutex_);
  receive_locked();
  return in_.state() == receive_state::ended;
}

void host_endpoint::end() noexcept {
  const std::scoped_lock guard(send_mutex_, receive_mutex_);
  out_.on(send_event::release);
  in_.on(receive_event::close);
}

void host_endpoint::progress() noexcept {
  // Receive before sending: if the lane to the device is full, the device may be waiting until the
  // host takes the device's own messages.
  if (receive_mutex_.try_lock()) {
    receive_locked();
    receive_mutex_.unlock();
  }
  if ((is_blocked(out_.state()) || out_.is_held() || awaits_event()) && send_mutex_.try_lock()) {
    send_locked();
    if (awaits_event()) look_at_gates_locked();
    send_mutex_.unlock();
  }
}

void host_endpoint::arm() noexcept { all_->expect_soon(); }

} // namespace farcall::cuda
