// SPDX-License-Identifier: Apache-2.0

// Reads the signature and the payload of a native call from arbitrary bytes. Each buffer of the
// call is then inside the payload and the reply, and no two buffers of one of them overlap.

#include <farcall/base/error.hpp>
#include <farcall/native/call_layout.hpp>
#include <farcall/native/signature.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

namespace {

namespace native = farcall::native;

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const native::signature& type, std::span<const std::byte> payload) {
  native::argument_words words;
  native::read_words(type, payload, words);
  native::call_layout layout;
  native::read_layout(type, words, payload.size(), layout);
  std::size_t sent_end = type.parameters.size() * native::word_bytes;
  std::size_t returned_end = sizeof(native::reply_head);
  for (std::size_t i = 0; i < type.parameters.size(); ++i) {
    const native::passing way = type.parameters[i].way;
    const std::uint64_t size = words[i];
    if (way == native::passing::value || size == native::no_buffer) continue;
    if (native::is_sent(way)) {
      require(layout.places[i].sent >= sent_end);
      sent_end = layout.places[i].sent + native::sent_bytes(way, size);
      require(sent_end >= layout.places[i].sent && sent_end <= payload.size());
    }
    if (native::is_returned(way)) {
      require(layout.places[i].returned >= returned_end);
      returned_end = layout.places[i].returned + size;
      require(returned_end >= layout.places[i].returned && returned_end <= layout.reply_bytes);
    }
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The signature ends at the first zero.
  const std::uint8_t* const end = std::find(data, data + size, 0);
  const std::string_view text(reinterpret_cast<const char*>(data),
                              static_cast<std::size_t>(end - data));
  const auto rest = std::as_bytes(std::span(end, data + size));
  try {
    const native::signature type = native::signature::read(text);
    require(type.parameters.size() <= native::signature::max_parameters);
    check(type, rest.empty() ? rest : rest.subspan(1));
  } catch (const native::signature_error&) {
    return 0;
  } catch (const farcall::malformed_message&) {
    return 0;
  }
  return 0;
}
