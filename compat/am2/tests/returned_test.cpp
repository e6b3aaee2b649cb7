// SPDX-License-Identifier: Apache-2.0

// Tests of returned messages, tags, slots, bundles, and calls that handlers may not make.
#include "support.hpp"

#include <string>

namespace farcall::am2::test {
namespace {

enum : handler_t { on_request = 7, on_reply = 8, on_silent = 9, on_misuse = 10, unused = 99 };

struct returned {
  int status;
  op_t op;
  int source_id;

  friend bool operator==(const returned&, const returned&) = default;
};
std::vector<returned> at_a;
std::vector<returned> at_b;
int requests = 0;
int replies = 0;
void* last_token = nullptr;

returned what(int status, op_t op, void* token) {
  returned r{status, op, -1};
  EXPECT_EQ(AMX_GetSourceId(token, &r.source_id), AM_OK);
  EXPECT_EQ(AM_Reply0(token, on_reply), AM_ERR_RESOURCE);
  return r;
}
void returned_to_a(int status, op_t op, void* token) { at_a.push_back(what(status, op, token)); }
void returned_to_b(int status, op_t op, void* token) { at_b.push_back(what(status, op, token)); }

void reply_short(void* token) {
  ++requests;
  EXPECT_EQ(AM_Reply0(token, on_reply), AM_OK);
  EXPECT_EQ(AM_Reply0(token, on_reply), AM_ERR_RESOURCE) << "once";
}
void reply_seen(void* token) {
  ++replies;
  EXPECT_EQ(AM_Reply0(token, on_reply), AM_ERR_RESOURCE) << "a reply gets no reply";
}
void silent(void* token) {
  ++requests;
  last_token = token;
}

class returned_messages : public two_endpoints {
 protected:
  explicit returned_messages(int depth = 4) : two_endpoints(depth) {}

  void SetUp() override {
    two_endpoints::SetUp();
    at_a.clear();
    at_b.clear();
    requests = replies = 0;
    for (const ep_t e : {a_, b_}) {
      ASSERT_EQ(AM_SetHandler(e, on_request, reply_short), AM_OK);
      ASSERT_EQ(AM_SetHandler(e, on_reply, reply_seen), AM_OK);
      ASSERT_EQ(AM_SetHandler(e, on_silent, silent), AM_OK);
    }
    ASSERT_EQ(AM_SetHandler(a_, 0, returned_to_a), AM_OK);
    ASSERT_EQ(AM_SetHandler(b_, 0, returned_to_b), AM_OK);
  }

  /// Checks that a request of each category comes back with this status.
  void expect_returned(int index, handler_t h, int status) {
    at_a.clear();
    ASSERT_EQ(AM_Request0(a_, index, h), AM_OK);
    poll_both();
    ASSERT_EQ(AM_RequestI0(a_, index, h, &byte_, 1), AM_OK);
    poll_both();
    ASSERT_EQ(AM_RequestXfer0(a_, index, 0, h, &byte_, 1), AM_OK);
    poll_both();
    EXPECT_EQ(at_a, (std::vector<returned>{{status, AM_REQUEST_M, index},
                                           {status, AM_REQUEST_IM, index},
                                           {status, AM_REQUEST_XFER_M, index}}));
  }

  /// Checks that all slots are free: more requests than there are slots succeed.
  void expect_all_slots() {
    requests = replies = 0;
    for (int i = 0; i < 2 * depth_; ++i) {
      ASSERT_EQ(AM_Request0(a_, 1, on_request), AM_OK);
      poll_both();
    }
    EXPECT_EQ(requests, 2 * depth_);
    EXPECT_EQ(replies, 2 * depth_);
  }

