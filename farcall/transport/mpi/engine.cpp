// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/transport/mpi/engine.hpp>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <string>

#include <sched.h>

namespace farcall::mpi {
namespace {

constexpr std::size_t receive_slots = 32;
constexpr std::size_t send_slots = 64;
/// Number of taken messages after which their receives are started again even if further messages
/// arrive.
constexpr std::size_t max_stopped_receives = receive_slots / 2;
/// Largest number of messages that one poll receives, so that the lock is released again soon.
constexpr unsigned max_arrivals = 64;

/// Interval at which the event loop polls: the time since the last event divided by
/// `polls_per_idle_time`, but at least `min_interval` and at most `max_interval`.
constexpr int polls_per_idle_time = 16;
constexpr std::chrono::microseconds min_interval{50};
constexpr std::chrono::milliseconds max_interval{5};
/// While users poll, interval at which the event loop checks if they still do.
constexpr std::chrono::microseconds poll_interval{400};
/// If only one thread may call MPI, interval at which the event loop wakes that thread.
constexpr std::chrono::milliseconds wake_interval{1};

/// Longest time for which the end of the engine waits until MPI has cancelled the posted receives.
constexpr std::chrono::milliseconds taking_back{200};

/// Returns the tag of messages to a new transport of this process. Messages to the process's other
/// transports have other tags.
int next_message_tag() noexcept {
  static std::atomic<std::uint32_t> used{0};
  return static_cast<int>(1 + used.fetch_add(1, std::memory_order_relaxed) % (max_tags - 1));
}

std::thread::id only_for(threads level) noexcept {
  return level == threads::one ? std::this_thread::get_id() : std::thread::id{};
}

} // namespace

engine::engine(receiver& to, std::shared_ptr<const world> over, threads level,
               std::span<doorbell> doorbells)
    : message_link(lane_bytes_in_message, only_for(level)), to_(&to), world_(std::move(over)),
      communicator_(world_->owner.lock()), level_(level), doorbells_(doorbells),
      tag_(next_message_tag()), receives_(new slot[receive_slots]), sends_(new slot[send_slots]),
      last_notice_(clock::now()) {
  free_sends_.reserve(send_slots);
  for (std::size_t i = 0; i < send_slots; ++i)
    free_sends_.push_back(&sends_[i]);
  try {
    start_receives();
    watch_forks();
    join();
  } catch (...) {
    stop();
    throw;
  }
  // Set the timer now. A peer may send before any thread of this node sleeps, and so before any
  // thread sets the timer.
  timer_.after(poll_interval);
}

engine::~engine() {
  unwatch_forks();
  if (!is_forked_) stop();
}

void engine::start_receives() {
  for (std::size_t i = 0; i < receive_slots; ++i) {
    slot& s = receives_[i];
    int result = ::MPI_Recv_init(s.bytes, static_cast<int>(message_bytes), MPI_BYTE, MPI_ANY_SOURCE,
                                 tag_, world_->communicator, &s.request);
    if (result == MPI_SUCCESS) result = ::MPI_Start(&s.request);
    if (result != MPI_SUCCESS) throw error("MPI does not receive: " + text_of(result));
  }
}

// ---- end of the engine --------------------------------------------------------------------------

/// Cancels a request, or waits until it has completed, and frees it. Returns false if MPI still
/// uses the request at the deadline.
bool engine::take_back(MPI_Request& request, time_point deadline) noexcept {
  if (request == MPI_REQUEST_NULL) return true;
  (void)::MPI_Cancel(&request);
  for (;;) {
    int is_done = 0;
    if (::MPI_Test(&request, &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS || is_done != 0) break;
    if (clock::now() >= deadline) return false;
    ::sched_yield();
  }
  // Free a persistent request. A request that is not persistent is null now, because MPI has freed
  // it.
  if (request != MPI_REQUEST_NULL) (void)::MPI_Request_free(&request);
  return true;
}

void engine::stop() noexcept {
  leave();
  const std::lock_guard guard(mutex());
  release();
}

void engine::before_end() noexcept {
  const std::lock_guard guard(mutex());
  if (is_usable()) to_->before_end();
  release();
  to_->on_end();
}

/// Cancels MPI's operations on the engine's memory. If MPI may still use the memory of messages
/// after that, this memory is leaked.
void engine::release() noexcept {
  if (!receives_) return;
  bool is_kept = has_ended_ || is_forked_ || !is_for_caller();
  // Start all receives, because MPI can cancel only receives that were started.
  if (!is_kept) is_kept = !start_stopped_receives();
  has_ended_ = true;
  const time_point deadline = clock::now() + taking_back;
  if (!is_kept) {
    for (std::size_t i = 0; i < receive_slots; ++i)
      is_kept = !take_back(receives_[i].request, deadline) || is_kept;
    for (std::size_t i = 0; i < send_slots; ++i) {
      int is_done = 1;
      if (sends_[i].request != MPI_REQUEST_NULL)
        (void)::MPI_Test(&sends_[i].request, &is_done, MPI_STATUS_IGNORE);
      is_kept = is_done == 0 || is_kept;
    }
    for (MPI_Request& r : requests_)
      (void)take_back(r, deadline);
  }
  for (transfer* const t : std::exchange(transfers_, {}))
    t->ended(t->argument, false);
  for (const planned& p : std::exchange(planned_, {}))
    p.what->ended(p.what->argument, false);
  to_cancel_.clear();
  requests_.clear();
  free_sends_.clear();
  queue_.clear();
  sending_ = 0;
  communicator_.reset();
  if (!is_kept) {
    receives_.reset();
    sends_.reset();
    return;
  }
  // NOLINTBEGIN(bugprone-unused-return-value): MPI may read and write there
  receives_.release();
  sends_.release();
  // NOLINTEND(bugprone-unused-return-value)
}

// ---- sending ------------------------------------------------------------------------------------

engine::slot* engine::free_slot() noexcept {
  if (free_sends_.empty()) reap_sends();
  if (free_sends_.empty()) return nullptr;
  slot* const s = free_sends_.back();
  free_sends_.pop_back();
  return s;
}

void engine::reap_sends() noexcept {
  for (std::size_t i = 0; i < send_slots && sending_ != 0; ++i) {
    slot& s = sends_[i];
    if (s.request == MPI_REQUEST_NULL) continue;
    int is_done = 0;
    if (::MPI_Test(&s.request, &is_done, MPI_STATUS_IGNORE) == MPI_SUCCESS && is_done == 0)
      continue;
    s.request = MPI_REQUEST_NULL;
    --sending_;
    free_sends_.push_back(&s); // reserved in the constructor
  }
}

/// Sends the message in a slot. After the call, either MPI uses the slot, or the slot is free
/// again.
bool engine::send_slot(slot& s, connection& to, std::size_t bytes) noexcept {
  int result = ::MPI_Isend(s.bytes, static_cast<int>(bytes), MPI_BYTE, to.rank, to.tag,
                           world_->communicator, &s.request);
  int is_done = 0;
  // Test the send at once, so that its slot can be used again. Most sends have completed by now,
  // because MPI has copied the bytes.
  if (result == MPI_SUCCESS) result = ::MPI_Test(&s.request, &is_done, MPI_STATUS_IGNORE);
  if (result == MPI_SUCCESS && is_done == 0) {
    ++sending_;
    return true;
  }
  s.request = MPI_REQUEST_NULL;
  free_sends_.push_back(&s);
  if (result == MPI_SUCCESS) return true;
  fail(to, result);
  return false;
}

void engine::fail(connection& to, int result) noexcept {
  if (std::exchange(to.has_failed, true)) return;
  try {
    log::warning(node_text(to.node) + " cannot be reached by MPI: " + text_of(result));
    failures_.push_back(&to);
  } catch (const std::bad_alloc&) {
    // If there is no memory to report the failure, the peer's lanes notice it when they send again.
  }
}

message_link::outcome engine::send(message_lane& from, const lane_header& header,
                                   std::span<const std::byte> bytes) noexcept {
  auto& to = static_cast<connection&>(from.to());
  if (to.rank < 0 || to.has_failed || to.is_gone || has_ended_) return outcome::failed;
  slot* const s = queue_.empty() && is_usable() ? free_slot() : nullptr;
  if (s == nullptr) {
    if (!is_for_caller()) poll_again();
    serve_soon(from);
    return outcome::later;
  }
  const prefix p{static_cast<std::uint16_t>(lane_message::bytes), sizeof header};
  std::memcpy(s->bytes, &p, sizeof p);
  std::memcpy(s->bytes + sizeof p, &header, sizeof header);
  std::memcpy(s->bytes + sizeof p + sizeof header, bytes.data(), bytes.size());
  return send_slot(*s, to, sizeof p + sizeof header + bytes.size()) ? outcome::sent
                                                                    : outcome::failed;
}

bool engine::post(connection& to, std::uint16_t kind, std::span<const std::byte> header) noexcept {
  if (to.rank < 0 || to.has_failed || to.is_gone || has_ended_ || is_forked_) return false;
  queued q{&to, kind, static_cast<std::uint16_t>(header.size()), {}};
  std::memcpy(q.header, header.data(), header.size());
  try {
    queue_.push_back(q);
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (is_for_caller()) {
    send_queued();
  } else {
    poll_again();
  }
  return !to.has_failed;
}

void engine::send_queued() noexcept {
  while (!queue_.empty()) {
    const queued& q = queue_.front();
    if (!q.to->has_failed && !q.to->is_gone) {
      slot* const s = free_slot();
      if (s == nullptr) return;
      const prefix p{q.kind, q.header_bytes};
      std::memcpy(s->bytes, &p, sizeof p);
      std::memcpy(s->bytes + sizeof p, q.header, q.header_bytes);
      (void)send_slot(*s, *q.to, sizeof p + q.header_bytes);
    }
    queue_.pop_front();
  }
}

void engine::drop_queued(const connection& to) noexcept {
  std::erase_if(queue_, [&](const queued& q) { return q.to == &to; });
}

// ---- copies -------------------------------------------------------------------------------------

bool engine::start(const planned& p) noexcept {
  if (has_ended_ || is_forked_ || p.peer->rank < 0) return false;
  try {
    if (!is_for_caller()) {
      planned_.push_back(p);
      poll_again();
      return true;
    }
    // Allocate all memory before the operation starts. Afterwards MPI uses the transfer's memory,
    // so that no step may fail any more.
    const std::size_t count = transfers_.size() + 1;
    transfers_.reserve(count);
    requests_.reserve(count);
    indices_.resize(count);
    statuses_.resize(count);
  } catch (const std::bad_alloc&) {
    return false;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  const int result = p.is_send ? ::MPI_Isend(p.memory, p.bytes, MPI_BYTE, p.peer->rank, p.tag,
                                             world_->communicator, &request)
                               : ::MPI_Irecv(p.memory, p.bytes, MPI_BYTE, p.peer->rank, p.tag,
                                             world_->communicator, &request);
  if (result != MPI_SUCCESS) return false;
  transfers_.push_back(p.what);
  requests_.push_back(request);
  return true;
}

bool engine::start_send(transfer& t, const connection& to, std::uint32_t tag, const std::byte* from,
                        std::size_t bytes) noexcept {
  return start({&t, &to, static_cast<int>(tag), static_cast<int>(bytes),
                const_cast<std::byte*>(from), true});
}

bool engine::start_receive(transfer& t, const connection& from, std::uint32_t tag, std::byte* to,
                           std::size_t bytes) noexcept {
  return start({&t, &from, static_cast<int>(tag), static_cast<int>(bytes), to, false});
}

void engine::start_planned() noexcept {
  for (const planned& p : std::exchange(planned_, {})) {
    if (!start(p)) p.what->ended(p.what->argument, false);
  }
}

void engine::cancel(transfer& t) noexcept {
  if (std::erase_if(planned_, [&](const planned& p) { return p.what == &t; }) != 0) {
    t.ended(t.argument, false);
    return;
  }
  const auto at = std::find(transfers_.begin(), transfers_.end(), &t);
  if (at == transfers_.end()) return;
  if (is_usable()) {
    (void)::MPI_Cancel(&requests_[static_cast<std::size_t>(at - transfers_.begin())]);
    return;
  }
  try {
    to_cancel_.push_back(&t);
    poll_again();
  } catch (const std::bad_alloc&) {
    // If there is no memory to note the transfer, it is not cancelled, and stays until the engine
    // ends.
  }
}

unsigned engine::end_transfers() noexcept {
  int count = 0;
  (void)::MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                       indices_.data(), statuses_.data());
  if (count == MPI_UNDEFINED || count <= 0) return 0;
  std::vector<std::pair<transfer*, bool>> ended;
  ended.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const MPI_Status& status = statuses_[static_cast<std::size_t>(i)];
    int is_cancelled = 0;
    (void)::MPI_Test_cancelled(&status, &is_cancelled);
    const auto at = static_cast<std::size_t>(indices_[static_cast<std::size_t>(i)]);
    ended.emplace_back(transfers_[at], is_cancelled == 0);
    transfers_[at] = nullptr;
  }
  // Remove the completed requests, which MPI has set to null.
  std::erase(transfers_, nullptr);
  std::erase(requests_, MPI_REQUEST_NULL);
  for (const auto& [t, is_good] : ended) {
    std::erase(to_cancel_, t);
    t->ended(t->argument, is_good);
  }
  return static_cast<unsigned>(count);
}

// ---- receiving ----------------------------------------------------------------------------------

void engine::take(const slot& s, const MPI_Status& status) noexcept {
  int bytes = 0;
  if (::MPI_Get_count(&status, MPI_BYTE, &bytes) != MPI_SUCCESS || bytes < 0) return;
  const std::span all(s.bytes, static_cast<std::size_t>(bytes));
  prefix p;
  if (all.size() < sizeof p) return;
  std::memcpy(&p, all.data(), sizeof p);
  const auto rest = all.subspan(sizeof p);
  if (p.header_bytes > rest.size() || p.header_bytes > max_header) return;
  to_->on_message(p.kind, status.MPI_SOURCE, rest.first(p.header_bytes),
                  rest.subspan(p.header_bytes));
}

unsigned engine::take_arrivals() noexcept {
  // A single message after an empty poll is probably a call or a reply for which a thread waits. To
  // let that thread go on at once, do not poll for further messages, and start the receive again
  // only in a later poll.
  const unsigned most = had_arrivals_ ? max_arrivals : 1;
  unsigned done = 0;
  while (done < most && stopped_receives_ < receive_slots) {
    slot& s = receives_[next_receive_];
    int has_come = 0;
    MPI_Status status;
    const int result = ::MPI_Test(&s.request, &has_come, &status);
    if (result == MPI_SUCCESS && has_come == 0) break;
    // Drop the message if MPI reports an error. The message was then longer than any message of
    // this library.
    if (result == MPI_SUCCESS) take(s, status);
    next_receive_ = (next_receive_ + 1) % receive_slots;
    ++stopped_receives_;
    ++done;
    if (stopped_receives_ >= max_stopped_receives && !start_stopped_receives()) break;
  }
  had_arrivals_ = done != 0;
  if (done == 0 && stopped_receives_ != 0) (void)start_stopped_receives();
  return done;
}

/// Starts the receives again whose messages were taken, in the order of the messages. Returns false
/// if MPI receives no more.
bool engine::start_stopped_receives() noexcept {
  for (; stopped_receives_ != 0; --stopped_receives_) {
    const std::size_t at = (next_receive_ + receive_slots - stopped_receives_) % receive_slots;
    if (::MPI_Start(&receives_[at].request) == MPI_SUCCESS) continue;
    log::error("MPI receives no more");
    has_ended_ = true;
    return false;
  }
  return true;
}

unsigned engine::progress() noexcept {
  if (!is_usable()) return 0;
  unsigned done = take_arrivals();
  if (sending_ != 0) [[unlikely]]
    reap_sends();
  if (!transfers_.empty()) done += end_transfers();
  if (!queue_.empty()) [[unlikely]]
    send_queued();
  if (level_ == threads::one && is_left_.load(std::memory_order_relaxed)) {
    // Clear the flag before the work is read below. The exchange is sequentially consistent, so
    // that a thread that leaves more work later sets the flag again.
    is_left_.exchange(false, std::memory_order_seq_cst);
    start_planned();
    for (transfer* const t : std::exchange(to_cancel_, {}))
      cancel(*t);
    to_->sweep();
  }
  to_->after_progress();
  return done;
}

// ---- waking up ----------------------------------------------------------------------------------

void engine::arm() noexcept {
  if (is_forked_) return;
  is_awaited_.store(true, std::memory_order_relaxed);
  timer_.at_last_after(level_ == threads::one ? wake_interval : min_interval);
}

void engine::poll_again() noexcept {
  if (level_ == threads::one) is_left_.store(true, std::memory_order_seq_cst);
  timer_.after(poll_interval);
}

void engine::on_wake_up() noexcept {
  if (is_forked_) return;
  timer_.take();
  {
    const std::unique_lock guard(mutex(), std::try_to_lock);
    if (guard && has_ended_) {
      to_->sweep();
      return;
    }
  }
  if (!is_for_caller()) {
    for (doorbell& d : doorbells_)
      notify_if_armed(d);
    timer_.after(wake_interval);
    return;
  }
  const std::unique_lock guard(mutex(), std::try_to_lock);
  if (!guard) {
    poll_again();
    return;
  }
  const unsigned done = progress();
  to_->sweep();
  const time_point now = clock::now();
  if (polls_ != polls_seen_) {
    polls_seen_ = polls_;
    last_notice_ = now;
    timer_.after(poll_interval);
    return;
  }
  if (done != 0 || is_awaited_.exchange(false, std::memory_order_relaxed)) last_notice_ = now;
  timer_.after(std::clamp<std::chrono::nanoseconds>((now - last_notice_) / polls_per_idle_time,
                                                    min_interval, max_interval));
}

} // namespace farcall::mpi
