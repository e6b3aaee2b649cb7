// SPDX-License-Identifier: Apache-2.0
#include "ring_only.hpp"
#include "echo.hpp"
#include "options.hpp"

#include <farcall/am/message.hpp>
#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/ring.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <vector>

namespace farcall::tool {

namespace {

/// Bytes of a ring; the default of a job's lanes.
constexpr std::uint32_t ring_bytes = 64 * 1024;

/// One direction, laid out like a receive segment: the records, and on separate cache lines the
/// receiver's position and the doorbell that it would sleep on.
struct direction {
  alignas(4096) std::array<std::byte, ring_bytes> records;
  alignas(128) std::atomic<std::uint64_t> consumed{0};
  alignas(128) doorbell wakes;
};

/// Link of two rings, one in each direction.
struct rings {
  struct memory {
    direction requests;
    direction replies;
  };

  /// Sends through one ring and receives from the other.
  class side {
   public:
    side(direction& there, direction& back) {
      attach(out_, there.records.data(), ring_bytes, there.consumed);
      notify_on_commit(out_, there.wakes);
      attach(in_, back.records.data(), ring_bytes, back.consumed);
    }

   protected:
    outbox out_;
    inbox in_;
  };

  class host_side : side {
   public:
    explicit host_side(memory& m) : side(m.requests, m.replies) {}

    void use(const call_records& records) {
      constexpr std::uint32_t longest = record_limit(ring_bytes);
      request_bytes_ = std::min(am::request_body + records.argument_bytes, longest);
      reply_bytes_ = std::min(am::reply_body + records.result_bytes, longest);
    }

    /// Returns false if the ring is full, which can happen only if several are under way.
    bool ask(bool /*is_last*/) {
      std::byte* const record = try_reserve(out_, request_bytes_);
      if (record == nullptr) return false;
      const std::uint32_t number = sent_ + 1;
      std::memcpy(record + offsetof(am::request_header, record.slot), &number, sizeof number);
      // The key is ignored; the other side takes the length of its reply from `extra`.
      constexpr am::handler_key key = am::first_user_key;
      std::memcpy(record + offsetof(am::request_header, key), &key, sizeof key);
      std::memcpy(record + offsetof(am::request_header, extra), &reply_bytes_, sizeof reply_bytes_);
      std::memcpy(record + am::request_body, arguments_.data(), request_bytes_ - am::request_body);
      commit(out_, record, request_bytes_, record_kind::request);
      sent_ = number;
      return true;
    }

    bool take() {
      const record_view record = peek(in_);
      if (!record) return false;
      std::uint32_t number = 0;
      std::memcpy(&number, record.data + offsetof(record_header, slot), sizeof number);
      const std::uint32_t bytes = record.bytes;
      release(in_, record);
      if (number != ++received_ || bytes != reply_bytes_)
        throw failed_run("wrong result: a record that was lost between two rings");
      return true;
    }

   private:
    std::vector<std::byte> arguments_ = std::vector<std::byte>(record_limit(ring_bytes));
    std::uint32_t request_bytes_ = am::request_body;
    std::uint32_t reply_bytes_ = am::reply_body;
    std::uint32_t sent_ = 0;
    std::uint32_t received_ = 0;
  };

  class echo_side : side {
   public:
    explicit echo_side(memory& m) : side(m.replies, m.requests) {}

    bool reply() {
      const record_view request = peek(in_);
      if (!request) return false;
      std::uint32_t number = 0;
      std::uint32_t bytes = 0;
      std::memcpy(&number, request.data + offsetof(am::request_header, record.slot), sizeof number);
      std::memcpy(&bytes, request.data + offsetof(am::request_header, extra), sizeof bytes);
      // A call's arguments leave the ring before the handler runs, so that their space is free.
      std::memcpy(arguments_.data(), request.data + am::request_body,
                  request.bytes - am::request_body);
      std::byte* const record = try_reserve(out_, bytes);
      // The host takes replies until this ring has space.
      if (record == nullptr) return false;
      release(in_, request);
      std::memcpy(record + offsetof(record_header, slot), &number, sizeof number);
      std::memcpy(record + am::reply_body, result_.data(), bytes - am::reply_body);
      commit(out_, record, bytes, record_kind::reply);
      return true;
    }

   private:
    std::vector<std::byte> arguments_ = std::vector<std::byte>(record_limit(ring_bytes));
    std::vector<std::byte> result_ = std::vector<std::byte>(record_limit(ring_bytes));
  };
};

} // namespace

struct ring_only::process : echo<rings> {
  explicit process(core_pair cores) : echo(cores, "the rings") {}
};

ring_only::ring_only(core_pair cores, std::size_t batches)
    : floor_probe(cores), batches_(batches), echo_(std::make_unique<process>(cores)) {}

ring_only::~ring_only() = default;

void ring_only::use(const call_records& records, std::size_t calls) {
  records_ = records;
  // On a shared core each round trip costs two context switches, with spinning before each.
  calls_ = cores().shared() ? std::min<std::size_t>(calls, 100) : calls;
  echo_->side().use(records);
}

std::vector<double> ring_only::take_samples() {
  const scoped_pin pin{cores().host};
  echo_->tell(echo_state::echoing);
  const std::size_t warm_up = cores().shared() ? 1 : 10; // until both cores run at full speed
  std::vector<double> samples = time_batches(batches_, calls_, warm_up, [&] {
    // The loop for one round trip at a time is shorter.
    if (records_.window == 1) {
      echo_->round_trips(calls_);
    } else {
      echo_->pipelined(calls_, records_.window);
    }
  });
  echo_->tell(echo_state::asleep);
  return samples;
}

} // namespace farcall::tool
