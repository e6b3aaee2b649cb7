// SPDX-License-Identifier: Apache-2.0

// A lane over a connection: bytes arrive in pieces of any length, while the user polls, reads,
// sends and closes, and the connection blocks, ends or breaks. The user reads the bytes that were
// sent, and committed records are sent whole and in order.

#include <farcall/transport/tcp/lane.hpp>
#include <fuzz/memory_stream.hpp>
#include <fuzz/support.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

namespace {

namespace fc = farcall;
using fc::fuzz::require;

constexpr std::uint32_t ring = fc::min_ring;

class lane_user {
 public:
  lane_user(fc::event_loop& loop, fc::lane_role role) : loop_(&loop) {
    lane_ = std::make_shared<fc::tcp::stream_endpoint>(
        loop, fc::counted_ptr(new fc::tcp::deferral_sweep(loop, [] {})), ring, wakes_, role);
    lane_->fill(end_);
  }

  void attach(std::span<const std::byte> first) {
    first_.assign(first.begin(), first.end());
    lane_->attach(std::make_unique<fc::fuzz::memory_stream>(peer_), first);
    is_attached_ = true;
  }

  void do_one(fc::fuzz::script& from) {
    switch (from.byte() % 16) {
    case 0:
    case 1:
      peer_->send(from.bytes(from.byte()));
      break;
    case 2:
      send_record(from);
      break;
    case 3:
      send_pad(from);
      break;
    case 4:
      lane_->progress();
      read_all();
      break;
    case 5:
      lane_->on_event(0);
      break;
    case 6:
      lane_->arm();
      break;
    case 7:
      commit(8 + from.byte() % 255U * 4U);
      break;
    case 8:
      peer_->space = from.byte() * 4U;
      break;
    case 9:
      loop_->turn(fc::clock::now());
      break;
    case 10:
      lane_->send_deferred();
      break;
    case 11:
      (void)lane_->has_unsent();
      (void)lane_->is_lingering();
      break;
    case 12:
      end(from.byte());
      break;
    default:
      read_one();
    }
  }

  void finish() {
    // Discards everything that is still to come.
    lane_->cut();
    loop_->turn(fc::time_point::max());
    check_received();
    const std::weak_ptr<fc::tcp::stream_endpoint> gone = lane_;
    lane_.reset();
    loop_->turn(fc::time_point::max());
    require(gone.expired());
  }

 private:
  /// Ends in some way. Unlikely, since little is tested after an end.
  void end(std::uint8_t how) {
    switch (how % 16) {
    case 0:
      peer_->has_ended = true;
      break;
    case 1:
      peer_->has_broken_off = true;
      break;
    case 2:
      if (!is_done_) lane_->finish();
      is_done_ = true;
      break;
    case 3:
      if (!is_done_) fc::refuse(end_.out);
      is_done_ = true;
      break;
    case 4:
      lane_->cut();
      break;
    case 5:
      // Deadlines pass.
      loop_->turn(fc::time_point::max());
      break;
    case 6:
      if (!is_attached_) lane_->give_up_if_late("it did not come about");
      break;
    default:
      if (!is_attached_) attach({});
    }
  }

  void send_record(fc::fuzz::script& from) {
    const std::uint32_t bytes = from.byte() * 4U;
    const std::uint32_t word = fc::commit_word(bytes, static_cast<fc::record_kind>(from.byte()));
    std::vector<std::byte> record((bytes + 15) & ~15U, std::byte{from.byte()});
    record.resize(std::max(record.size(), sizeof word));
    std::memcpy(record.data(), &word, sizeof word);
    peer_->send(record);
  }

  /// Sends a pad to the end of the ring, or nearly.
  void send_pad(fc::fuzz::script& from) {
    const std::size_t left = ring - peer_->sent.size() % ring;
    const auto bytes = static_cast<std::uint32_t>(left - from.byte() / 250U);
    const std::uint32_t word = fc::commit_word(bytes, fc::record_kind::pad);
    std::vector<std::byte> pad(left);
    std::memcpy(pad.data(), &word, sizeof word);
    peer_->send(pad);
  }

  bool read_one() {
    if (is_over_ || is_done_) return false;
    const fc::record_view record = fc::peek(end_.in);
    if (!record) return false;
    if (record.bytes == 0) {
      require(record.kind == fc::record_kind::corrupt || record.kind == fc::record_kind::lost);
      is_over_ = true;
      return false;
    }
    require(record.kind > fc::record_kind::pad && record.bytes >= sizeof(fc::record_header));
    require(record.data >= end_.in.base && record.data + record.bytes <= end_.in.base + ring);
    // Positions in the stream and in the ring are equal.
    require(end_.in.tail + record.bytes <= peer_->read);
    require(std::memcmp(record.data, peer_->sent.data() + end_.in.tail, record.bytes) == 0);
    fc::release(end_.in, record);
    return true;
  }

  void read_all() {
    while (read_one()) {
    }
  }

  void commit(std::uint32_t bytes) {
    if (is_done_) return;
    std::byte* const record = fc::try_reserve(end_.out, bytes);
    if (record == nullptr) return;
    const std::uint32_t word = fc::commit_word(bytes, fc::record_kind::request);
    committed_.resize(end_.out.head);
    const auto body = static_cast<std::byte>(committed_.size() / 16);
    std::memset(record + sizeof word, std::to_integer<int>(body), bytes - sizeof word);
    committed_.resize(end_.out.head + bytes, body);
    std::memcpy(committed_.data() + end_.out.head, &word, sizeof word);
    fc::commit(end_.out, record, bytes, fc::record_kind::request);
  }

  /// Checks that committed records were sent as far as the bytes have gone; padding may hold
  /// anything.
  void check_received() const {
    const std::vector<std::byte>& received = peer_->received;
    const std::size_t beginning = std::min(received.size(), first_.size());
    require(std::equal(received.begin(), received.begin() + static_cast<std::ptrdiff_t>(beginning),
                       first_.begin()));
    std::size_t at = 0;
    while (at + 16 <= committed_.size() && first_.size() + at + 4 <= received.size()) {
      std::uint32_t word = 0;
      std::memcpy(&word, received.data() + first_.size() + at, sizeof word);
      const std::size_t bytes = fc::commit_bytes(word);
      if (fc::commit_kind(word) != fc::record_kind::pad) {
        if (at + bytes > committed_.size()) break;
        const std::size_t there = std::min(bytes, received.size() - first_.size() - at);
        require(std::memcmp(received.data() + first_.size() + at, committed_.data() + at, there) ==
                0);
      }
      at += (bytes + 15) & ~std::size_t{15};
      require(bytes != 0);
    }
  }

  fc::event_loop* loop_;
  fc::doorbell wakes_;
  std::shared_ptr<fc::fuzz::other_side> peer_ = std::make_shared<fc::fuzz::other_side>();
  std::shared_ptr<fc::tcp::stream_endpoint> lane_;
  fc::endpoint end_;
  std::vector<std::byte> first_;
  std::vector<std::byte> committed_; ///< by position; zeros outside records
  bool is_attached_ = false;
  bool is_done_ = false; ///< the user neither reads nor commits any more
  bool is_over_ = false; ///< there are no more bytes to read
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fc::event_loop loop;
  fc::fuzz::script from(data, size);
  const std::uint8_t how = from.byte();
  lane_user user(loop, how % 2 == 0 ? fc::lane_role::opener : fc::lane_role::acceptor);
  if ((how & 2) == 0) user.attach(from.bytes((how & 4) != 0 ? 64 : 0));
  while (!from.is_over())
    user.do_one(from);
  user.finish();
  return 0;
}
