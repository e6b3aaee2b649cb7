// SPDX-License-Identifier: Apache-2.0
#include <farcall/c/function_table.hpp>
#include <farcall/c/named_call.hpp>
#include <farcall/call/message_handler.hpp>
#include <farcall/memory/process_counters.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

namespace farcall::test::named_call_test {
namespace {

using ::testing::HasSubstr;

void echo(fc_reply* reply, const void* bytes, size_t size, void* /*user*/) {
  // Reply with an error, because a failed expectation would be reported only in the target.
  const bool is_aligned = size == 0 || reinterpret_cast<std::uintptr_t>(bytes) % 16 == 0;
  const std::string_view fault = "bytes that are not aligned to 16";
  fc_reply_bytes(reply, is_aligned ? bytes : fault.data(), is_aligned ? size : fault.size());
}
/// Registered before main(), and thereby in all processes.
const bool registered = fc_register("named_call_test echo", &echo, nullptr) == FC_OK;

class named_calls : public job_test {
 protected:
  /// Calls the handler of named calls with exactly these bytes as the message; returns the reply.
  template <class T>
  [[nodiscard]] std::string reply_to(const T& bytes) const {
    const detail::call_place to = detail::place_of(target_);
    const am::handler_key key =
        key_resolver::key_for(to.messages, c::named_entry, to.job.context, no_deadline);
    auto reply = detail::future_access::make<message_reply>(
        detail::send<detail::call_mode::awaited, message_reply>(to.messages, key, {}, no_deadline,
                                                                bytes),
        no_deadline);
    const message_reply got = reply.get();
    return {reinterpret_cast<const char*>(got.bytes().data()), got.bytes().size()};
  }
};

TEST_F(named_calls, are_the_function_and_then_the_bytes) {
  ASSERT_TRUE(registered);
  std::array<char, 19> message{};
  const fc_function f = c::hash_of("named_call_test echo");
  std::memcpy(message.data(), &f, sizeof f);
  std::memcpy(message.data() + 16, "abc", 3);
  EXPECT_EQ(reply_to(message), "abc");
  EXPECT_EQ(reply_to(f), "");
}

TEST_F(named_calls, are_read_as_they_were_written) {
  fc_node there{};
  ASSERT_EQ(fc_node_at(nullptr, target_.id(), &there), FC_OK);
  std::string text = "a text that is longer than most";
  for (const std::size_t size : {0U, 1U, 12U, 31U, 5000U, 1000000U}) {
    text.resize(size, 'x');
    std::string got(size, ' ');
    std::size_t length = 0;
    ASSERT_EQ(fc_call(there, fc_named("named_call_test echo"), text.data(), size, got.data(), size,
                      &length),
              FC_OK);
    EXPECT_EQ(length, size);
    EXPECT_EQ(got, text);
  }
}

/// Returns the name that the counters of this process give to a C function. Returns an empty text
/// if they do not name it, and "twice" if they name it twice.
std::string name_in_counters(const job& of, const char* name) {
  const process_counters counts = of.counters();
  std::string found;
  for (const process_counters::named_function& f : counts.named) {
    if (f.handler != c::named_entry.name() || f.handle != c::handle_of(fc_named(name)).value)
      continue;
    if (!found.empty()) return "twice";
    found = f.name;
  }
  return found;
}

TEST_F(named_calls, have_names_in_counters) {
  EXPECT_EQ(name_in_counters(job_, "named_call_test echo"), "named_call_test echo");
  EXPECT_EQ(name_in_counters(job_, "named_call_test late"), "");
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(fc_register("named_call_test late", &echo, nullptr), FC_OK);
    EXPECT_EQ(name_in_counters(job_, "named_call_test late"), "named_call_test late");
    ASSERT_EQ(fc_unregister("named_call_test late"), FC_OK);
  }
}

TEST_F(named_calls, get_no_names_from_a_forked_child) {
  const std::size_t names = job_.counters().named.size();
  const pid_t child = ::fork();
  if (child == 0)
    ::_exit(fc_register("named_call_test of a child", &echo, nullptr) == FC_OK ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(job_.counters().named.size(), names);
}

TEST_F(named_calls, that_are_too_short_are_malformed) {
  const std::array<std::byte, sizeof(fc_function)> message{};
  for (std::size_t size = 0; size < message.size(); ++size) {
    const detail::reply_bytes cut{std::span(message).first(size)};
    EXPECT_THAT(text_thrown_by<remote_error>([&] { (void)reply_to(cut); }),
                HasSubstr("malformed_message"))
        << size;
  }
}

} // namespace
} // namespace farcall::test::named_call_test
