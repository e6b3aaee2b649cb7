#include "job_fabric.hpp"

#include "compact_message.hpp"
#include "process.hpp"
#include "records.hpp"

#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/log.hpp>
#include <farcall/offload/buffer.hpp>
#include <farcall/offload/call.hpp>
#include <farcall/offload/transfer.hpp>

#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace farcall::am2 {
namespace {

/// Payload of a short medium, which is sent whole, so that it has no length to be read. With the
/// smaller one a record fills a cache line, with the larger one two.
template <std::size_t Words>
using small_payload = std::array<std::uint64_t, Words>;
constexpr std::size_t least_small_words = 3;
constexpr std::size_t most_small_words = 11;

class job_fabric;
/// Who gets what calls bring, which name no object.
std::atomic<job_fabric*> here{nullptr};
/// What others have sent as soon as they had their job, and this process had not yet made ours.
std::mutex early_mutex;
message_queue& early_messages() {
  static message_queue& only = *new message_queue;
  return only;
}
void give(int node, const message& m);
template <class... Payload>
void give_compact(const compact_message& m, Payload... payload);

// By word: a copy of what was just stored in parts would keep the processor waiting.
void take_compact(std::uint64_t tag, std::uint32_t bits, std::int32_t argument);
template <std::size_t Words>
void take_small(std::uint64_t tag, std::uint32_t bits, std::int32_t argument, std::uint32_t bytes,
                small_payload<Words> payload);
void take_medium(const compact_message& m, std::span<const std::byte> payload);
template <std::size_t N>
void take_short(short_record<N> r);
void take_record(const record_head& head, std::span<const std::int32_t> arguments,
                 std::span<const std::byte> payload);

class job_fabric final : public fabric {
 public:
  job_fabric(job made, bool has_progress_thread, receiver& to)
      : job_(std::move(made)), to_(&to),
        main_(has_progress_thread ? std::thread::id() : std::this_thread::get_id()),
        self_(static_cast<int>(job_.rank())), has_ended_(job_.size()) {
    for (node_id id = 0; id < job_.size(); ++id)
      nodes_.push_back(job_.node_at(id));
    is_near_.resize(nodes_.size());
    const std::lock_guard guard(early_mutex);
    // Release; partner: the acquire loads in give().
    here.store(this, std::memory_order_release);
    while (kept_message* const k = early_messages().pop()) {
      take(k->node, k->m);
      early_messages().recycle(k);
    }
  }
  ~job_fabric() override { here.store(nullptr, std::memory_order_release); }

  [[nodiscard]] int self() const noexcept override { return self_; }
  [[nodiscard]] int size() const noexcept override { return static_cast<int>(nodes_.size()); }

  [[nodiscard]] sending try_send(int node, const message& m) noexcept override;
  [[nodiscard]] sending try_send(int node, const compact_message& m) noexcept override;
  [[nodiscard]] sending try_send(int node, const compact_message& m, const void* payload,
                                 std::uint64_t bytes) noexcept override;
  [[nodiscard]] std::thread::id receiving_thread() const noexcept override { return main_; }
  void poll() noexcept override {
    try {
      // Handlers of AM-2's do not wait.
      job_.progress_in_place();
    } catch (const std::exception& e) {
      log::error(std::string("AM-2 cannot poll: ") + e.what());
    }
  }
  void wait(std::chrono::nanoseconds most) noexcept override;
  void wake() noexcept override {
    // Release; partner: the acquire exchange in is_woken().
    is_woken_.store(true, std::memory_order_release);
    if (main_ == std::thread::id()) return;
    try {
      job_.notify();
    } catch (const std::exception& e) {
      log::error(std::string("AM-2 cannot wake a thread: ") + e.what());
    }
  }

  void look_for_ends() noexcept override;

  [[nodiscard]] std::byte* map(int node, std::uint64_t address,
                               std::size_t bytes) noexcept override;
  [[nodiscard]] bool put(int node, std::uint64_t address, const void* from,
                         std::size_t bytes) noexcept override;
  [[nodiscard]] void* allocate(std::size_t bytes) noexcept override;
  void release(void* memory) noexcept override {
    const std::lock_guard guard(mutex_);
    segments_.erase(memory);
  }
  void survive_ends() noexcept override;
  void close(int code) noexcept override;

