#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

/// What travels between endpoints.
namespace farcall::am2 {

inline constexpr int most_arguments = 16;

/// Where an endpoint is, for good: numbers are not given twice.
struct endpoint_name {
  std::int32_t node = -1;
  std::int32_t endpoint = -1;

  friend bool operator==(const endpoint_name&, const endpoint_name&) noexcept = default;
};

enum class message_kind : std::uint8_t {
  request = 0,
  reply = 1,
  get = 2,              ///< a request for a part of the segment, answered by the library
  credit = 3,           ///< nothing but slots given back
  returned_request = 4, ///< it could not be delivered; `arguments` is the status
  returned_reply = 5,
  job = 6,     ///< between the processes of a job, not endpoints
  segment = 7, ///< where the sender's segment_card is
};

enum class category : std::uint8_t { short_message = 0, medium = 1, long_message = 2 };

/// Slots of requests, by category, that a message gives back.
using credits = std::array<std::uint32_t, 3>;

/// What stands before arguments and payload, in 24 bytes.
class message_header {
 public:
  std::uint64_t tag = 0;
  std::int32_t from = -1; ///< endpoint of the sender
  std::int32_t to = -1;   ///< endpoint of the receiver

  message_header() noexcept = default;
  message_header(message_kind kind, category c, std::uint8_t handler, int arguments) noexcept
      : bits_(std::uint64_t(kind) | std::uint64_t(c) << category_at |
              std::uint64_t(handler) << handler_at |
              (static_cast<std::uint64_t>(arguments) & 31U) << arguments_at) {}

  [[nodiscard]] message_kind kind() const noexcept { return message_kind(field(0, 3)); }
  [[nodiscard]] category payload() const noexcept { return category(field(category_at, 2)); }
  [[nodiscard]] std::uint8_t handler() const noexcept {
    return static_cast<std::uint8_t>(field(handler_at, 8));
  }
  /// How many, or the status of a message that has come back.
  [[nodiscard]] int arguments() const noexcept { return static_cast<int>(field(arguments_at, 5)); }

  /// Of a reply: the request's category.
  [[nodiscard]] category request_payload() const noexcept { return category(field(request_at, 2)); }
  void set_request_payload(category c) noexcept { bits_ |= std::uint64_t(c) << request_at; }

  /// A request whose receiver is to give back what it owes as soon as it has been handled.
  [[nodiscard]] bool asks_for_slots() const noexcept { return field(ask_at, 1) != 0; }
  void ask_for_slots() noexcept { bits_ |= std::uint64_t{1} << ask_at; }

  /// A long whose receiver is to say where its segment is.
  [[nodiscard]] bool asks_for_segment() const noexcept { return field(ask_segment_at, 1) != 0; }
  void ask_for_segment() noexcept { bits_ |= std::uint64_t{1} << ask_segment_at; }

  /// At most so many of a category go with one message.
  static constexpr std::uint32_t most_credits = 4095;
  void set_credits(const credits& c) noexcept {
    bits_ |= std::uint64_t{c[0]} << credits_at | std::uint64_t{c[1]} << (credits_at + 12) |
             std::uint64_t{c[2]} << (credits_at + 24);
  }
  [[nodiscard]] bool has_credits() const noexcept { return bits_ >> credits_at != 0; }
  /// It gives back one slot of that category, and nothing else.
  [[nodiscard]] bool gives_one_back(category c) const noexcept {
    return bits_ >> credits_at == std::uint64_t{1} << 12 * static_cast<unsigned>(c);
  }
  void give_one_back(category c) noexcept {
    bits_ |= std::uint64_t{1} << (credits_at + 12 * static_cast<unsigned>(c));
  }
  [[nodiscard]] credits given_back() const noexcept {
    return {static_cast<std::uint32_t>(field(credits_at, 12)),
            static_cast<std::uint32_t>(field(credits_at + 12, 12)),
            static_cast<std::uint32_t>(field(credits_at + 24, 12))};
  }

 private:
  static constexpr unsigned category_at = 3;
  static constexpr unsigned request_at = 5;
  static constexpr unsigned ask_at = 7;
  static constexpr unsigned handler_at = 8;
  static constexpr unsigned arguments_at = 16;
  static constexpr unsigned ask_segment_at = 21;
  static constexpr unsigned credits_at = 24;

  [[nodiscard]] std::uint64_t field(unsigned at, unsigned bits) const noexcept {
    return bits_ >> at & ((std::uint64_t{1} << bits) - 1);
  }

  std::uint64_t bits_ = 0;
};
static_assert(sizeof(message_header) == 24);

/// Where the bytes of a long are.
enum class payload_place : std::uint8_t {
  message = 0, ///< with it
  segment = 1, ///< where they are to go, already
  part = 2,    ///< with it, and it is nothing but a part of them
  parts = 3,   ///< with parts, before it or behind it
};

/// One message, where it lies. Who makes it owns what it refers to.
struct message {
  message_header header;
  const std::int32_t* arguments = nullptr; ///< header.arguments() of them
  /// Long: where in the segment. Get: where in the segment of the node that answers.
  std::uint64_t offset = 0;
  const void* payload = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t get_offset = 0; ///< Get: where in the requester's segment
  payload_place place = payload_place::message;
  std::uint64_t transfer = 0; ///< of a part, and of what has parts: which belong together
  /// Part: where all of them are in the segment.
  std::uint64_t whole_offset = 0;
  std::uint64_t whole_bytes = 0;
};

} // namespace farcall::am2