  char byte_ = 'x';
};

TEST_F(returned_messages, say_that_the_tag_is_another_one) {
  char segment = 0;
  for (const int to : {0, 1}) {
    const ep_t there = to == 0 ? a_ : b_;
    ASSERT_EQ(AM_SetSeg(there, &segment, 1), AM_OK);
    ASSERT_EQ(AMX_SetTranslationTag(a_, to, 12345), AM_OK);
    expect_returned(to, on_request, EBADTAG);
    EXPECT_EQ(segment, 0) << "nothing was written";
    ASSERT_EQ(AM_SetTag(there, AM_NONE), AM_OK);
    expect_returned(to, on_request, EBADTAG);
    EXPECT_EQ(requests, 0);
    ASSERT_EQ(AM_SetTag(there, AM_ALL), AM_OK);
    ASSERT_EQ(AM_Request0(a_, to, on_silent), AM_OK);
    poll_both();
    EXPECT_EQ(requests, 1);
    requests = 0;
    ASSERT_EQ(AM_SetTag(there, to == 0 ? a_tag : b_tag), AM_OK);
    ASSERT_EQ(AMX_SetTranslationTag(a_, to, to == 0 ? a_tag : b_tag), AM_OK);
  }
  expect_all_slots();
}

TEST_F(returned_messages, say_that_there_is_no_such_handler) {
  char segment = 0;
  for (const int to : {0, 1}) {
    ASSERT_EQ(AM_SetSeg(to == 0 ? a_ : b_, &segment, 1), AM_OK);
    expect_returned(to, unused, EBADHANDLER);
    expect_returned(to, 0, EBADHANDLER);
  }
  expect_all_slots();
}

TEST_F(returned_messages, say_that_the_segment_has_no_such_place) {
  for (const int to : {0, 1}) {
    at_a.clear();
    const ep_t there = to == 0 ? a_ : b_;
    std::array<char, 16> segment{};
    ASSERT_EQ(AM_RequestXfer0(a_, to, 0, on_silent, &byte_, 1), AM_OK);
    poll_both();
    ASSERT_EQ(AM_GetXfer0(a_, to, 0, on_reply, 0, 1), AM_OK);
    poll_both();
    ASSERT_EQ(AM_SetSeg(there, segment.data(), segment.size()), AM_OK);
    ASSERT_EQ(AM_RequestXfer0(a_, to, 16, on_silent, &byte_, 1), AM_OK);
    poll_both();
    ASSERT_EQ(AM_RequestXfer0(a_, to, UINTPTR_MAX, on_silent, &byte_, 1), AM_OK);
    poll_both();
    ASSERT_EQ(AM_GetXfer0(a_, to, 15, on_reply, 0, 2), AM_OK);
    poll_both();
    ASSERT_EQ(AM_RequestXfer0(a_, to, 15, on_silent, &byte_, 1), AM_OK);
    poll_both();
    EXPECT_EQ(at_a, (std::vector<returned>{{EBADSEGOFF, AM_REQUEST_XFER_M, to},
                                           {EBADSEGOFF, AM_REQUEST_XFER_M, to},
                                           {EBADLENGTH, AM_REQUEST_XFER_M, to},
                                           {EBADLENGTH, AM_REQUEST_XFER_M, to},
                                           {EBADLENGTH, AM_REQUEST_XFER_M, to}}));
    EXPECT_EQ(requests, 1);
    EXPECT_EQ(segment[15], 'x');
    requests = 0;
  }
  expect_all_slots();
}

TEST_F(returned_messages, say_that_the_endpoint_does_not_exist) {
  ASSERT_EQ(AM_FreeEndpoint(b_), AM_OK);
  expect_returned(1, on_request, EBADENDPOINT);
  ASSERT_EQ(AM_AllocateEndpoint(b_bundle_, &b_, &b_name_), AM_OK);
  expect_returned(1, on_request, EBADENDPOINT);
}

TEST_F(returned_messages, come_back_when_their_receiver_is_freed) {
  ASSERT_EQ(AM_Request0(a_, 1, on_silent), AM_OK);
  ASSERT_EQ(AM_Poll(b_bundle_), AM_OK);
  ASSERT_EQ(AM_Request0(a_, 1, on_silent), AM_OK);
  ASSERT_EQ(AM_RequestI0(a_, 1, on_silent, &byte_, 1), AM_OK);
  ASSERT_EQ(AM_FreeBundle(b_bundle_), AM_OK);
  ASSERT_EQ(AM_Poll(a_bundle_), AM_OK);
  EXPECT_EQ(requests, 1);
  EXPECT_EQ(at_a, (std::vector<returned>{{EBADENDPOINT, AM_REQUEST_M, 1},
                                         {EBADENDPOINT, AM_REQUEST_IM, 1}}));
  // All slots are free again.
  for (int i = 0; i < depth_; ++i)
    EXPECT_EQ(AM_RequestXferAsync0(a_, 1, 0, on_silent, nullptr, 0), AM_OK) << i;
}

TEST_F(returned_messages, say_that_the_sender_is_not_known) {
  ep_t stranger{};
  en_t name{};
  ASSERT_EQ(AM_AllocateEndpoint(a_bundle_, &stranger, &name), AM_OK);
  ASSERT_EQ(AM_Map(stranger, 4, b_name_, b_tag), AM_OK);
  ASSERT_EQ(AM_SetExpectedResources(stranger, 1, 1), AM_OK);
  ASSERT_EQ(AM_SetHandler(stranger, 0, returned_to_a), AM_OK);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(AM_Request0(stranger, 4, on_request), AM_OK);
    poll_both();
  }
  EXPECT_EQ(at_a, (std::vector<returned>(3, {EBADENDPOINT, AM_REQUEST_M, 4})));
  EXPECT_EQ(requests, 0);
}

TEST_F(returned_messages, rejected_replies_are_reported_to_both_sides) {
  ASSERT_EQ(AMX_SetTranslationTag(b_, 0, 12345), AM_OK);
  ASSERT_EQ(AM_RequestI0(a_, 1, on_request, &byte_, 1), AM_OK);
  EXPECT_EQ(AM_SetHandler(
                b_, on_request,
                +[](void* token, void* /*buffer*/, size_t /*bytes*/) { reply_short(token); }),
            AM_OK);
  poll_both();
  EXPECT_EQ(requests, 1);
  EXPECT_EQ(replies, 0);
  EXPECT_EQ(at_b, (std::vector<returned>{{EBADTAG, AM_REPLY_M, 0}}));
  EXPECT_EQ(at_a, (std::vector<returned>{{EREPLYREJECTED, AM_REQUEST_IM, 1}}));
  ASSERT_EQ(AMX_SetTranslationTag(b_, 0, a_tag), AM_OK);
  ASSERT_EQ(AM_SetHandler(b_, on_request, reply_short), AM_OK);
  expect_all_slots();
}

TEST_F(returned_messages, abort_a_process_without_a_handler) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ep_t ep{};
        en_t name{};
        (void)AM_AllocateEndpoint(a_bundle_, &ep, &name);
        (void)AM_Map(ep, 0, name, 7);
        (void)AM_SetExpectedResources(ep, 1, 1);
        (void)AM_Request0(ep, 0, 5);
      },
      "EBADTAG");
}