  /// A call has brought a message.
  void take(int node, const message& m) noexcept {
    if (note_arrival(node)) to_->deliver(node, m);
  }
  void take(const compact_message& m) noexcept {
    if (note_arrival(m.node())) to_->deliver(m);
  }
  void take(const compact_message& m, const void* payload, std::uint64_t bytes) noexcept {
    if (note_arrival(m.node())) to_->deliver(m, payload, bytes);
  }

 private:
  /// Between two looks at whether nodes have ended.
  static constexpr std::chrono::milliseconds look_interval{10};

  /// False for what no node has sent.
  [[nodiscard]] bool note_arrival(int node) noexcept {
    if (node < 0 || node >= size()) return false;
    // Relaxed: read by the same thread, or with what wake() orders. One thread at a time writes it.
    arrived_.store(arrived_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return true;
  }
  [[nodiscard]] bool is_woken() noexcept {
    return is_woken_.load(std::memory_order_relaxed) &&
           is_woken_.exchange(false, std::memory_order_acquire);
  }
  bool look_at_nodes() noexcept;
  /// Opening a lane may wait, and others would run meanwhile, which a handler must not see.
  [[nodiscard]] static bool may_use(int node) noexcept {
    thread_state& t = process::thread();
    const auto at = static_cast<std::size_t>(node);
    return (at < t.used_nodes.size() && t.used_nodes[at] != 0) || may_open_lane(t, node);
  }
  [[nodiscard]] static bool may_open_lane(thread_state& t, int node) noexcept;
  template <std::size_t N>
  [[nodiscard]] bool post_short(const node& to, const message& m) const;
  template <std::size_t Words>
  [[nodiscard]] static bool post_small(const node& to, const compact_message& m,
                                       const void* payload, std::uint64_t bytes);
  [[nodiscard]] bool post_other(const node& to, const message& m) const;
  /// Sends by `post`, which gets the node.
  template <class Post>
  [[nodiscard]] sending send_by(int node, const Post& post) noexcept;

  job job_;
  receiver* to_;
  const std::thread::id main_;
  const int self_;
  std::vector<node> nodes_;
  enum class nearness : std::uint8_t { unknown, near, far };
  std::vector<nearness> is_near_; ///< by node: on this machine; for the receiving thread
  std::vector<bool> has_ended_;   ///< by node; mutex_
  std::atomic<std::chrono::steady_clock::duration> looked_at_{}; ///< time since the clock's epoch
  std::atomic<std::uint64_t> arrived_{0};
  std::atomic<bool> is_woken_{false};
  std::mutex mutex_;
  std::map<void*, buffer<std::byte>> segments_; ///< mutex_
};

void give(int node, const message& m) {
  job_fabric* f = here.load(std::memory_order_acquire);
  if (f == nullptr) [[unlikely]] {
    const std::lock_guard guard(early_mutex);
    f = here.load(std::memory_order_acquire);
    if (f == nullptr) {
      early_messages().push(node, m);
      return;
    }
  }
  f->take(node, m);
}

template <class... Payload>
void give_compact(const compact_message& m, Payload... payload) {
  if (job_fabric* const f = here.load(std::memory_order_acquire); f != nullptr) [[likely]] {
    f->take(m, payload...);
  } else {
    give(m.node(), m.whole(payload...));
  }
}

/// Says that what `node` has sent, as it says, is dropped.
[[gnu::cold]] void note_fault(int node, const char* fault) {
  // Never destroyed: messages may come until the process ends.
  static log::limited_log& only = *new log::limited_log("more AM-2 messages were dropped");
  only.warning("AM-2: a message of process " + std::to_string(node) +
               " is malformed, and is dropped: " + fault);
}

void take_compact(std::uint64_t tag, std::uint32_t bits, std::int32_t argument) {
  give_compact({tag, bits, argument});
}

template <std::size_t Words>
void take_small(std::uint64_t tag, std::uint32_t bits, std::int32_t argument, std::uint32_t bytes,
                small_payload<Words> payload) {
  const compact_message m{tag, bits, argument};
  if (bytes <= sizeof payload) [[likely]] {
    give_compact(m, static_cast<const void*>(payload.data()), std::uint64_t{bytes});
  } else {
    note_fault(m.node(), "its payload is longer than its record");
  }
}

void take_medium(const compact_message& m, std::span<const std::byte> payload) {
  give_compact(m, static_cast<const void*>(payload.data()), std::uint64_t{payload.size()});
}

template <std::size_t N>
void take_short(short_record<N> r) {
  if (const char* const fault = find_fault(r.header, r.arguments)) [[unlikely]] {
    note_fault(r.node, fault);
    return;
  }
  message m{r.header};
  m.arguments = r.arguments.data();
  if (!has_arguments(r.header)) m.arguments = nullptr;
  give(r.node, m);
}

void take_record(const record_head& head, std::span<const std::int32_t> arguments,
                 std::span<const std::byte> payload) {
  if (const char* const fault = find_fault(head, arguments.size(), payload.size())) [[unlikely]] {
    note_fault(head.node, fault);
    return;
  }
  message m{head.header};
  m.arguments = arguments.data();
  m.offset = head.offset;
  m.get_offset = head.get_offset;
  m.payload = is_with_message(head.header.kind(), head.place) ? payload.data() : nullptr;
  m.bytes = head.bytes;
  m.place = head.place;
  m.transfer = head.transfer;
  m.whole_offset = head.whole_offset;
  m.whole_bytes = head.whole_bytes;
  give(head.node, m);
}

bool job_fabric::may_open_lane(thread_state& t, int node) noexcept {
  if (t.running != 0) return false;
  const auto at = static_cast<std::size_t>(node);
  if (at >= t.used_nodes.size()) t.used_nodes.resize(at + 1);
  t.used_nodes[at] = 1;
  return true;
}

template <std::size_t N>
bool job_fabric::post_short(const node& to, const message& m) const {
  short_record<N> r{m.header, self_, {}};
  if (m.arguments != nullptr) {
    std::memcpy(r.arguments.data(), m.arguments,
                static_cast<std::size_t>(m.header.arguments()) * sizeof(std::int32_t));
  }
  return try_post(to, fn<&take_short<N>>, r);
}

template <std::size_t Words>
bool job_fabric::post_small(const node& to, const compact_message& m, const void* payload,
                            std::uint64_t bytes) {
  small_payload<Words> padded{};
  if (bytes != 0) std::memcpy(padded.data(), payload, bytes);
  return try_post(to, fn<&take_small<Words>>, m.tag, m.bits, m.argument,
                  static_cast<std::uint32_t>(bytes), padded);
}

bool job_fabric::post_other(const node& to, const message& m) const {
  const int count = m.arguments == nullptr ? 0 : m.header.arguments();
  if (m.header.payload() == category::short_message || m.header.kind() == message_kind::segment ||
      (m.header.kind() > message_kind::get && m.header.kind() != message_kind::job)) {
    return count <= 1   ? post_short<1>(to, m)
           : count <= 3 ? post_short<3>(to, m)
           : count <= 5 ? post_short<5>(to, m)
           : count <= 9 ? post_short<9>(to, m)
                        : post_short<16>(to, m);
  }
  const bool has_payload = is_with_message(m.header.kind(), m.place);
  const record_head head{m.header, self_,      m.place,        m.offset,     m.get_offset,
                         m.bytes,  m.transfer, m.whole_offset, m.whole_bytes};
  return try_post(to, fn<&take_record>, head,
                  std::span(m.arguments, static_cast<std::size_t>(count)),
                  std::span(static_cast<const std::byte*>(m.payload), has_payload ? m.bytes : 0));
}

template <class Post>
[[gnu::always_inline]] inline sending job_fabric::send_by(int node, const Post& post) noexcept {
  const farcall::node& to = nodes_[static_cast<std::size_t>(node)];
  if (!may_use(node)) [[unlikely]]
    return sending::full;
  try {
    return post(to) ? sending::sent : sending::full;
  } catch (const out_of_memory&) {
    // Of earlier messages there will be some.
    return sending::no_memory;
  } catch (const std::exception& e) {
    if (!to.alive()) return sending::unreachable;
    fatal("a message to process %d cannot be sent: %s", node, e.what());
  }
}

sending job_fabric::try_send(int node, const message& m) noexcept {
  return send_by(node, [&](const farcall::node& to) { return post_other(to, m); });
}

sending job_fabric::try_send(int node, const compact_message& m) noexcept {
  return send_by(node, [&m](const farcall::node& to) {
    return try_post(to, fn<&take_compact>, m.tag, m.bits, m.argument);
  });
}

sending job_fabric::try_send(int node, const compact_message& m, const void* payload,
                             std::uint64_t bytes) noexcept {
  return send_by(node, [&](const farcall::node& to) {
    if (bytes <= sizeof(small_payload<least_small_words>))
      return post_small<least_small_words>(to, m, payload, bytes);
    if (bytes <= sizeof(small_payload<most_small_words>))
      return post_small<most_small_words>(to, m, payload, bytes);
    return try_post(to, fn<&take_medium>, m,
                    std::span(static_cast<const std::byte*>(payload), bytes));
  });
}

void job_fabric::look_for_ends() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  // Relaxed: it says only who looks.
  auto before = looked_at_.load(std::memory_order_relaxed);
  if (now - before < look_interval ||
      !looked_at_.compare_exchange_strong(before, now, std::memory_order_relaxed))
    return;
  (void)look_at_nodes();
}

bool job_fabric::look_at_nodes() noexcept {
  const std::lock_guard guard(mutex_);
  bool has_news = false;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (has_ended_[i] || nodes_[i].alive()) continue;
    has_ended_[i] = true;
    has_news = true;
    to_->node_has_ended(static_cast<int>(i));
  }
  return has_news;
}

