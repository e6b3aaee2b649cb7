// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/error.hpp>
#include <farcall/call/caller.hpp>
#include <farcall/call/entry.hpp>
#include <farcall/call/invoke.hpp>
#include <farcall/call/message_table.hpp>
#include <farcall/call/signature.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

namespace farcall {

/// A raw message as its handler receives it: a view of bytes that the transport has delivered. The
/// object lives for one call of the handler, on the handler's thread.
///
/// The payload is in the lane's ring, where a faulty peer can still change it, so a handler must
/// copy a value before checking it. Later requests wait until the handler returns or calls
/// release(). A handler must therefore call keep() or release() before it waits.
class message {
 public:
  /// For the library itself. Makes the message for a request in whose arguments the payload begins
  /// at offset `payload_at`.
  message(am::request_context& request, std::size_t payload_at) noexcept : request_(&request) {
    const std::size_t at = std::min<std::size_t>(payload_at, request.bytes());
    payload_ = {request.arguments() + at, request.bytes() - at};
  }
  message(const message&) = delete;
  message& operator=(const message&) = delete;

  /// Returns the node that sent the message.
  [[nodiscard]] node_id source() const noexcept { return request_->source(); }
  /// Returns the bytes behind the prefix, aligned to 16. They are valid until release(), or, if
  /// they did not fit a record, until the reply.
  [[nodiscard]] std::span<const std::byte> payload() const noexcept { return payload_; }
  /// True if the sender gets the reply. False for a posted message, whose reply is dropped.
  [[nodiscard]] bool wants_reply() const noexcept { return request_->wants_reply(); }

  /// Releases the message's space in the ring. payload() is empty afterwards. Further calls have no
  /// effect. Never fails.
  void release() noexcept {
    payload_ = {};
    request_->release();
  }

  /// Memory for a payload that is copied out of the ring. A short payload needs no heap memory.
  class kept_payload {
   public:
    /// Makes an object that contains no payload yet.
    kept_payload() noexcept = default;

   private:
    friend class message;
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): only bytes that were written are read
    alignas(16) std::byte near_[detail::stack_arguments];
    detail::kept_arguments far_;
  };

  /// Copies the payload to `to` if it is in the ring, and releases the ring's space. Returns
  /// payload(), which is from then on valid as long as `to` exists, or until the reply. A second
  /// call returns the same bytes. Throws std::bad_alloc.
  std::span<const std::byte> keep(kept_payload& to) {
    if (request_->in_ring() && !request_->released()) {
      std::byte* const copy =
          payload_.size() <= sizeof to.near_ ? to.near_ : to.far_.allocate(payload_.size());
      if (!payload_.empty()) std::memcpy(copy, payload_.data(), payload_.size());
      payload_ = {copy, payload_.size()};
    }
    request_->release();
    return payload_;
  }

  /// Replies with these bytes. Call at most once. If the handler returns without a reply, an empty
  /// one is sent. Throws error if the message was replied to before, out_of_memory, and
  /// std::bad_alloc.
  void reply(std::span<const std::byte> bytes);

  /// For the library itself: returns the request, through which a deferred reply or an error can be
  /// sent.
  [[nodiscard]] am::request_context& request() const noexcept { return *request_; }

 private:
  am::request_context* request_;
  std::span<const std::byte> payload_;
};

/// A function that handles raw messages with a prefix of type `Prefix`, together with the object on
/// which it works. The struct is a plain value. The library may call the function `run` on several
/// threads at the same time.
template <class Prefix>
struct message_handler {
  /// Function that handles a message. It gets a copy of the prefix, because a faulty peer can
  /// change the bytes in the ring. If it throws, the exception is sent to the caller, like the
  /// exception of a call.
  using function = void (*)(void* context, Prefix prefix, message& m);

  /// Function to run; null if messages are not accepted.
  function run = nullptr;
  /// Object on which the function works. The caller owns it, and it must outlive the use of the
  /// handler.
  void* context = nullptr;
};

/// A payload that the function `fill` writes directly to its place in the ring, or to the heap
/// block that is sent. `fill(std::byte* to)` writes `bytes` bytes to memory that is aligned to 16.
/// `fill` must not throw, call farcall or wait. The struct is a plain value, and its copies refer
/// to the same objects.
template <class Fill>
struct payload_in_place {
  /// Number of bytes that the function `fill` writes.
  std::size_t bytes;
  /// Function that writes the payload; called only if `bytes` is not 0.
  Fill fill;
};

/// The bytes of a handler's reply. A short reply is stored in the object itself. Move-only; used by
/// one thread at a time.
class message_reply {
 public:
  /// Makes an empty reply.
  message_reply() noexcept = default;
  /// Copies `from`. Throws std::bad_alloc.
  explicit message_reply(std::span<const std::byte> from) : size_(from.size()) {
    std::byte* to = near_;
    if (size_ > sizeof near_) to = far_ = new std::byte[size_];
    if (size_ != 0) std::memcpy(to, from.data(), size_);
  }
  message_reply(message_reply&& other) noexcept
      : size_(std::exchange(other.size_, 0)), far_(std::exchange(other.far_, nullptr)) {
    std::memcpy(near_, other.near_, sizeof near_);
  }
  message_reply& operator=(message_reply&& other) noexcept {
    std::swap(size_, other.size_);
    std::swap(far_, other.far_);
    std::swap(near_, other.near_);
    return *this;
  }
  message_reply(const message_reply&) = delete;
  message_reply& operator=(const message_reply&) = delete;
  ~message_reply() { delete[] far_; }

