#pragma once

#include <farcall/am/message.hpp>
#include <farcall/am/requester.hpp>
#include <farcall/call/callable.hpp>
#include <farcall/call/context.hpp>
#include <farcall/call/entry.hpp>
#include <farcall/call/program_image.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace farcall {

struct card;
class transport;

/// Keys of callables between this node and each other one of a job. Peers with an equal function
/// registry use each other's rows as they are; for others the names are fetched once, on the first
/// call.
class key_resolver {
 public:
  /// A key that no row has: the peer has no such callable, or it is not known yet.
  static constexpr am::handler_key no_key = UINT32_MAX;

  /// Key of row 0 of the function registry; the keys before it are the library's.
  static constexpr am::handler_key first_row_key = am::first_user_key + 2;

  /// Handlers for the engine, in key order. `context` is theirs.
  [[nodiscard]] static std::vector<am::handler> handlers(const call_context& context);

  /// The key that nodes with our function registry have for `e`.
  [[nodiscard]] static am::handler_key own_key(const entry& e) noexcept;

  /// For nodes with numbers below `capacity`.
  explicit key_resolver(std::size_t capacity);
  key_resolver(const key_resolver&) = delete;
  key_resolver& operator=(const key_resolver&) = delete;
  ~key_resolver();

  /// A node, before it is called and calls. `way` is the transport to it, null where there is none,
  /// and outlives the key resolver. One thread at a time, also while others resolve.
  void add(const card& its, const transport* way);

  /// The peer's key for `e`. The first call to a node with another function registry waits for its
  /// names; so does the first call of a callable that a library has brought since the first job,
  /// and each call of one that the peer lacks. Throws unknown_function that names the callable when
  /// the peer lacks it, and timeout. `f` is the plain function that is called, for the text.
  [[nodiscard]] static am::handler_key key_for(am::requester& l, const entry& e,
                                               const call_context& context, time_point deadline,
                                               any_function f = nullptr) {
    // Acquire; partner: the release store in prepare().
    if (const am::handler_key* keys = l.keys.load(std::memory_order_acquire)) [[likely]] {
      const am::handler_key key = keys[e.index()];
      if (key != no_key) [[likely]]
        return key;
    }
    return context.functions->key_slow(l, e, deadline, f);
  }

  /// What to send for a plain function. The first use of a function towards a node of another build
  /// waits for that node. Throws unknown_function, and timeout.
  [[nodiscard]] function_handle handle_for(am::requester& l, any_function f, time_point deadline) {
    // Relaxed: false only makes it slower.
    if (l.is_of_same_build.load(std::memory_order_relaxed)) [[likely]] {
      const std::uint64_t offset = image_->distance_to(f);
      if (image_->is_near(offset)) [[likely]]
        return {static_cast<std::uint32_t>(offset)};
    }
    return handle_slow(l, f, deadline);
  }

  /// The function that a peer means, or null for a function handle that means none.
  [[nodiscard]] any_function function_for(function_handle handle) const noexcept {
    if ((handle.value & resolved_bit) == 0) [[likely]]
      return image_->at_offset(handle.value);
    return resolved(handle.value & ~resolved_bit);
  }

  /// Number for the function with that symbol name in this program, 0 when there is none or
  /// several.
  [[nodiscard]] std::uint32_t resolve(const std::string& symbol);

 private:
  /// What is only needed before the first call to a node, and when something is missing.
  struct state;
  struct peer_rows;

  /// Marks a function handle that is a number given out by the receiver; others are offsets.
  static constexpr std::uint32_t resolved_bit = std::uint32_t{1} << 31;
  static_assert(program_image::near <= resolved_bit);

  [[nodiscard]] function_handle handle_slow(am::requester& l, any_function f, time_point deadline);
  [[nodiscard]] any_function resolved(std::uint32_t number) const noexcept;
  [[nodiscard]] am::handler_key key_slow(am::requester& l, const entry& e, time_point deadline,
                                         any_function f);
  void prepare(am::requester& l, time_point deadline);
  [[nodiscard]] peer_rows rows_of_peer(am::requester& l, time_point deadline);
  /// Begin of a sentence about a program that lacks something, with its path if it is known.
  [[nodiscard]] std::string program_text(node_id peer) const;
  /// Why a row, or a function pointer, is missing in the peer's program.
  [[nodiscard]] std::string why_missing(node_id peer, std::uint32_t row) const;

  const program_image* image_;
  std::vector<char> same_build_; ///< by node; written before the node's first lane
  state* state_;                 ///< owned
};

} // namespace farcall
