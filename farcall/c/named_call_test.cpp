#include <farcall/base/error.hpp>
#include <farcall/c/named_call.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace farcall::c::named_call_test {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class T>
std::string packed(const T& value) {
  const std::size_t size = packed_size(value);
  alignas(16) std::array<std::byte, 256> to{};
  writer w(to.data(), size);
  w(value);
  return text_of(std::span(to).first(size));
}

TEST(named_calls, are_the_bytes_and_then_the_function) {
  const fc_function f = 0x0807060504030201;
  EXPECT_EQ(packed(named_call{f, bytes_of("abc")}), "abc\1\2\3\4\5\6\7\10");
  EXPECT_EQ(packed(named_call{f, {}}).size(), sizeof f);
}

TEST(named_calls, are_read_as_they_were_written) {
  for (const std::string text : {"", "a", "twelve bytes", "a text that is longer than most"}) {
    const std::string sent = packed(named_call{42, bytes_of(text)});
    alignas(16) std::array<std::byte, 256> message{};
    std::memcpy(message.data(), sent.data(), sent.size());
    reader r(message.data(), sent.size());
    const auto call = r.read<named_call>();
    EXPECT_EQ(call.function, 42U);
    EXPECT_EQ(text_of(call.bytes), text);
    EXPECT_EQ(r.remaining(), 0U);
  }
}

TEST(named_calls, that_are_too_short_are_malformed) {
  alignas(16) const std::array<std::byte, 16> message{};
  for (std::size_t size = 0; size < sizeof(fc_function); ++size) {
    reader r(message.data(), size);
    EXPECT_THROW((void)r.read<named_call>(), malformed_message) << size;
  }
}

TEST(call_results, own_their_bytes_wherever_they_lie) {
  for (const std::size_t size : {0U, 1U, 31U, 32U, 33U, 100000U}) {
    std::string text(size, 'x');
    std::iota(text.begin(), text.end(), 'a');
    call_result first(bytes_of(text).data(), size);
    EXPECT_EQ(text_of(first.bytes()), text);
    call_result second(std::move(first));
    EXPECT_EQ(text_of(second.bytes()), text);
    const std::string other = "another";
    call_result third(bytes_of(other).data(), other.size());
    third = std::move(second);
    EXPECT_EQ(text_of(third.bytes()), text);
    EXPECT_EQ(packed(call_result(bytes_of(other).data(), other.size())), other);
  }
}

} // namespace
} // namespace farcall::c::named_call_test
