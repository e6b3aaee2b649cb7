// SPDX-License-Identifier: Apache-2.0
#include "ring_only.hpp"
#include "echo.hpp"
#include "options.hpp"

#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/ring.hpp>

#include <array>
#include <atomic>
#include <cstring>

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

    /// Returns false if the ring is full, which cannot happen with one record at a time.
    bool send(std::uint32_t bytes, record_kind kind, std::uint32_t number) {
      std::byte* const record = try_reserve(out_, bytes);
      if (record == nullptr) return false;
      std::memcpy(record + offsetof(record_header, slot), &number, sizeof number);
      if (kind == record_kind::request) {
        // Key and extra, which the other side ignores.
        constexpr std::uint64_t rest = am::first_user_key;
        static_assert(empty_request_bytes == sizeof(record_header) + sizeof rest);
        std::memcpy(record + sizeof(record_header), &rest, sizeof rest);
      }
      commit(out_, record, bytes, kind);
      return true;
    }

    /// Takes the number from the next record; returns false if there is none.
    bool receive(std::uint32_t& number) {
      const record_view record = peek(in_);
      if (!record) return false;
      std::memcpy(&number, record.data + offsetof(record_header, slot), sizeof number);
      release(in_, record);
      return true;
    }

   private:
    outbox out_;
    inbox in_;
  };

  class host_side {
   public:
    explicit host_side(memory& m) : side_(m.requests, m.replies) {}
    void ask(bool /*is_last*/) {
      if (!side_.send(empty_request_bytes, record_kind::request, ++sent_)) wrong();
    }
    bool take() {
      std::uint32_t number = 0;
      if (!side_.receive(number)) return false;
      if (number != sent_) wrong();
      return true;
    }

   private:
    [[noreturn]] static void wrong() {
      throw failed_run("wrong result: a record that was lost between two rings");
    }

    side side_;
    std::uint32_t sent_ = 0;
  };

  class echo_side {
   public:
    explicit echo_side(memory& m) : side_(m.replies, m.requests) {}
    bool reply() {
      std::uint32_t number = 0;
      return side_.receive(number) && side_.send(empty_reply_bytes, record_kind::reply, number);
    }

   private:
    side side_;
  };
};

} // namespace

struct ring_only::process : echo<rings> {
  explicit process(core_pair cores) : echo(cores, "the rings") {}
};

ring_only::ring_only(core_pair cores, std::size_t batches, std::size_t calls)
    // On a shared core each round trip costs two context switches, with spinning before each.
    : floor_probe(cores), batches_(batches), calls_(cores.shared() ? 100 : calls),
      echo_(std::make_unique<process>(cores)) {}

ring_only::~ring_only() = default;

std::vector<double> ring_only::take_samples() {
  const scoped_pin pin{cores().host};
  echo_->tell(echo_state::echoing);
  const std::size_t warm_up = cores().shared() ? 1 : 10; // until both cores run at full speed
  std::vector<double> samples =
      time_batches(batches_, calls_, warm_up, [&] { echo_->round_trips(calls_); });
  echo_->tell(echo_state::asleep);
  return samples;
}

} // namespace farcall::tool
