#include <farcall/base/log.hpp>
#include <farcall/transport/tcp/lane.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace farcall::tcp {
namespace {

/// Commits within this time after a send wait for company. A send costs the sender about as much,
/// so a stream of small messages spends half its time on messages. Less than a round trip on
/// loopback takes, or calls that are waited for would be put off, and the reactor be woken for
/// nothing.
constexpr std::chrono::microseconds send_gap{2};

/// A lane on which nothing has come for that long is left to the reactor: looking at a socket costs
/// a system call, and a worker may have many.
constexpr std::chrono::milliseconds quiet_for{1};
constexpr unsigned looks_per_clock = 16;

/// How long a lane that was cut off waits for news of its node, which say more than the lane can.
constexpr std::chrono::milliseconds news_interval{500};

constexpr std::size_t word_bytes = sizeof(std::uint32_t);

constexpr std::uint64_t record_span(std::uint32_t word) noexcept {
  return align_up(std::uint64_t{commit_bytes(word)}, record_alignment);
}

} // namespace

lane_end::lane_end(reactor& loop, std::uint32_t ring_bytes, bell& wakes, bool is_opener)
    : loop_(&loop), size_(ring_bytes), wakes_(&wakes), is_opener_(is_opener) {
  rings_ = make_line_aligned(std::size_t{ring_bytes} * 2);
}

lane_end::~lane_end() = default;

void lane_end::fill(channel& end) noexcept {
  farcall::attach(end.out, rings_.get(), size_, out_consumed_);
  farcall::attach(end.in, rings_.get() + size_, size_, in_consumed_);
  notify_on_commit(end.out, &lane_end::committed, this);
  end.carrier = this;
}

// ---- sending ------------------------------------------------------------------------------------

void lane_end::committed(void* self) noexcept {
  auto& lane = *static_cast<lane_end*>(self);
  const time_point::rep now = clock::now().time_since_epoch().count();
  if (now >= lane.send_again_.load(std::memory_order_relaxed)) {
    lane.flush();
  } else if (!lane.deferred_.exchange(true, std::memory_order_seq_cst)) {
    lane.loop_->note_deferral();
  }
}

void lane_end::flush() noexcept {
  if (!send_mutex_.try_lock()) {
    // Whoever sends now may have looked before our commit.
    if (!deferred_.exchange(true, std::memory_order_seq_cst)) loop_->note_deferral();
    return;
  }
  flush_locked();
  send_mutex_.unlock();
}

void lane_end::flush_locked() noexcept {
  if (!is_attached_.load(std::memory_order_acquire) || is_finished_ ||
      state_.load(std::memory_order_relaxed) == state::lost) {
    return;
  }
  // Before the look at the ring: who commits after it puts the mark back.
  deferred_.exchange(false, std::memory_order_seq_cst);
  std::byte* const ring = rings_.get();
  const std::uint64_t mask = size_ - 1;
  while (!is_refused_) {
    // Acquire; partner: the release store in commit().
    const std::uint32_t word =
        ring_detail::commit_at(ring, walked_ & mask).load(std::memory_order_acquire);
    if (word == 0) break;
    if (commit_kind(word) == record_kind::corrupt) {
      // The mark of refuse(): it has no length, and nothing comes behind it.
      is_refused_ = true;
      is_finishing_ = true;
      walked_ += record_alignment;
    } else {
      walked_ += record_span(word);
    }
  }
  while (!first_.empty() || sent_ != walked_) {
    std::array<iovec, 3> parts{};
    std::size_t count = 0;
    if (!first_.empty()) parts[count++] = {first_.data(), first_.size()};
    const std::uint64_t offset = sent_ & mask;
    const std::uint64_t left = walked_ - sent_;
    const std::uint64_t straight = std::min<std::uint64_t>(left, size_ - offset);
    if (straight != 0) parts[count++] = {ring + offset, straight};
    if (left != straight) parts[count++] = {ring, left - straight};
    const io_result wrote = stream_->write({parts.data(), count});
    if (wrote.status == io_status::would_block) {
      is_out_blocked_.store(true, std::memory_order_relaxed);
      arm();
      return;
    }
    if (wrote.status != io_status::done) {
      end(state::lost);
      return;
    }
    std::uint64_t bytes = wrote.bytes;
    const auto of_first = std::min<std::uint64_t>(bytes, first_.size());
    first_.erase(first_.begin(), first_.begin() + static_cast<std::ptrdiff_t>(of_first));
    bytes -= of_first;
    sent_ += bytes;
    // Release: our reads of the records happen before they are overwritten. Partner: the acquire
    // load in reserve_slow().
    out_consumed_.store(sent_ & ~std::uint64_t{record_alignment - 1}, std::memory_order_release);
  }
  is_out_blocked_.store(false, std::memory_order_relaxed);
  send_again_.store((clock::now() + send_gap).time_since_epoch().count(),
                    std::memory_order_relaxed);
  if (is_finishing_) {
    is_finished_ = true;
    stream_->finish();
  }
}

