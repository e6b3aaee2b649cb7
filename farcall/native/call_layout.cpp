// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/native/call_layout.hpp>

#include <cstring>

namespace farcall::native {
namespace {

/// Largest size of one buffer. Sums of the sizes of all buffers cannot overflow.
constexpr std::uint64_t max_buffer = std::uint64_t{1} << 48;

} // namespace

void throw_other_arguments(const signature& type) {
  throw malformed_message("the arguments of a native call do not fit the function's signature, '" +
                          type.text + "'");
}

void read_words(const signature& type, std::span<const std::byte> payload, argument_words& words) {
  const std::size_t bytes = type.parameters.size() * word_bytes;
  if (payload.size() < bytes) throw_other_arguments(type);
  if (bytes != 0) std::memcpy(words.data(), payload.data(), bytes);
}

void read_layout(const signature& type, const argument_words& words, std::size_t payload_bytes,
                 call_layout& layout) {
  const std::span<const parameter> parameters = type.parameters;
  buffer_places sent(parameters.size() * word_bytes);
  buffer_places returned(sizeof(reply_head));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const passing way = parameters[i].way;
    const std::uint64_t size = words[i];
    if (way == passing::value || size == no_buffer) continue;
    if (size > max_buffer) throw_other_arguments(type);
    if (is_sent(way)) layout.places[i].sent = sent.next(sent_bytes(way, size));
    if (is_returned(way)) layout.places[i].returned = returned.next(size);
  }
  if (sent.end() != payload_bytes) throw_other_arguments(type);
  layout.reply_bytes = returned.end();
}

} // namespace farcall::native