// ---- slots -------------------------------------------------------------------------------------

TEST_F(returned_messages, slots_come_back_without_a_reply) {
  for (int i = 0; i < 5 * depth_; ++i) {
    ASSERT_EQ(AM_Request0(a_, 1, on_silent), AM_OK);
    poll_both();
  }
  EXPECT_EQ(requests, 5 * depth_);
  EXPECT_TRUE(at_a.empty());
}

TEST_F(returned_messages, the_asynchronous_long_does_not_wait_for_a_slot) {
  std::array<char, 16> segment{};
  ASSERT_EQ(AM_SetSeg(b_, segment.data(), segment.size()), AM_OK);
  ASSERT_EQ(AM_SetSeg(a_, segment.data(), segment.size()), AM_OK);
  for (int i = 0; i < depth_; ++i)
    ASSERT_EQ(AM_RequestXferAsync0(a_, 1, 0, on_silent, &byte_, 1), AM_OK);
  AMX_VerboseErrors = 1;
  testing::internal::CaptureStderr();
  EXPECT_EQ(AM_RequestXferAsync0(a_, 1, 0, on_silent, &byte_, 1), AM_ERR_IN_USE);
  EXPECT_EQ(AM_GetXferAsync0(a_, 1, 0, on_reply, 0, 1), AM_ERR_IN_USE);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "it is no error";
  AMX_VerboseErrors = 0;
  poll_both();
  EXPECT_EQ(requests, depth_);
  EXPECT_EQ(AM_RequestXferAsync0(a_, 1, 0, on_silent, &byte_, 1), AM_OK);
  EXPECT_EQ(AM_GetXferAsync0(a_, 1, 0, on_reply, 0, 1), AM_OK);
  poll_both();
  EXPECT_EQ(replies, 1);
}

// ---- calls that handlers may not make ----------------------------------------------------------

eb_t own_bundle{};

