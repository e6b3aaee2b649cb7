// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/message.hpp>
#include <farcall/am/requester.hpp>
#include <farcall/call/callable.hpp>
#include <farcall/call/context.hpp>
#include <farcall/call/entry.hpp>
#include <farcall/call/peer_keys.hpp>
#include <farcall/call/program_image.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace farcall {

struct card;
class transport;

/// Finds the keys by which each peer of a job knows this program's callables, and translates
/// function handles in both directions. Peers with an equal function registry use the same rows as
/// this node. The names of another peer are fetched once, at the first call to that peer.
class key_resolver {
 public:
  /// Value that is used in place of a key if the peer does not have the callable, or if the key is
  /// not resolved yet.
  static constexpr am::handler_key no_key = UINT32_MAX;

  /// Key of row 0 of the function registry. Lower keys belong to the library itself.
  static constexpr am::handler_key first_row_key = am::first_user_key + 2;

  /// Returns the handlers for the engine, ordered by key.
  [[nodiscard]] static std::vector<am::handler_function> handlers();

  /// Returns the key of the callable `e` on this node. Nodes with an equal function registry have
  /// the same key for it.
  [[nodiscard]] static am::handler_key own_key(const entry& e) noexcept;

  /// Makes a resolver for nodes with numbers below `capacity`.
  explicit key_resolver(std::size_t capacity);
  key_resolver(const key_resolver&) = delete;
  key_resolver& operator=(const key_resolver&) = delete;
  ~key_resolver();

  /// Adds a node before its first call in either direction. `way` is the transport to the node,
  /// which outlives the key resolver; it is null if there is none. One thread at a time may call
  /// it, even while other threads resolve keys.
  void add(const card& its, const transport* way);

  /// Returns the key under which the peer of lane `l` knows the callable `e`. Usually finds it in a
  /// table. Waits for a reply of the peer at the first call to a node with a different function
  /// registry, at the first call of a callable whose library was loaded after the first job began,
  /// and at each call of a callable that the peer lacks.
  ///
  /// Throws timeout. If the peer lacks the callable, throws unknown_function with the callable's
  /// name. If the callable is a plain function, `f` is that function, which the error then names.
  [[nodiscard]] static am::handler_key key_for(am::requester& l, const entry& e,
                                               const call_context& context, time_point deadline,
                                               any_function f = nullptr) {
    // Acquire, paired with the release store in prepare(), so that the keys are visible.
    if (const peer_keys* keys = l.keys.load(std::memory_order_acquire)) [[likely]] {
      const am::handler_key key = (*keys)[e.index()];
      if (key != no_key) [[likely]]
        return key;
    }
    return context.functions->key_slow(l, e, deadline, f);
  }

  /// Returns the function handle that tells the peer to call `f`, a plain function for whose type
  /// key_for() has found a key. Waits for a reply of the peer at the first use of a function if the
  /// peer runs another build. Throws unknown_function and timeout.
  [[nodiscard]] static function_handle
  handle_for(am::requester& l, any_function f, const call_context& context, time_point deadline) {
    // Relaxed, because key_for() has loaded the same pointer before.
    const program_image* const image = l.keys.load(std::memory_order_relaxed)->common_image();
    if (image != nullptr) [[likely]] {
      const std::uint64_t offset = image->distance_to(f);
      if (image->is_near(offset)) [[likely]]
        return {static_cast<std::uint32_t>(offset)};
    }
    return context.functions->handle_slow(l, f, deadline);
  }

  /// Returns the function to which a peer's function handle refers, or null if the handle is
  /// invalid.
  [[nodiscard]] any_function function_for(function_handle handle) const noexcept {
    if ((handle.value & resolved_bit) == 0) [[likely]]
      return image_->at_offset(handle.value);
    return resolved(handle.value & ~resolved_bit);
  }

  /// Returns the number of the function that has this symbol name in this program. Returns 0 if
  /// there is none, or more than one.
  [[nodiscard]] std::uint32_t resolve(const std::string& symbol);

 private:
  /// State that is needed only before the first call to a node, and for callables that a peer
  /// lacks.
  struct state;
  struct peer_rows;

  /// Bit that is set in a function handle if the handle is a number that the receiver has assigned.
  /// In other handles, which are offsets, it is 0.
  static constexpr std::uint32_t resolved_bit = std::uint32_t{1} << 31;
  static_assert(program_image::near <= resolved_bit);

  [[nodiscard]] function_handle handle_slow(am::requester& l, any_function f, time_point deadline);
  [[nodiscard]] any_function resolved(std::uint32_t number) const noexcept;
  [[nodiscard]] am::handler_key key_slow(am::requester& l, const entry& e, time_point deadline,
                                         any_function f);
  void prepare(am::requester& l, time_point deadline);
  [[nodiscard]] peer_rows rows_of_peer(am::requester& l, time_point deadline);
  /// Returns the beginning of a sentence that says that a peer's program lacks something. The text
  /// includes the program's path if it is known.
  [[nodiscard]] std::string program_text(node_id peer) const;
  /// Returns the reason why the peer's program lacks a row or a function.
  [[nodiscard]] std::string why_missing(node_id peer, std::uint32_t row) const;

  const program_image* image_;
  state* state_; ///< owned
};

} // namespace farcall