  /// Returns the bytes of the reply, which are valid as long as this object exists.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {far_ != nullptr ? far_ : near_, size_};
  }

 private:
  std::size_t size_ = 0;
  std::byte* far_ = nullptr;
  alignas(8) std::byte near_[32]{};
};

namespace detail {

/// View of a reply's bytes in the memory of the node that is about to send the reply.
struct reply_bytes {
  std::span<const std::byte> bytes;
};

/// Maximum size of a prefix, in bytes. Larger data belongs in the payload.
inline constexpr std::size_t max_prefix = 64;

/// Type of raw messages, which peers identify by the prefix's type, and the layout of its messages.
/// The prefix comes first. The payload, if there is one, begins at the next multiple of 16.
template <class Prefix>
struct message_type {
  static_assert(
      is_bitwise<Prefix> && sizeof(Prefix) <= max_prefix,
      "farcall: the prefix of a message is a trivially copyable type without pointers, of "
      "at most 64 bytes");

  static constexpr std::size_t prefix_bytes = packed_bytes<Prefix>;
  static constexpr std::size_t payload_at = align_up(prefix_bytes, body_alignment);

  [[nodiscard]] static constexpr std::size_t bytes_with(std::size_t payload) noexcept {
    return payload == 0 ? prefix_bytes : payload_at + payload;
  }

  /// Calls `handle(prefix, message)` for a request with a raw message, and sends an empty reply if
  /// `handle` has sent none. If `handle` throws, sends the exception as the reply. Used by the code
  /// of entries.
  template <class Handle>
  static void run(am::request_context& request, const call_context* context,
                  const Handle& handle) noexcept {
    const context_scope scope(context);
    try {
      if (request.bytes() < prefix_bytes) throw_message_too_short(prefix_bytes, request.bytes());
      message m(request, payload_at);
      handle(load_bitwise<Prefix>(request.arguments()), m);
      if (request.wants_reply() && !request.replied()) m.reply({});
    } catch (...) {
      reply_exception(request);
    }
  }

  /// Code of the entry `self`, which runs the handler that the job has registered.
  static void run_registered(am::request_context& request) noexcept {
    const call_context* const context = request.context();
    const message_table::registration* const found =
        context->messages == nullptr ? nullptr : context->messages->find(number);
    if (found == nullptr) return request.reply_unknown();
    run(request, context, [&](Prefix prefix, message& m) {
      reinterpret_cast<typename message_handler<Prefix>::function>(found->run)(found->context,
                                                                               prefix, m);
    });
  }

  static const std::uint32_t number;
  static entry self;
};

template <class Prefix>
const std::uint32_t message_type<Prefix>::number =
    number_of_message_type(type_name<Prefix>(), &message_type::run_registered);

template <class Prefix>
entry message_type<Prefix>::self{type_name<Prefix>(), &signature_text<message_reply(Prefix)>,
                                 &message_type::run_registered, entry_compiler};

/// Sends a raw message, with its prefix and payload, to the handler with the key `key`. `extra` is
/// sent in the request's header and identifies the message in timelines. Waits and throws like
/// send(). The result of the pending call is a message_reply.
template <call_mode Mode, class Prefix, class Fill>
sent_call<Mode> send_message(am::requester& l, am::handler_key key, function_handle extra,
                             time_point deadline, const Prefix& prefix,
                             const payload_in_place<Fill>& payload) {
  using type = message_type<Prefix>;
  const std::size_t bytes = type::bytes_with(payload.bytes);
  const auto fill = [&](std::byte* to) {
    store_bitwise(to, prefix);
    if (payload.bytes == 0) return;
    if constexpr (type::payload_at != type::prefix_bytes)
      std::memset(to + type::prefix_bytes, 0, type::payload_at - type::prefix_bytes);
    payload.fill(to + type::payload_at);
  };
  if constexpr (Mode != call_mode::stoppable) {
    if (bytes <= am::short_arguments) [[likely]] {
      if (const biased_lock::as_owner held(l.guard()); held) [[likely]] {
        am::pending_call* slot = nullptr;
        if (l.try_send_short<is_posted<Mode>>(static_cast<std::uint32_t>(bytes), key, extra.value,
                                              &read_reply<message_reply>, fill, slot)) [[likely]]
          return call_was_sent<Mode>(slot);
      }
    }
  }
  return send_filled<Mode, message_reply>(l, key, extra, deadline, bytes, fill);
}

} // namespace detail

template <>
struct packer<detail::reply_bytes> {
  static constexpr bool has_views = true;
  static void pack(writer& w, const detail::reply_bytes& reply) {
    w.bytes(reply.bytes.data(), reply.bytes.size());
  }
  static detail::reply_bytes unpack(reader& r) {
    const std::size_t n = r.remaining();
    return {{r.bytes(n), n}};
  }
};

/// Encodes the reply to a raw message as its bytes alone. Their number is not sent, because it
/// follows from the record's size.
template <>
struct packer<message_reply> {
  /// Writes the bytes of `reply`, without their number.
  static void pack(writer& w, const message_reply& reply) {
    w.bytes(reply.bytes().data(), reply.bytes().size());
  }
  /// Returns a copy of all bytes that the reader `r` has not read yet.
  static message_reply unpack(reader& r) {
    const std::size_t n = r.remaining();
    return message_reply({r.bytes(n), n});
  }
};

inline void message::reply(std::span<const std::byte> bytes) {
  if (request_->replied()) throw error("this message was replied to before");
  detail::send_reply(*request_, detail::reply_bytes{bytes});
}

} // namespace farcall