void misuse(void* token) {
  ++requests;
  ep_t ep{};
  EXPECT_EQ(AM_GetDestEndpoint(token, &ep), AM_OK);
  EXPECT_EQ(AM_Poll(own_bundle), AM_ERR_RESOURCE);
  EXPECT_EQ(AM_Request0(ep, 0, on_silent), AM_ERR_RESOURCE);
  int mask = 0;
  EXPECT_EQ(AM_SetEventMask(own_bundle, AM_NOTEMPTY), AM_OK);
  EXPECT_EQ(AM_WaitSema(own_bundle), AM_ERR_RESOURCE);
  EXPECT_EQ(AM_GetEventMask(own_bundle, &mask), AM_OK);
  EXPECT_EQ(mask, AM_NOEVENTS) << "after a failure";
}

TEST_F(returned_messages, handlers_may_not_poll_wait_or_request) {
  own_bundle = b_bundle_;
  ASSERT_EQ(AM_SetHandler(b_, on_misuse, misuse), AM_OK);
  ASSERT_EQ(AM_Request0(a_, 1, on_misuse), AM_OK);
  poll_both();
  EXPECT_EQ(requests, 1);
}

TEST_F(returned_messages, tokens_end_with_their_handlers) {
  ASSERT_EQ(AM_Request0(a_, 1, on_silent), AM_OK);
  poll_both();
  ASSERT_EQ(requests, 1);
  EXPECT_EQ(AM_Reply0(last_token, on_reply), AM_ERR_RESOURCE);
  int id = 0;
  EXPECT_EQ(AMX_GetSourceId(last_token, &id), AM_ERR_RESOURCE);
}

// ---- bundles -----------------------------------------------------------------------------------

TEST_F(returned_messages, handlers_run_in_polls_of_their_bundle_only) {
  ASSERT_EQ(AM_Request0(a_, 1, on_silent), AM_OK);
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(AM_Poll(a_bundle_), AM_OK);
  EXPECT_EQ(requests, 0);
  ASSERT_EQ(AM_MoveEndpoint(b_, b_bundle_, a_bundle_), AM_OK);
  ASSERT_EQ(AM_FreeBundle(b_bundle_), AM_OK);
  ASSERT_EQ(AM_Poll(a_bundle_), AM_OK);
  EXPECT_EQ(requests, 1) << "what waits moves along";
}

TEST_F(returned_messages, one_poll_serves_all_that_is_ready) {
  for (int i = 0; i < depth_; ++i)
    ASSERT_EQ(AM_Request0(a_, 1, on_silent), AM_OK);
  ASSERT_EQ(AM_Poll(b_bundle_), AM_OK);
  EXPECT_EQ(requests, depth_);
}

TEST_F(returned_messages, a_message_that_is_there_ends_a_wait) {
  ASSERT_EQ(AM_Request0(a_, 1, on_request), AM_OK);
  ASSERT_EQ(AM_SetEventMask(b_bundle_, AM_NOTEMPTY), AM_OK);
  ASSERT_EQ(AM_WaitSema(b_bundle_), AM_OK);
  ASSERT_EQ(AM_Poll(b_bundle_), AM_OK);
  EXPECT_EQ(requests, 1);
  ASSERT_EQ(AM2_PostSema(b_bundle_), AM_OK);
  ASSERT_EQ(AM_WaitSema(b_bundle_), AM_OK);
  int mask = 0;
  EXPECT_EQ(AM_GetEventMask(b_bundle_, &mask), AM_OK);
  EXPECT_EQ(mask, AM_NOTEMPTY);
}

TEST_F(returned_messages, messages_wait_until_the_resources_are_set) {
  ep_t late{};
  en_t name{};
  ASSERT_EQ(AM_AllocateEndpoint(b_bundle_, &late, &name), AM_OK);
  ep_t early{};
  en_t early_name{};
  ASSERT_EQ(AM_AllocateEndpoint(a_bundle_, &early, &early_name), AM_OK);
  ASSERT_EQ(AM_Map(early, 0, name, 3), AM_OK);
  ASSERT_EQ(AM_SetExpectedResources(early, 1, 1), AM_OK);
  ASSERT_EQ(AM_Request0(early, 0, on_silent), AM_OK);
  poll_both();
  EXPECT_EQ(requests, 0);
  ASSERT_EQ(AM_SetTag(late, 3), AM_OK);
  ASSERT_EQ(AM_SetHandler(late, on_silent, silent), AM_OK);
  ASSERT_EQ(AM_Map(late, 0, early_name, 4), AM_OK);
  ASSERT_EQ(AM_SetExpectedResources(late, 1, 1), AM_OK);
  poll_both();
  EXPECT_EQ(requests, 1);
}

