// SPDX-License-Identifier: Apache-2.0
#include <farcall/call/message_handler.hpp>
#include <farcall/memory/process_counters.hpp>
#include <farcall/native/native_call.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace farcall::test::native_call_test {
namespace {

using native::native_call;
using native::remote_function;
using native::reply_head;
using ::testing::HasSubstr;

using bytes = std::vector<std::byte>;

void append(bytes& to, const void* from, std::size_t size) {
  const auto* const first = static_cast<const std::byte*>(from);
  to.insert(to.end(), first, first + size);
}

class native_messages : public job_test {
 protected:
  native_messages()
      : there_(target_, no_deadline), library_(native::load(there_, FARCALL_NATIVE_LIBRARY)) {}

  /// Returns the message of a call with these words as its payload.
  static bytes message(const remote_function& f, std::uint32_t arguments,
                       const std::vector<std::uint64_t>& words = {}) {
    bytes made;
    const native_call call{f.library, f.number, arguments};
    append(made, &call, sizeof call);
    append(made, words.data(), words.size() * sizeof words[0]);
    return made;
  }

  /// Sends exactly these bytes to the handler of native calls, and returns the reply.
  [[nodiscard]] bytes reply_to(const bytes& sent) const {
    const detail::call_place to = detail::place_of(target_);
    const am::handler_key key =
        key_resolver::key_for(to.messages, native::native_entry, to.job.context, no_deadline);
    auto reply = detail::future_access::make<message_reply>(
        detail::send<detail::call_mode::awaited, message_reply>(
            to.messages, key, {}, no_deadline, detail::reply_bytes{std::span(sent)}),
        no_deadline);
    const message_reply got = reply.get();
    return {got.bytes().begin(), got.bytes().end()};
  }

  [[nodiscard]] std::string refusal_of(const bytes& sent) const {
    return text_thrown_by<remote_error>([&] { (void)reply_to(sent); });
  }

  timed_node there_;
  std::uint64_t library_;
};

TEST_F(native_messages, are_a_prefix_words_and_buffers) {
  const remote_function f = native::find(there_, library_, "fill", "N(oNB)");
  const bytes reply = reply_to(message(f, 3, {20, 20, 'x'}));
  // The head of the reply, and 20 bytes that the function has written.
  ASSERT_EQ(reply.size(), sizeof(reply_head) + 20);
  EXPECT_TRUE(std::all_of(reply.begin() + sizeof(reply_head), reply.end(),
                          [](std::byte b) { return b == std::byte{'x'}; }));
}

TEST_F(native_messages, with_the_wrong_number_of_arguments_are_malformed) {
  const remote_function f = native::find(there_, library_, "multiply", "d(dd)");
  EXPECT_EQ(reply_to(message(f, 2, {0, 0})).size(), sizeof(reply_head));
  EXPECT_THAT(refusal_of(message(f, 1, {0})), HasSubstr("malformed_message"));
  EXPECT_THAT(refusal_of(message(f, 3, {0, 0, 0})), HasSubstr("malformed_message"));
  EXPECT_THAT(refusal_of(message(f, 2, {0})), HasSubstr("malformed_message"));
  EXPECT_THAT(refusal_of(message(f, 2, {0, 0, 0})), HasSubstr("malformed_message"));
  EXPECT_THAT(refusal_of(message(f, 2)), HasSubstr("malformed_message"));
  for (std::size_t size = 0; size < sizeof(native_call); ++size) {
    bytes cut = message(f, 2);
    cut.resize(size);
    EXPECT_THAT(refusal_of(cut), HasSubstr("malformed_message")) << size;
  }
}

TEST_F(native_messages, with_buffers_beyond_their_end_are_malformed) {
  const remote_function f = native::find(there_, library_, "length_of", "N(s)");
  bytes right = message(f, 1, {3, 0});
  append(right, "abc", 4);
  EXPECT_EQ(std::to_integer<int>(reply_to(right).at(0)), 3);
  for (const std::uint64_t size : {std::uint64_t{2}, std::uint64_t{4}, std::uint64_t{1} << 40,
                                   ~std::uint64_t{1}, std::uint64_t{1} << 63}) {
    bytes wrong = message(f, 1, {size, 0});
    append(wrong, "abc", 4);
    EXPECT_THAT(refusal_of(wrong), HasSubstr("malformed_message")) << size;
  }
}

TEST_F(native_messages, for_missing_libraries_and_functions_are_refused) {
  remote_function f = native::find(there_, library_, "do_nothing", "v()");
  EXPECT_EQ(reply_to(message(f, 0)).size(), sizeof(reply_head));
  f.number += 1;
  EXPECT_THAT(refusal_of(message(f, 0)), HasSubstr("unknown_library"));
  f.number = 0;
  f.library += 1;
  EXPECT_THAT(refusal_of(message(f, 0)), HasSubstr("unknown_library"));
}

TEST_F(native_messages, have_names_in_counters) {
  const remote_function f = native::find(there_, library_, "do_nothing", "v()");
  const process_counters counts = job_.counters();
  EXPECT_TRUE(std::any_of(counts.named.begin(), counts.named.end(), [&](const auto& named) {
    return named.handler == native::native_entry.name() && named.handle == f.name &&
           named.name == "do_nothing";
  }));
  EXPECT_EQ(native::native_entry.name_of(f.name), "do_nothing");
}

TEST_F(native_messages, have_replies_of_the_expected_size) {
  const native::signature& type = native::signature::of("v()");
  const bytes right(sizeof(reply_head));
  EXPECT_EQ(native::take_reply(right, type, nullptr).result, 0U);
  EXPECT_THROW(native::take_reply({}, type, nullptr), malformed_message);
  EXPECT_THROW(native::take_reply(bytes(sizeof(reply_head) + 1), type, nullptr), malformed_message);
}

} // namespace
} // namespace farcall::test::native_call_test
