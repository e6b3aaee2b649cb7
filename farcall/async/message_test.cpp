// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/message.hpp>
#include <tests/jobs.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace farcall::test {
namespace {

// A second type of this name is in message_other_file_test.cpp; only their files distinguish them.
struct in_two_files {
  std::array<std::uint64_t, 2> numbers;
};

} // namespace

// Defined in message_other_file_test.cpp, for its type.
void set_handler_in_other_file();
void post_from_other_file(const node& to, std::uint64_t number);
std::uint64_t number_in_other_file();

} // namespace farcall::test

namespace farcall::test::message_test {
namespace {

using ::testing::HasSubstr;

struct row {
  std::uint64_t number;
  std::uint32_t step;
  std::uint32_t count;
};
struct three_words {
  std::array<std::uint64_t, 3> words;
};
struct nothing {};
struct never_set {
  std::uint32_t number;
};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::string text_of(future<message_reply> reply) { return text_of(reply.get().bytes()); }
std::string long_text(std::size_t size) {
  std::string text(size, ' ');
  for (std::size_t i = 0; i < size; ++i)
    text[i] = static_cast<char>('a' + i * i % 23);
  return text;
}

/// A handler's object: records what the handler has received.
struct log {
  std::atomic<std::uint64_t> messages{0};
  std::uint64_t numbers = 0;
  std::string last;
  node_id source = no_node;
  bool wants_reply = false;
  bool is_aligned = true;
};
log own; ///< each node has its own

void note(void* context, row r, message& m) {
  log& to = *static_cast<log*>(context);
  to.numbers += r.number;
  to.last = text_of(m.payload());
  to.source = m.source();
  to.wants_reply = m.wants_reply();
  to.is_aligned &= reinterpret_cast<std::uintptr_t>(m.payload().data()) % 16 == 0;
  to.messages.fetch_add(1, std::memory_order_release);
}
void echo(void* /*context*/, three_words w, message& m) {
  std::string text = text_of(m.payload()) + static_cast<char>('0' + w.words[2] % 10);
  m.release();
  if (!m.payload().empty()) text += ", with a payload after release()";
  m.reply(bytes_of(text));
}
void set_handlers() {
  set_message_handler<row>(this_node(), {note, &own});
  set_message_handler<three_words>(this_node(), {echo, nullptr});
}

std::uint64_t messages() { return own.messages.load(std::memory_order_acquire); }
std::uint64_t numbers() { return own.numbers; }
std::string last() { return own.last; }
bool is_aligned() { return own.is_aligned; }

class messages_to_a_target : public job_test {
 protected:
  messages_to_a_target() { sync(target_, set_handlers); }
};

TEST_F(messages_to_a_target, bring_prefix_and_payload_to_the_object) {
  post_message(target_, row{40, 0, 0}, bytes_of("first"));
  post_message(target_, row{2, 0, 0});
  EXPECT_EQ(sync(target_, messages), 2U);
  EXPECT_EQ(sync(target_, numbers), 42U);
  EXPECT_EQ(sync(target_, last), "");
  EXPECT_EQ(sync(target_, [] { return own.source; }), host_id);
  EXPECT_FALSE(sync(target_, [] { return own.wants_reply; }));
}

TEST_F(messages_to_a_target, have_payloads_of_any_length) {
  for (const std::size_t size : {1U, 15U, 16U, 17U, 1000U, 5000U, 300000U, 5000000U}) {
    const std::string text = long_text(size);
    post_message(target_, row{1, 0, 0}, bytes_of(text));
    EXPECT_EQ(sync(target_, last), text) << size;
    EXPECT_EQ(text_of(async_message(target_, three_words{{1, 2, 3}}, bytes_of(text))), text + '3');
  }
  EXPECT_TRUE(sync(target_, is_aligned));
}

TEST_F(messages_to_a_target, are_filled_in_place) {
  for (const std::size_t size : {0U, 10U, 100000U}) {
    const auto fill = [size](std::byte* to) { std::memset(to, 'x', size); };
    post_message(target_, row{1, 0, 0}, payload_in_place(size, fill));
    EXPECT_EQ(sync(target_, last), std::string(size, 'x'));
    EXPECT_TRUE(try_post_message(target_, row{1, 0, 0}, payload_in_place(size, fill)));
    EXPECT_EQ(sync(target_, last), std::string(size, 'x'));
  }
}

TEST_F(messages_to_a_target, without_a_reply_give_an_empty_one) {
  EXPECT_EQ(text_of(async_message(target_, row{7, 0, 0}, bytes_of("asked"))), "");
  EXPECT_TRUE(sync(target_, [] { return own.wants_reply; }));
  EXPECT_EQ(sync(target_, last), "asked");
}

TEST_F(messages_to_a_target, go_by_lanes_and_within_deadlines) {
  lane stream(target_);
  post_message(stream, row{1, 0, 0});
  EXPECT_EQ(text_of(async_message(stream, three_words{{0, 0, 4}}, bytes_of("by a lane "))),
            "by a lane 4");
  EXPECT_EQ(text_of(async_message(target_.within(wait_limit), three_words{{0, 0, 5}})), "5");
  EXPECT_EQ(sync(stream, messages), 1U);
}

TEST_F(messages_to_a_target, throw_like_calls) {
  sync(target_, [] {
    set_message_handler<nothing>(
        this_node(),
        {[](void*, nothing, message&) { throw std::invalid_argument("not today"); }, nullptr});
  });
  const auto thrown =
      thrown_by<remote_error>([&] { (void)async_message(target_, nothing{}).get(); });
  ASSERT_TRUE(thrown);
  EXPECT_THAT(thrown->what(), HasSubstr("not today"));
  sync(target_, [] {
    set_message_handler<nothing>(this_node(), {[](void*, nothing, message& m) {
                                                 m.reply({});
                                                 m.reply({});
                                               },
                                               nullptr});
  });
  EXPECT_EQ(text_of(async_message(target_, nothing{})), "") << "the second reply is an error there";
}

TEST_F(messages_to_a_target, are_refused_without_a_handler) {
  const auto ask = [&] { (void)async_message(target_, never_set{1}).get(); };
  EXPECT_TRUE(thrown_by<unknown_function>(ask));
  sync(target_, [] {
    set_message_handler<never_set>(
        this_node(), {[](void*, never_set n, message&) { own.numbers = n.number; }, nullptr});
  });
  (void)async_message(target_, never_set{123}).get();
  EXPECT_EQ(sync(target_, numbers), 123U);
  sync(target_, [] { set_message_handler<never_set>(this_node(), {}); });
  EXPECT_TRUE(thrown_by<unknown_function>(ask));
}

TEST_F(messages_to_a_target, go_to_the_handler_of_their_file) {
  sync(target_, [] {
    set_message_handler<in_two_files>(
        this_node(),
        {[](void*, in_two_files p, message&) { own.numbers = p.numbers[1]; }, nullptr});
  });
  sync(target_, set_handler_in_other_file);
  post_message(target_, in_two_files{{1, 2}});
  post_from_other_file(target_, 3);
  EXPECT_EQ(sync(target_, numbers), 2U);
  EXPECT_EQ(sync(target_, number_in_other_file), 3U);
}

TEST_F(messages_to_a_target, that_are_cut_short_are_malformed) {
  const detail::call_place to = detail::place_of(target_);
  const am::handler_key key = key_resolver::key_for(to.messages, detail::message_type<row>::self,
                                                    to.job.context, no_deadline);
  const auto forged = [&](auto bytes) {
    return detail::future_access::make<message_reply>(
        detail::send<detail::call_mode::awaited, message_reply>(to.messages, key, {}, no_deadline,
                                                                bytes),
        no_deadline);
  };
  EXPECT_THAT(text_thrown_by<remote_error>([&] { (void)forged(std::array<char, 15>{}).get(); }),
              HasSubstr("malformed_message"));
  EXPECT_EQ(sync(target_, messages), 0U);
  EXPECT_EQ(text_of(forged(std::array<char, 16>{})), "");
  EXPECT_EQ(sync(target_, messages), 1U);
}

TEST_F(messages_to_a_target, let_a_handler_wait_that_has_kept_them) {
  sync(target_, [] {
    set_message_handler<nothing>(this_node(), {[](void*, nothing, message& m) {
                                                 message::kept_payload kept;
                                                 const std::span<const std::byte> bytes =
                                                     m.keep(kept);
                                                 message::kept_payload unused;
                                                 if (m.keep(unused).data() != bytes.data())
                                                   throw std::logic_error("kept twice");
                                                 const int twice = sync(host(), [] { return 2; });
                                                 std::string text = text_of(bytes);
                                                 for (int i = 1; i < twice; ++i)
                                                   text += text_of(bytes);
                                                 m.reply(bytes_of(text));
                                               },
                                               nullptr});
  });
  for (const std::size_t size : {0U, 3U, 2048U, 2049U, 100000U}) {
    const std::string text = long_text(size);
    future<message_reply> first = async_message(target_, nothing{}, bytes_of(text));
    future<message_reply> second = async_message(target_, nothing{}, bytes_of(text));
    EXPECT_EQ(text_of(std::move(first)), text + text);
    EXPECT_EQ(text_of(std::move(second)), text + text);
  }
}

TEST_F(messages_to_a_target, are_tried_only_while_there_is_space) {
  handshake gate(target_);
  future<bool> opened = async(
      target_, [](handshake::words words) { return handshake::wait(words.local(), 0, 1); },
      gate.span());
  const std::string text(200, 't');
  std::uint64_t sent = 0;
  while (try_post_message(target_, row{1, 0, 0}, bytes_of(text)))
    ++sent;
  EXPECT_GT(sent, 10U);
  EXPECT_FALSE(try_post_message(target_, row{1, 0, 0}, bytes_of(text)));
  gate.set(0);
  EXPECT_TRUE(opened.get());
  EXPECT_EQ(sync(target_, messages), sent);
}

TEST_F(messages_to_a_target, are_sent_by_targets_to_the_host) {
  log at_host;
  set_message_handler<row>(job_.host(), {note, &at_host});
  sync(target_, [] { post_message(host(), row{9, 0, 0}, bytes_of("up")); });
  ASSERT_TRUE(eventually([&] { return at_host.messages.load(std::memory_order_acquire) == 1; }));
  EXPECT_EQ(at_host.last, "up");
  EXPECT_EQ(at_host.source, target_.id());
}

TEST_F(messages_to_a_target, have_handlers_for_each_job) {
  job other(with_targets("shm"));
  log here;
  log there;
  set_message_handler<row>(job_.host(), {note, &here});
  set_message_handler<row>(other.host(), {note, &there});
  (void)async_message(job_.host(), row{1, 0, 0}).get();
  (void)async_message(other.host(), row{2, 0, 0}).get();
  EXPECT_EQ(here.numbers, 1U);
  EXPECT_EQ(there.numbers, 2U);
}

TEST_F(messages_to_a_target, have_handlers_on_the_node_that_runs_them) {
  const std::string text =
      text_thrown_by<error>([&] { set_message_handler<row>(target_, {note, &own}); });
  EXPECT_THAT(text, HasSubstr("is set on the node that runs it"));
  EXPECT_THROW(set_message_handler<row>(node(), {note, &own}), error);
}

TEST(message_layouts, have_the_payload_behind_the_prefix) {
  EXPECT_EQ(detail::message_type<row>::bytes_with(0), 16U);
  EXPECT_EQ(detail::message_type<row>::bytes_with(5), 21U);
  EXPECT_EQ(detail::message_type<three_words>::bytes_with(0), 24U);
  EXPECT_EQ(detail::message_type<three_words>::bytes_with(5), 37U);
  EXPECT_EQ(detail::message_type<nothing>::bytes_with(0), 0U);
  EXPECT_EQ(detail::message_type<nothing>::bytes_with(5), 5U);
}

TEST(message_replies, own_their_bytes_wherever_they_lie) {
  for (const std::size_t size : {0U, 1U, 31U, 32U, 33U, 100000U}) {
    const std::string text = long_text(size);
    message_reply first(bytes_of(text));
    EXPECT_EQ(text_of(first.bytes()), text);
    message_reply second(std::move(first));
    EXPECT_EQ(text_of(second.bytes()), text);
    message_reply third(bytes_of("another"));
    third = std::move(second);
    EXPECT_EQ(text_of(third.bytes()), text);
  }
}

TEST(message_tables, have_a_number_for_each_type) {
  const am::handler_function code = &detail::message_type<row>::run_registered;
  const am::handler_function other_code = &detail::message_type<nothing>::run_registered;
  const std::uint32_t first = detail::number_of_message_type("message_test one", code);
  EXPECT_EQ(detail::number_of_message_type("message_test one", other_code), first);
  EXPECT_NE(detail::number_of_message_type("message_test another", code), first);
  EXPECT_EQ(detail::message_type<row>::number,
            detail::number_of_message_type(detail::type_name<row>(), code));
  EXPECT_NE(detail::message_type<row>::number,
            detail::number_of_message_type(detail::type_name<row>(), other_code));
  detail::message_table table;
  EXPECT_EQ(table.find(first), nullptr);
  const auto run = [] {};
  table.set(first, run, &table);
  ASSERT_NE(table.find(first), nullptr);
  EXPECT_EQ(table.find(first)->context, &table);
  table.set(first, run, nullptr);
  EXPECT_EQ(table.find(first)->context, nullptr);
  table.set(first, nullptr, nullptr);
  EXPECT_EQ(table.find(first), nullptr);
  EXPECT_THROW(table.set(0, run, nullptr), error);
}

} // namespace
} // namespace farcall::test::message_test