// ---- statistics and hooks ----------------------------------------------------------------------

TEST_F(returned_messages, are_counted_as_all_others) {
  amx_stats_t sum = AMX_initial_stats;
  ASSERT_EQ(AM_Request0(a_, 1, on_request), AM_OK);
  poll_both();
  ASSERT_EQ(AM_RequestI3(a_, 1, unused, &byte_, 1, 1, 2, 3), AM_OK);
  poll_both();
  amx_stats_t a{};
  amx_stats_t b{};
  ASSERT_EQ(AMX_GetEndpointStatistics(a_, &a), AM_OK);
  ASSERT_EQ(AMX_GetEndpointStatistics(b_, &b), AM_OK);
  EXPECT_EQ(a.requests_sent[amx_Short], 1U);
  EXPECT_EQ(a.requests_sent[amx_Medium], 1U);
  EXPECT_EQ(a.bytes_sent[amx_Medium], 13U);
  EXPECT_EQ(a.replies_received[amx_Short], 1U);
  EXPECT_EQ(a.returned, 1U);
  EXPECT_EQ(b.requests_received[amx_Medium], 1U);
  EXPECT_EQ(b.replies_sent[amx_Short], 1U);
  ASSERT_EQ(AMX_AggregateStatistics(&sum, &a), AM_OK);
  ASSERT_EQ(AMX_AggregateStatistics(&sum, &b), AM_OK);
  EXPECT_EQ(sum.requests_sent[amx_Short] + sum.requests_received[amx_Short], 2U);
  const std::string text = AMX_DumpStatistics(nullptr, &sum, 1);
  EXPECT_NE(text.find("requests sent"), std::string::npos) << text;
  ASSERT_EQ(AMX_ResetEndpointStatistics(a_), AM_OK);
  ASSERT_EQ(AMX_GetEndpointStatistics(a_, &a), AM_OK);
  EXPECT_EQ(a.requests_sent[amx_Short], 0U);
  EXPECT_EQ(AMX_GetEndpointStatistics(a_, nullptr), AM_ERR_BAD_ARG);
  EXPECT_EQ(AMX_AggregateStatistics(nullptr, &a), AM_ERR_BAD_ARG);
}

std::vector<std::string> hooks_seen;

void before(amx_category_t category, int is_request, int handler, void* token, void* /*buffer*/,
            size_t bytes, int count, uint32_t* arguments) {
  EXPECT_NE(token, nullptr);
  hooks_seen.push_back("before " + std::to_string(category) + " " + std::to_string(is_request) +
                       " " + std::to_string(handler) + " " + std::to_string(bytes) + " " +
                       (count == 0 ? std::string("-") : std::to_string(arguments[0])));
}
void after(amx_category_t category, int is_request) {
  hooks_seen.push_back("after " + std::to_string(category) + " " + std::to_string(is_request));
}

TEST_F(returned_messages, hooks_run_around_handlers) {
  hooks_seen.clear();
  ASSERT_EQ(AMX_SetHandlerCallbacks(a_, before, after), AM_OK);
  ASSERT_EQ(AMX_SetHandlerCallbacks(b_, before, after), AM_OK);
  ASSERT_EQ(AM_SetHandler(
                b_, on_misuse,
                +[](void* /*token*/, void* /*buffer*/, size_t /*bytes*/, int32_t /*value*/) {}),
            AM_OK);
  ASSERT_EQ(AM_RequestI1(a_, 1, on_misuse, &byte_, 1, 42), AM_OK);
  poll_both();
  ASSERT_EQ(AM_Request0(a_, 1, on_request), AM_OK);
  poll_both();
  EXPECT_EQ(hooks_seen,
            (std::vector<std::string>{"before 1 1 10 1 42", "after 1 1", "before 0 1 7 0 -",
                                      "after 0 1", "before 0 0 8 0 -", "after 0 0"}));
  ASSERT_EQ(AMX_SetHandlerCallbacks(a_, nullptr, nullptr), AM_OK);
}

} // namespace
} // namespace farcall::am2::test
