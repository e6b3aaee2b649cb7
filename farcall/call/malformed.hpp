// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/language.hpp>

#include <cstddef>
#include <string_view>

/// Error paths of packing and unpacking. They are separate functions so that the fast paths stay
/// small.
namespace farcall {

class malformed_message;

/// Throws malformed_message, because a message has only `left` more bytes, but its types need
/// `wanted`.
[[noreturn, gnu::cold]] void throw_message_too_short(std::size_t wanted, std::size_t left);

namespace detail {

/// Throws malformed_message, because a container claims `count` elements of at least `min_bytes`
/// each, but only `left` bytes are left.
[[noreturn, gnu::cold]] void throw_count_too_large(std::size_t count, std::size_t min_bytes,
                                                   std::size_t left);

/// Throws malformed_message, because the bytes are no value of the type that `what` names.
[[noreturn, gnu::cold]] void throw_malformed(std::string_view what);

/// Throws malformed_message, because a message has `bytes` more bytes than its types need.
[[noreturn, gnu::cold]] void throw_bytes_left(std::size_t bytes);

/// Throws malformed_message, because the packer that a program has for `type` reads `read` bytes of
/// a value for which it writes `written` bytes.
[[noreturn, gnu::cold]] void throw_packer_differs(std::string_view type, std::size_t written,
                                                  std::size_t read);

/// Throws a malformed_message with the text of `why` and the name of the type whose packer was
/// reading.
[[noreturn, gnu::cold]] void throw_malformed_in(std::string_view type,
                                                const malformed_message& why);

/// Throws malformed_message, because a number is not below `limit`.
[[noreturn, gnu::cold]] void throw_out_of_range(std::string_view what, std::size_t value,
                                                std::size_t limit);

/// Throw because values are nested deeper than max_nesting. The first function is for packing and
/// throws error. The second is for unpacking and throws malformed_message.
[[noreturn, gnu::cold]] void throw_nested_too_deep_to_pack();
[[noreturn, gnu::cold]] void throw_nested_too_deep_to_unpack();

/// Throws error, because a packer wrote more bytes on the second pass than on the first.
[[noreturn, gnu::cold]] void throw_packed_beyond(std::size_t wanted, std::size_t capacity);

/// Throws error, because a std::variant has lost its value to an exception.
[[noreturn, gnu::cold]] void throw_valueless_variant();

} // namespace detail
} // namespace farcall
