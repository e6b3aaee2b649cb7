// SPDX-License-Identifier: Apache-2.0

// Two ends of a staged lane, and a link between them that carries bytes or whole records in amounts
// that the input selects; a hostile peer may write to the link. With an honest peer, records are
// read whole and in order as committed; with a hostile one, reads stay inside the ring and give the
// bytes that arrived.

#include <farcall/base/line_aligned_memory.hpp>
#include <farcall/memory/record_assembler.hpp>
#include <farcall/transport/staged_lane.hpp>
#include <fuzz/support.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

namespace {

namespace fc = farcall;
using fc::fuzz::require;

constexpr std::uint32_t size = fc::min_ring;

/// A lane with separately allocated rings, so that AddressSanitizer detects accesses past the end.
class bare_lane final : public fc::staged_lane {
 public:
  explicit bare_lane(fc::lane_role role) : staged_lane(&bare_lane::committed) { start(role); }

  void start(fc::lane_role role) {
    begin(out_ring_.get(), in_ring_.get(), size, role, wakes_);
    fill(end);
    commits = 0;
  }
  void progress() noexcept override {}
  void arm() noexcept override {}

  fc::endpoint end;
  using staged_lane::in_;
  using staged_lane::out_;
  unsigned commits = 0;

 private:
  static void committed(void* lane) noexcept {
    ++static_cast<bare_lane&>(*static_cast<staged_lane*>(lane)).commits;
  }

  fc::line_aligned_memory out_ring_ = fc::make_line_aligned(size);
  fc::line_aligned_memory in_ring_ = fc::make_line_aligned(size);
  fc::doorbell wakes_;
};

struct sent_record {
  fc::record_kind kind;
  std::vector<std::byte> content; ///< after the commit word
};

/// One direction of a lane.
class direction {
 public:
  explicit direction(bool carries_records) : carries_records_(carries_records) {}

  void do_one(fc::fuzz::script& input) {
    switch (input.byte() % 12) {
    case 0:
    case 1:
      commit(4 * (2 + input.byte() % 255U), static_cast<fc::record_kind>(2 + input.byte() % 8));
      break;
    case 2:
      take();
      break;
    case 3:
      give_credit(input.byte() * 16U);
      break;
    case 4:
    case 5:
      carry(1U << input.byte() % 14);
      break;
    case 6:
      scribble(input);
      break;
    case 7:
      happen(input);
      break;
    case 8:
      begin_anew(input.byte());
      break;
    default:
      read_one();
    }
  }

  /// Delivers everything that is in flight.
  void finish() {
    for (int i = 0; i < 64; ++i) {
      take();
      give_credit(size);
      carry(size);
      while (read_one()) {
      }
    }
    if (!is_honest_ || is_disturbed_) return;
    require(under_way_.empty());
    require(!is_refused_ || from_.out_.state() == fc::send_state::closing);
  }

 private:
  void commit(std::uint32_t bytes, fc::record_kind kind) {
    if (is_refused_) return;
    std::byte* const record = fc::try_reserve(from_.end.out, bytes);
    if (record == nullptr) return;
    std::vector<std::byte> content(bytes - 4, static_cast<std::byte>(++count_));
    std::memcpy(record + 4, content.data(), content.size());
    const unsigned before = from_.commits;
    fc::commit(from_.end.out, record, bytes, kind);
    require(from_.commits == before + 1);
    under_way_.push_back({kind, std::move(content)});
  }

  /// The link takes committed records.
  void take() {
    if (!carries_records_) {
      const std::uint64_t end = from_.out_.take_all();
      const std::byte* const base = from_.out_.base();
      while (taken_ < end) {
        const std::uint64_t offset = taken_ & (size - 1);
        const std::uint64_t straight = std::min(end - taken_, size - offset);
        link_.insert(link_.end(), base + offset, base + offset + straight);
        taken_ += straight;
      }
      return;
    }
    while (const fc::record_view record = from_.out_.next()) {
      require(record.bytes >= sizeof(fc::record_header));
      link_records_.push_back({record.kind, {record.data + 4, record.data + record.bytes}});
      from_.out_.take(record);
      taken_ = from_.out_.taken();
    }
  }

  /// The link releases bytes of the sender's ring.
  void give_credit(std::uint64_t bytes) {
    const std::uint64_t taken = carries_records_ ? taken_ : std::min(taken_, from_.out_.taken());
    credit_ = std::max(credit_, std::min(credit_ + bytes, taken));
    from_.out_.give_credit(credit_);
    require(from_.out_.is_held() == (credit_ / 16 * 16 != from_.out_.taken()));
  }

  void carry(std::size_t most) {
    if (carries_records_) {
      carry_records();
      return;
    }
    const fc::receive_state state = to_.in_.state();
    if (state != fc::receive_state::open && state != fc::receive_state::full) return;
    while (most != 0 && carried_ != link_.size()) {
      fc::record_assembler::parts parts{};
      const std::size_t count = assembler_.space(parts, to_.in_.consumed());
      if (count == 0) {
        to_.in_.on(fc::receive_event::fill);
        return;
      }
      to_.in_.on(fc::receive_event::drain);
      std::size_t put = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t bytes =
            std::min({parts[i].iov_len, most - put, link_.size() - carried_ - put});
        std::memcpy(parts[i].iov_base, link_.data() + carried_ + put, bytes);
        put += bytes;
      }
      carried_ += put;
      most -= put;
      if (!assembler_.add(put)) {
        // The mark of a refusal is no valid record.
        require(!is_honest_ || is_refused_);
        to_.in_.on(fc::receive_event::corrupt);
        return;
      }
      require(assembler_.whole() <= carried_);
    }
  }

