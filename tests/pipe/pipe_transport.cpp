// SPDX-License-Identifier: Apache-2.0
#include "pipe_transport.hpp"

#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace farcall::pipes {
namespace {

constexpr unsigned cost = 50; ///< more than shared memory, less than a network
constexpr std::uint64_t opener_bit = 1;

std::pair<unique_fd, unique_fd> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) throw_system_error("making a pipe", errno);
  return {unique_fd(ends[0]), unique_fd(ends[1])};
}

/// Calls write(). If the pipe has no reader, the call fails with EPIPE, and raises no SIGPIPE.
ssize_t write_quietly(int fd, std::span<const std::byte> bytes) noexcept {
  sigset_t broken;
  sigset_t before;
  ::sigemptyset(&broken);
  ::sigaddset(&broken, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &broken, &before);
  const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
  const int reason = errno;
  if (wrote < 0 && reason == EPIPE) {
    const timespec now{};
    (void)::sigtimedwait(&broken, nullptr, &now);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = reason;
  return wrote;
}

/// Message from a lane's opener to the peer; the ends of two pipes come with it.
struct request {
  std::uint32_t doorbell = 0;
  std::uint32_t worker = 0;
  std::uint32_t own_worker = 0;
};

/// The ring of one direction in private memory, with both of its ends.
struct ring {
  explicit ring(std::uint32_t size) : memory(size / line_bytes) {
    auto* const base = reinterpret_cast<std::byte*>(memory.data());
    attach(in, base, size, consumed);
    attach(out, base, size, consumed);
  }
  struct alignas(line_bytes) line {
    std::byte bytes[line_bytes]{};
  };
  std::vector<line> memory;
  alignas(line_bytes) std::atomic<std::uint64_t> consumed{0};
  inbox in;   ///< of sent_ used by this transport, of arrived_ by the lane's user
  outbox out; ///< of sent_ used by the lane's user, of arrived_ by this transport
};

/// This node's end of a lane: moves records between the lane's rings and its pipes.
class lane final : public lane_driver {
 public:
  lane(std::uint32_t ring_bytes, doorbell& wakes, unique_fd from, unique_fd to, int events)
      : sent_(ring_bytes), arrived_(ring_bytes), from_(std::move(from)), to_(std::move(to)),
        events_(events) {
    notify_on_commit(
        sent_.out, [](void* self) noexcept { static_cast<lane*>(self)->progress(); }, this);
    notify_on_commit(arrived_.out, wakes);
    for (const unique_fd* pipe : {&from_, &to_})
      wait_for(EPOLL_CTL_ADD, *pipe, 0); // no events until arm()
  }

  void fill(endpoint& end) noexcept {
    end.out = sent_.out;
    end.in = arrived_.in;
    end.driver = this;
    end.takes_long = false; // there is no RMA engine
  }

  void progress() noexcept override {
    const std::lock_guard guard(mutex_);
    while (send_some()) {
    }
    while (receive_some()) {
    }
  }

  /// Arms the lane: the next byte makes the transport's wait descriptor readable, once.
  void arm() noexcept override { wait_for(EPOLL_CTL_MOD, from_, EPOLLIN); }

  /// Sends the committed records, and then closes the pipe.
  void finish() noexcept {
    const std::lock_guard guard(mutex_);
    is_finishing_ = true;
    while (send_some()) {
    }
  }

  [[nodiscard]] bool has_ended() const noexcept {
    const std::lock_guard guard(mutex_);
    return has_ended_;
  }
  [[nodiscard]] bool has_unsent() const noexcept {
    const std::lock_guard guard(mutex_);
    return static_cast<bool>(to_);
  }

 private:
  void wait_for(int what, const unique_fd& pipe, std::uint32_t events) const noexcept {
    epoll_event next{};
    next.events = events | EPOLLONESHOT;
    ::epoll_ctl(events_, what, pipe.get(), &next);
  }

  /// Writes the rest of a record, or else the next record of the ring. Returns false if there is no
  /// record to send, or no space in the pipe.
  bool send_some() noexcept {
    if (!to_) return false;
    if (left_.empty()) {
      const record_view record = peek(sent_.in);
      if (!record && is_finishing_) to_.reset();
      if (!record) return false;
      left_.assign(record.data, record.data + record.bytes);
      release(sent_.in, record);
    }
    const ssize_t wrote = write_quietly(to_.get(), left_);
    if (wrote < 0 && errno == EAGAIN) {
      wait_for(EPOLL_CTL_MOD, to_, EPOLLOUT);
      return false;
    }
    if (wrote < 0) { // the peer has gone, which the host reports
      to_.reset();
      return false;
    }
    left_.erase(left_.begin(), left_.begin() + wrote);
    return true;
  }

  /// Reads the rest of a record, and commits the record once it is whole. Returns false if the pipe
  /// is empty.
  bool receive_some() noexcept {
    if (!from_ || has_ended_) return false;
    const std::size_t want = wanted();
    if (got_ == want && got_ != 0) return deliver(static_cast<std::uint32_t>(want));
    if (coming_.size() < want) coming_.resize(want);
    // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection): it does not block
    const ssize_t read = ::read(from_.get(), coming_.data() + got_, want - got_);
    if (read < 0) return false;
    if (read == 0) return end();
    got_ += static_cast<std::size_t>(read);
    return true;
  }

  [[nodiscard]] std::size_t wanted() const noexcept {
    return got_ < sizeof(record_header) ? sizeof(record_header) : commit_bytes(first_word());
  }
  [[nodiscard]] std::uint32_t first_word() const noexcept {
    std::uint32_t word = 0;
    std::memcpy(&word, coming_.data(), sizeof word);
    return word;
  }

  bool deliver(std::uint32_t bytes) noexcept {
    if (bytes == sizeof(record_header) && wanted() > bytes) return true; // the body follows
    if (bytes > record_limit(arrived_.out.size())) return end();
    std::byte* const space = try_reserve(arrived_.out, bytes);
    if (space == nullptr) return false;
    constexpr std::size_t word = sizeof(std::uint32_t);
    std::memcpy(space + word, coming_.data() + word, bytes - word);
    commit(arrived_.out, space, bytes, commit_kind(first_word()));
    got_ = 0;
    return true;
  }

  bool end() noexcept {
    has_ended_ = true;
    // Wake a sleeping receiver, which then finds the end.
    notify_if_armed(*static_cast<doorbell*>(arrived_.out.notify_context));
    return false;
  }

  mutable std::mutex mutex_;
  ring sent_;
  ring arrived_;
  unique_fd from_;
  unique_fd to_;
  int events_;
  std::vector<std::byte> left_;   ///< part of a record that is not written yet
  std::vector<std::byte> coming_; ///< part of a record that is already read
  std::size_t got_ = 0;
  bool is_finishing_ = false;
  bool has_ended_ = false;
};

class pipe_transport final : public transport {
 public:
  explicit pipe_transport(transport_site site)
      : own_(std::move(site)), events_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (!events_) throw_system_error("waiting for pipes", errno);
  }

  std::string_view scheme() const noexcept override { return "pipe"; }
  transport_traits traits() const noexcept override {
    return {record_limit(own_.lane_bytes), false};
  }

  /// Adds this transport to the card, with the name of the node's machine.
  void describe(card& mine) const override {
    const auto bytes = std::as_bytes(std::span(own_.machine));
    mine.transports["pipe"].assign(bytes.begin(), bytes.end());
  }

  reachability reachability_of(const card& peer) const override {
    const auto its = bytes_for(peer, "pipe");
    if (peer.id == own_.self) return {false, 0, "the node itself"};
    if (its.empty()) return {false, 0, "the node has no pipes"};
    const auto ours = std::as_bytes(std::span(own_.machine));
    if (!std::equal(its.begin(), its.end(), ours.begin(), ours.end()))
      return {false, 0, "another machine"};
    return {true, cost, "same machine, pipes"};
  }

  endpoint open(node_id peer, const lane_shape& shape) override {
    auto [their_from, our_to] = make_pipe();
    auto [our_from, their_to] = make_pipe();
    const request r{shape.doorbell, shape.worker, shape.own_worker ? 1U : 0U};
    const int files[] = {their_from.get(), their_to.get()};
    if (!own_.tell(peer, std::as_bytes(std::span(&r, 1)), files)) {
      throw error(node_text(peer) + " cannot be told of a lane", peer);
    }
    return add(peer, {shape.doorbell, shape.worker, shape.own_worker}, std::move(our_from),
               std::move(our_to), own_.doorbells[shape.doorbell], opener_bit);
  }

  void take_message(node_id from, std::span<const std::byte> bytes,
                    std::vector<unique_fd> files) override {
    byte_reader reader(bytes, "a lane of pipes");
    const auto r = reader.number<request>();
    if (!reader.empty() || files.size() != 2 || r.worker >= own_.doorbells.size()) {
      throw malformed_message("what should open a lane of pipes does not");
    }
    doorbell& wakes = own_.doorbells[r.worker];
    const endpoint end = add(from, {r.doorbell, r.worker, r.own_worker != 0}, std::move(files[0]),
                             std::move(files[1]), wakes, 0);
    {
      const std::lock_guard guard(mutex_);
      if (forgotten_.contains(from)) { // the peer sent the message before it died
        lanes_.erase(end.id);
        return;
      }
      waiting_.push_back(end);
    }
    // Sequentially consistent: either a receiver about to sleep sees the arrival, or this thread
    // sees that the receiver has armed its doorbell.
    arrivals_.fetch_add(1, std::memory_order_seq_cst);
    notify_of_lane(wakes, own_.doorbells.back(), end.own_worker);
  }

  const std::atomic<std::uint32_t>& arrivals() const noexcept override { return arrivals_; }

  std::optional<endpoint> accept() override {
    const std::lock_guard guard(mutex_);
    if (waiting_.empty()) return std::nullopt;
    const endpoint next = waiting_.front();
    waiting_.pop_front();
    return next;
  }

  bool is_closed(const endpoint& accepted) const noexcept override {
    const std::lock_guard guard(mutex_);
    const auto at = lanes_.find(accepted.id);
    return at == lanes_.end() ||
           (at->second->has_ended() && !has_record(accepted.in, accepted.in.tail));
  }

  void close(const endpoint& end) noexcept override {
    const std::lock_guard guard(mutex_);
    const auto at = lanes_.find(end.id);
    if (at == lanes_.end()) return;
    at->second->finish();
    closing_.push_back(std::move(at->second));
    lanes_.erase(at);
  }

  void forget(node_id peer) noexcept override {
    const std::lock_guard guard(mutex_);
    forgotten_.insert(peer);
    std::erase_if(waiting_,
                  [&](const endpoint& c) { return c.peer == peer && lanes_.erase(c.id) != 0; });
  }

  void progress() noexcept override {
    std::array<epoll_event, 16> due; // taken to make the descriptor unreadable
    while (::epoll_wait(events_.get(), due.data(), due.size(), 0) == due.size()) {
    }
    for (const auto& l : all())
      l->progress();
    const std::lock_guard guard(mutex_);
    std::erase_if(closing_, [](const auto& l) { return !l->has_unsent(); });
  }
  void arm() noexcept override {
    for (const auto& l : all())
      l->arm();
  }
  int wait_fd() const noexcept override { return events_.get(); }

 private:
  endpoint add(node_id peer, const lane_shape& shape, unique_fd from, unique_fd to, doorbell& wakes,
               std::uint64_t bit) {
    auto made = std::make_shared<lane>(own_.lane_bytes, wakes, std::move(from), std::move(to),
                                       events_.get());
    endpoint end;
    made->fill(end);
    end.peer = peer;
    end.worker = shape.worker;
    end.own_worker = shape.own_worker;
    const std::lock_guard guard(mutex_);
    end.id = (next_id_ += 2) | bit;
    lanes_[end.id] = std::move(made);
    return end;
  }

  std::vector<std::shared_ptr<lane>> all() {
    const std::lock_guard guard(mutex_);
    std::vector<std::shared_ptr<lane>> all = closing_;
    for (const auto& [id, l] : lanes_)
      all.push_back(l);
    return all;
  }

  transport_site own_;
  unique_fd events_;
  mutable std::mutex mutex_;
  std::set<node_id> forgotten_;
  std::uint64_t next_id_ = 0;
  std::map<std::uint64_t, std::shared_ptr<lane>> lanes_;
  std::vector<std::shared_ptr<lane>> closing_;
  std::deque<endpoint> waiting_;
  std::atomic<std::uint32_t> arrivals_{0};
};

} // namespace

transport_entry entry() {
  transport_entry row;
  row.scheme = "pipe";
  row.example = "pipe:2";
  row.options = {cpu_option(), program_option()};
  row.read_place = &read_count;
  row.available = [] {
    return std::vector<availability>{{"pipe", true, "processes on this machine, through pipes"}};
  };
  row.make = [](transport_site& site) { return std::make_unique<pipe_transport>(site); };
  return row;
}

} // namespace farcall::pipes
