// SPDX-License-Identifier: Apache-2.0

// A ring whose other side writes anything at any time, anywhere into the ring and into the counter.
// Records and reservations are inside the ring, and peek() returns.
//
// The input is a program: one byte selects the start position and the initial content of the ring;
// then each step is one byte for the operation and eight for its argument.

#include <farcall/base/line_aligned_memory.hpp>
#include <farcall/memory/ring.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

using namespace farcall;

constexpr std::uint64_t size = min_ring;

void require(bool condition) {
  if (!condition) std::abort();
}

class steps {
 public:
  steps(const std::uint8_t* data, std::size_t bytes) : next_(data), left_(bytes) {}
  template <class Number>
  [[nodiscard]] bool take(Number& value) {
    if (left_ < sizeof value) return false;
    std::memcpy(&value, next_, sizeof value);
    next_ += sizeof value;
    left_ -= sizeof value;
    return true;
  }

 private:
  const std::uint8_t* next_;
  std::size_t left_;
};

struct hostile_ring {
  // Exactly as long as the ring, so that AddressSanitizer detects accesses past the end.
  line_aligned_memory memory = make_line_aligned(size);
  std::atomic<std::uint64_t> consumed{0};
  outbox out;
  inbox in;

  explicit hostile_ring(std::uint64_t start) : consumed(start) {
    attach(out, memory.get(), size, consumed);
    attach(in, memory.get(), size, consumed);
    out.head = out.limit = in.tail = in.published = start;
  }

  void scribble(std::uint64_t where, std::uint32_t word) const {
    std::memcpy(memory.get() + where % size / 4 * 4, &word, sizeof word);
  }

  void read_each(std::uint8_t kind) {
    const auto check = [&](const std::byte* record, std::uint32_t bytes) {
      require(bytes >= sizeof(record_header) && bytes <= record_limit(size));
      require(record >= memory.get() && record + bytes <= memory.get() + size);
      return true;
    };
    const std::uint64_t before = in.tail;
    const auto message = static_cast<record_kind>(kind < 2 || kind > 253 ? 4 : kind);
    const std::size_t taken = receive_each(in, message, 3, check);
    require(taken <= 3 && in.tail - before >= taken * record_alignment);
    require(in.tail % record_alignment == 0);
  }

  void read_one() {
    const std::uint64_t before = in.tail;
    const record_view record = peek(in);
    require(in.tail % record_alignment == 0 && in.tail - before < size);
    // A peer may report that its connection is lost: there is nothing to read, now or later.
    if (!record || record.kind == record_kind::corrupt || record.kind == record_kind::lost) return;
    require(record.kind > record_kind::pad);
    require(record.bytes >= sizeof(record_header) && record.bytes <= record_limit(size));
    require(record.data >= memory.get() && record.data + record.bytes <= memory.get() + size);
    std::byte sum{};
    for (std::uint32_t i = 0; i < record.bytes; ++i)
      sum ^= record.data[i];
    // Validated values must stay valid, whatever the peer writes now.
    scribble(in.tail, commit_word(0xFFFFFF, static_cast<record_kind>(sum)));
    release(in, record);
    require(in.tail > before || in.tail < size);
    require(in.tail % record_alignment == 0);
  }

  void write_one(std::uint32_t bytes) {
    std::byte* const record = try_reserve(out, bytes);
    require(out.head % record_alignment == 0);
    if (record == nullptr) return;
    require(record >= memory.get() && record + bytes <= memory.get() + size);
    std::memset(record + 4, 0x02, bytes - 4);
    if (bytes % 3 == 0) return; // abandon the reservation
    commit(out, record, bytes, record_kind::request);
    require(out.limit - out.head <= size);
  }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  steps program(data, bytes);
  std::uint8_t setting = 0;
  if (!program.take(setting)) return 0;
  // Near the start, the end and the overflow of the counters.
  hostile_ring ring((std::uint64_t{setting} - 128) * (size / 64));
  std::uint8_t what = 0;
  std::uint64_t argument = 0;
  while (program.take(what) && program.take(argument)) {
    switch (what % 9) {
    case 0:
      ring.consumed = argument;
      break;
    case 1:
      ring.consumed = ring.out.head + argument % (4 * size);
      break;
    case 2:
      ring.consumed = ring.out.head - argument % (4 * size);
      break;
    case 3:
      ring.scribble(argument >> 32, static_cast<std::uint32_t>(argument));
      break;
    case 4:
      ring.scribble(ring.in.tail, static_cast<std::uint32_t>(argument));
      break;
    case 5: {
      // Fill the whole ring with a pattern.
      for (std::uint64_t at = 0; at < size; at += record_alignment) {
        ring.scribble(at, static_cast<std::uint32_t>(argument + at * (argument >> 32)));
      }
      break;
    }
    case 7:
      ring.read_each(static_cast<std::uint8_t>(argument));
      break;
    case 6:
      for (std::uint64_t i = 0; i <= argument % 64; ++i)
        ring.read_one();
      break;
    default:
      ring.write_one(static_cast<std::uint32_t>(8 + argument % (record_limit(size) - 7)));
      break;
    }
  }
  return 0;
}
