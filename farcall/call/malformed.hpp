#pragma once

#include <cstddef>
#include <string_view>

/// The slow roads out of packing and unpacking, kept out of line so that the fast ones stay small.
namespace farcall {

/// A message holds `left` more bytes where its types need `wanted`.
[[noreturn, gnu::cold]] void throw_message_too_short(std::size_t wanted, std::size_t left);

namespace detail {

/// A container claims `count` elements of at least `least_bytes` each in `left` bytes.
[[noreturn, gnu::cold]] void throw_count_too_large(std::size_t count, std::size_t least_bytes,
                                                   std::size_t left);

/// Bytes that cannot be a value: `what` says which.
[[noreturn, gnu::cold]] void throw_malformed(std::string_view what);

/// A number that is none of the `limit` possible ones.
[[noreturn, gnu::cold]] void throw_out_of_range(std::string_view what, std::size_t value,
                                                std::size_t limit);

/// Values lie deeper in one another than max_nesting; `error` when packing.
[[noreturn, gnu::cold]] void throw_nested_too_deep_to_pack();
[[noreturn, gnu::cold]] void throw_nested_too_deep_to_unpack();

/// A packer wrote more bytes on the second pass than on the first.
[[noreturn, gnu::cold]] void throw_packed_beyond(std::size_t wanted, std::size_t capacity);

/// A std::variant that lost its value to an exception.
[[noreturn, gnu::cold]] void throw_valueless_variant();

} // namespace detail
} // namespace farcall