  void carry_records() {
    while (!link_records_.empty()) {
      const auto& [kind, content] = link_records_.front();
      const auto bytes = static_cast<std::uint32_t>(content.size() + 4);
      std::byte* const record = to_.in_.reserve(bytes);
      if (record == nullptr) {
        if (bytes > fc::record_limit(size)) link_records_.pop_front();
        return;
      }
      std::memcpy(record + 4, content.data(), content.size());
      to_.in_.commit(record, bytes, kind);
      link_records_.pop_front();
    }
  }

  bool read_one() {
    const fc::record_view record = fc::peek(to_.end.in);
    if (!record) return false;
    if (record.bytes == 0) {
      require(record.kind == fc::record_kind::corrupt && (!is_honest_ || is_refused_));
      if (is_honest_) require(under_way_.empty());
      return false;
    }
    const std::byte* const base = to_.in_.base();
    require(record.data >= base && record.data + record.bytes <= base + size);
    require(record.kind > fc::record_kind::pad && record.bytes <= fc::record_limit(size));
    if (!carries_records_) {
      require(to_.end.in.tail + record.bytes <= carried_);
      require(std::memcmp(record.data, link_.data() + to_.end.in.tail, record.bytes) == 0);
    }
    if (is_honest_) {
      require(!under_way_.empty());
      const sent_record& sent = under_way_.front();
      require(record.kind == sent.kind && record.bytes == sent.content.size() + 4);
      require(std::memcmp(record.data + 4, sent.content.data(), sent.content.size()) == 0);
      under_way_.pop_front();
    }
    fc::release(to_.end.in, record);
    return true;
  }

  /// A hostile peer writes to the link.
  void scribble(fc::fuzz::script& input) {
    const std::uint8_t how = input.byte();
    // Seldom, since less is checked afterwards.
    if (how < 0xc0) return;
    is_honest_ = false;
    if (carries_records_) {
      const auto content = input.bytes(4 + how % 16 * 80U);
      const auto kind = static_cast<fc::record_kind>(std::max(2, input.byte() % 254));
      if (content.size() >= 4) link_records_.push_back({kind, {content.begin(), content.end()}});
      return;
    }
    const auto bytes = input.bytes(how % 32);
    const std::size_t at = carried_ + std::min<std::size_t>(input.byte(), link_.size() - carried_);
    link_.resize(std::max(link_.size(), at + bytes.size()));
    std::ranges::copy(bytes, link_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  /// Refuses the lane, or feeds any event to the two state machines.
  void happen(fc::fuzz::script& input) {
    const std::uint8_t how = input.byte();
    if (how < 0x40) {
      fc::refuse(from_.end.out);
      is_refused_ = true;
      return;
    }
    if (how < 0x80) return;
    is_disturbed_ = true;
    const auto sending = static_cast<fc::send_event>(how % fc::send_events);
    const auto receiving = static_cast<fc::receive_event>(how % fc::receive_events);
    const fc::send_state out = from_.out_.state();
    require(from_.out_.on(sending) == (next(out, sending) != out));
    require(from_.out_.state() == next(out, sending));
    const fc::receive_state in = to_.in_.state();
    require(to_.in_.on(receiving) == (next(in, receiving) != in));
    require(to_.in_.state() == next(in, receiving));
  }

  /// The lane is released, and another user opens it.
  void begin_anew(std::uint8_t how) {
    if (how < 0xe0) return;
    const bool is_lost =
        from_.out_.state() == fc::send_state::cut || to_.in_.state() == fc::receive_state::lost;
    if (is_lost) return;
    from_.out_.on(fc::send_event::release);
    to_.in_.on(fc::receive_event::release);
    from_.start(fc::lane_role::opener);
    to_.start(fc::lane_role::acceptor);
    require(from_.out_.state() == fc::send_state::open);
    require(to_.in_.state() == fc::receive_state::open);
    require(!fc::peek(to_.end.in) && !from_.out_.has_commits());
    assembler_ = fc::record_assembler(to_.in_.base(), size);
    taken_ = credit_ = 0;
    is_refused_ = false;
    is_honest_ = true;
    is_disturbed_ = false;
    under_way_.clear();
    link_.clear();
    carried_ = 0;
    link_records_.clear();
  }

  bool carries_records_;
  bare_lane from_{fc::lane_role::opener};
  bare_lane to_{fc::lane_role::acceptor};
  fc::record_assembler assembler_{to_.in_.base(), size};
  bool is_honest_ = true;     ///< only the lane itself has written to the link
  bool is_disturbed_ = false; ///< an event has changed a state, so that data may be dropped
  bool is_refused_ = false;
  unsigned count_ = 0;
  std::deque<sent_record> under_way_; ///< committed and not yet read
  std::uint64_t taken_ = 0;
  std::uint64_t credit_ = 0;

  // ---- the link between them
  std::vector<std::byte> link_;          ///< all bytes that the link has taken
  std::size_t carried_ = 0;              ///< delivered bytes of link_
  std::deque<sent_record> link_records_; ///< not yet delivered
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fc::fuzz::script input(data, size);
  direction lane(input.byte() % 2 != 0);
  while (!input.is_over())
    lane.do_one(input);
  lane.finish();
  return 0;
}