void lane_end::send_deferred() noexcept {
  if (deferred_.load(std::memory_order_relaxed)) flush();
}

// ---- receiving ----------------------------------------------------------------------------------

std::uint32_t lane_end::word_at(std::uint64_t position) const noexcept {
  return ring_detail::commit_at(rings_.get() + size_, position & (size_ - 1))
      .load(std::memory_order_relaxed);
}

void lane_end::put_word(std::uint64_t position, std::uint32_t word) noexcept {
  // Release; partner: the acquire load in peek().
  ring_detail::commit_at(rings_.get() + size_, position & (size_ - 1))
      .store(word, std::memory_order_release);
}

std::size_t lane_end::parts_to_fill(std::array<iovec, 3>& parts) noexcept {
  std::byte* const ring = rings_.get() + size_;
  // Acquire; partner: the release store in release(). The word behind the last record is written
  // too, hence the one granule.
  const std::uint64_t limit =
      in_consumed_.load(std::memory_order_acquire) + size_ - record_alignment;
  std::uint64_t from = received_;
  std::size_t count = 0;
  if (const std::uint64_t have = received_ - whole_; have < word_bytes) {
    if (from >= limit) return 0;
    parts[count++] = {reinterpret_cast<std::byte*>(&word_) + have, word_bytes - have};
    from = whole_ + word_bytes;
  }
  if (from >= limit) return count;
  const std::uint64_t offset = from & (size_ - 1);
  const std::uint64_t straight = std::min<std::uint64_t>(limit - from, size_ - offset);
  parts[count++] = {ring + offset, straight};
  if (limit - from != straight) parts[count++] = {ring, limit - from - straight};
  return count;
}

void lane_end::receive_locked() noexcept {
  if (!is_attached_.load(std::memory_order_acquire) || has_ended()) return;
  if (is_dropping_) {
    drop_received();
    return;
  }
  if (is_garbled_) return;
  for (;;) {
    std::array<iovec, 3> parts{};
    const std::size_t count = parts_to_fill(parts);
    is_full_ = count == 0;
    if (is_full_) return;
    std::size_t wanted = 0;
    for (std::size_t i = 0; i < count; ++i)
      wanted += parts[i].iov_len;
    const io_result got = stream_->read({parts.data(), count});
    if (got.status == io_status::would_block) {
      if (++misses_ % looks_per_clock == 0) {
        const time_point now = clock::now();
        if (misses_ == looks_per_clock) quiet_since_ = now;
        if (now - quiet_since_ > quiet_for) watch();
      }
      return;
    }
    if (got.status != io_status::done) {
      const bool in_order = got.status == io_status::closed && !is_opener_ && received_ == whole_;
      end(in_order ? state::ended : state::lost);
      return;
    }
    received_ += got.bytes;
    misses_ = 0;
    publish_records();
    if (got.bytes < wanted && !stream_->has_buffered()) return;
  }
}

void lane_end::drop_received() noexcept {
  const iovec all{rings_.get() + size_, size_};
  for (;;) {
    const io_result got = stream_->read({&all, 1});
    if (got.status == io_status::done) continue;
    if (got.status != io_status::would_block) {
      end(state::ended);
      loop_->note_deferral();
    }
    return;
  }
}

void lane_end::publish_records() noexcept {
  if (received_ - whole_ < word_bytes) return;
  const std::uint64_t begin = whole_;
  const std::uint32_t first = word_;
  std::uint64_t at = begin;
  std::uint32_t word = first;
  for (;;) {
    const std::uint64_t to_end = size_ - (at & (size_ - 1));
    const std::uint64_t span = record_span(word);
    // What its reader will find to be no record ends the stream; a record never wraps.
    if (commit_bytes(word) < word_bytes || span > to_end ||
        (commit_kind(word) != record_kind::pad && span > record_limit(size_))) {
      is_garbled_ = true;
      if (at != begin) put_word(at, commit_word(0, record_kind::corrupt));
      break;
    }
    if (received_ - at < span) break;
    at += span;
    const std::uint64_t have = received_ - at;
    if (have < word_bytes) {
      std::memcpy(&word_, rings_.get() + size_ + (at & (size_ - 1)), have);
      break;
    }
    word = word_at(at);
    word_ = word;
  }
  if (is_garbled_ && at == begin) {
    put_word(begin, commit_word(0, record_kind::corrupt));
    return;
  }
  if (at == begin) return;
  // What lies behind is not whole: it reads as "nothing yet".
  if (!is_garbled_) put_word(at, 0);
  whole_ = at;
  put_word(begin, first);
}

bool lane_end::is_established() const noexcept {
  return is_attached_.load(std::memory_order_acquire) && stream_->is_established();
}

void lane_end::progress() noexcept {
  const bool has_commits =
      ring_detail::commit_at(rings_.get(),
                             out_consumed_.load(std::memory_order_relaxed) & (size_ - 1))
          .load(std::memory_order_relaxed) != 0;
  // During a handshake what a send waits for may have been taken in by a look for records.
  const bool may_send = !is_out_blocked_.load(std::memory_order_relaxed) || !is_established();
  if ((has_commits || deferred_.load(std::memory_order_relaxed)) && may_send &&
      send_mutex_.try_lock()) {
    flush_locked();
    send_mutex_.unlock();
  }
  if (is_watched_.load(std::memory_order_relaxed) || !receive_mutex_.try_lock()) return;
  receive_locked();
  receive_mutex_.unlock();
}

