#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <string_view>

/// The slow roads out of packing and unpacking, kept out of line so that the fast ones stay small.
namespace farcall {

class malformed_message;

/// A message holds `left` more bytes where its types need `wanted`.
[[noreturn, gnu::cold]] void throw_message_too_short(std::size_t wanted, std::size_t left);

namespace detail {

/// A container claims `count` elements of at least `least_bytes` each in `left` bytes.
[[noreturn, gnu::cold]] void throw_count_too_large(std::size_t count, std::size_t least_bytes,
                                                   std::size_t left);

/// Bytes that cannot be a value: `what` says which.
[[noreturn, gnu::cold]] void throw_malformed(std::string_view what);

/// `bytes` of a message lie behind all that its types need.
[[noreturn, gnu::cold]] void throw_bytes_left(std::size_t bytes);

/// The packer of that type has read `read` bytes of a value for which it
/// writes `written`.
[[noreturn, gnu::cold]] void throw_packer_differs(std::string_view type, std::size_t written,
                                                  std::size_t read);

/// A malformed_message with the text of `why`, in which the packer of that type stood.
[[noreturn, gnu::cold]] void throw_malformed_in(std::string_view type,
                                                const malformed_message& why);

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