void job_fabric::wait(std::chrono::nanoseconds most) noexcept {
  const std::uint64_t before = arrived_.load(std::memory_order_relaxed);
  unsigned asked = 0;
  try {
    (void)job_.wait_until(
        [&] {
          // Asked in each iteration while it spins, and once when it is woken.
          return arrived_.load(std::memory_order_relaxed) != before || is_woken() ||
                 ((++asked % 64 == 1 || nodes_.size() <= 4) && look_at_nodes());
        },
        most);
  } catch (const std::exception& e) {
    log::error(std::string("AM-2 cannot wait: ") + e.what());
  }
  (void)look_at_nodes();
}

std::byte* job_fabric::map(int node, std::uint64_t address, std::size_t bytes) noexcept {
  try {
    return farcall::map(remote_span<std::byte>(static_cast<node_id>(node), address, bytes)).data();
  } catch (const std::exception&) {
    return nullptr;
  }
}

bool job_fabric::put(int node, std::uint64_t address, const void* from,
                     std::size_t bytes) noexcept {
  if (std::this_thread::get_id() != main_) return false;
  try {
    // Over a network a message is as good.
    nearness& is_near = is_near_[static_cast<std::size_t>(node)];
    if (is_near == nearness::unknown) {
      const bool is_here = nodes_[static_cast<std::size_t>(node)].description().transport == "shm";
      is_near = is_here ? nearness::near : nearness::far;
    }
    if (is_near == nearness::far) return false;
    put_sync(std::span(static_cast<const std::byte*>(from), bytes),
             remote_span<std::byte>(static_cast<node_id>(node), address, bytes));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void* job_fabric::allocate(std::size_t bytes) noexcept {
  try {
    auto memory = nodes_[static_cast<std::size_t>(self_)].allocate<std::byte>(bytes);
    void* const at = memory.data();
    const std::lock_guard guard(mutex_);
    segments_.emplace(at, std::move(memory));
    return at;
  } catch (const std::exception&) {
    return nullptr;
  }
}

void job_fabric::survive_ends() noexcept {
  try {
    job_.survive(true);
  } catch (const std::exception& e) {
    log::error(std::string("AM-2 cannot cope with ends: ") + e.what());
  }
}

void job_fabric::close(int /*code*/) noexcept {
  try {
    {
      const std::lock_guard guard(mutex_);
      segments_.clear();
    }
    job_.close();
  } catch (const std::exception& e) {
    log::error(std::string("AM-2 cannot close its job: ") + e.what());
  }
}

} // namespace

std::unique_ptr<fabric> make_job_fabric(job made, bool has_progress_thread, receiver& to) {
  return std::make_unique<job_fabric>(std::move(made), has_progress_thread, to);
}

} // namespace farcall::am2