// ---- the reactor's part -------------------------------------------------------------------------

void lane_end::watch() noexcept {
  if (!is_watched_.exchange(true, std::memory_order_seq_cst)) arm();
}

void lane_end::arm() noexcept {
  if (!is_attached_.load(std::memory_order_acquire)) return;
  const std::lock_guard guard(arm_mutex_);
  std::uint32_t events = EPOLLONESHOT;
  if (is_watched_.load(std::memory_order_seq_cst)) {
    // The socket does not know what the stream has taken from it already.
    if (stream_->has_buffered()) {
      loop_->post([self = shared_from_this()] { self->on_event(0); });
      return;
    }
    events |= EPOLLIN;
    if (stream_->read_wants_write()) events |= EPOLLOUT;
  }
  if (is_out_blocked_.load(std::memory_order_seq_cst)) {
    events |= stream_->write_wants_read() && !is_established() ? EPOLLIN : EPOLLOUT;
  }
  loop_->modify(stream_->fd(), events);
}

void lane_end::on_event(std::uint32_t /*events*/) noexcept {
  bool has_news = false;
  {
    const std::lock_guard guard(send_mutex_);
    is_out_blocked_.store(false, std::memory_order_relaxed);
    flush_locked();
  }
  {
    const std::lock_guard guard(receive_mutex_);
    const std::uint64_t before = whole_;
    is_watched_.store(false, std::memory_order_relaxed);
    receive_locked();
    // A full ring is for its user to empty, who has not slept since.
    has_news = whole_ != before || is_full_ || is_garbled_ || has_ended();
  }
  if (has_news) {
    ring_if_asleep(*wakes_);
    if (is_out_blocked_.load(std::memory_order_relaxed)) arm();
  } else {
    is_watched_.store(true, std::memory_order_seq_cst);
    arm();
  }
}

void lane_end::attach(std::unique_ptr<stream> connection, std::span<const std::byte> first) {
  {
    const std::lock_guard guard(send_mutex_);
    first_.assign(first.begin(), first.end());
    const std::lock_guard receive_guard(receive_mutex_);
    stream_ = std::move(connection);
    loop_->add(stream_->fd(), EPOLLONESHOT, shared_from_this());
    is_attached_.store(true, std::memory_order_seq_cst);
    flush_locked();
  }
  if (state_.load(std::memory_order_seq_cst) == state::lost) {
    // It was cut while it was being connected.
    cut();
    return;
  }
  // Whoever sleeps already has asked in vain, and the first bytes may have come with the opening.
  on_event(0);
}

void lane_end::give_up(const std::string& why) {
  log::warning("a lane could not be connected: " + why);
  end(state::lost);
}

void lane_end::end(state how) noexcept {
  state expected = state::open;
  if (!state_.compare_exchange_strong(expected, how, std::memory_order_acq_rel)) return;
  if (how == state::ended || !is_opener_) {
    ring_if_asleep(*wakes_);
    return;
  }
  try {
    loop_->at(clock::now() + news_interval, [self = shared_from_this()] { self->declare_lost(); });
  } catch (const std::exception&) {
    ring_if_asleep(*wakes_);
  }
}

void lane_end::declare_lost() noexcept {
  {
    const std::lock_guard guard(receive_mutex_);
    is_garbled_ = true;
    put_word(whole_, commit_word(0, record_kind::lost));
  }
  ring(*wakes_);
}

// ---- the end ------------------------------------------------------------------------------------

void lane_end::finish() noexcept {
  {
    const std::lock_guard guard(send_mutex_);
    is_finishing_ = true;
    if (is_attached_.load(std::memory_order_acquire)) flush_locked();
  }
  {
    const std::lock_guard guard(receive_mutex_);
    is_dropping_ = true;
  }
  is_watched_.store(true, std::memory_order_seq_cst);
  arm();
}

bool lane_end::is_lingering() noexcept {
  return state_.load(std::memory_order_relaxed) == state::open;
}

bool lane_end::has_unsent() noexcept {
  if (state_.load(std::memory_order_relaxed) == state::lost) return false;
  const std::lock_guard guard(send_mutex_);
  flush_locked();
  if (is_attached_.load(std::memory_order_relaxed)) return !first_.empty() || sent_ != walked_;
  return ring_detail::commit_at(rings_.get(), 0).load(std::memory_order_relaxed) != 0;
}

void lane_end::cut() noexcept {
  state_.store(state::lost, std::memory_order_seq_cst);
  if (is_attached_.load(std::memory_order_seq_cst)) {
    loop_->remove(stream_->fd());
    ::shutdown(stream_->fd(), SHUT_RDWR);
  }
}

} // namespace farcall::tcp
