// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <am2.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace farcall::am2::test {

/// Two endpoints of this process, each in its own bundle. Both tables have a_ at index 0 and b_ at
/// index 1.
class two_endpoints : public testing::Test {
 protected:
  explicit two_endpoints(int depth = 4, int mode = AM_SEQ) : depth_(depth), mode_(mode) {}

  void SetUp() override {
    ASSERT_EQ(AM_Init(), AM_OK);
    ASSERT_EQ(AM_AllocateBundle(mode_, &a_bundle_), AM_OK);
    ASSERT_EQ(AM_AllocateBundle(mode_, &b_bundle_), AM_OK);
    ASSERT_EQ(AM_AllocateEndpoint(a_bundle_, &a_, &a_name_), AM_OK);
    ASSERT_EQ(AM_AllocateEndpoint(b_bundle_, &b_, &b_name_), AM_OK);
    ASSERT_EQ(AM_SetTag(a_, a_tag), AM_OK);
    ASSERT_EQ(AM_SetTag(b_, b_tag), AM_OK);
    for (const ep_t e : {a_, b_}) {
      ASSERT_EQ(AM_Map(e, 0, a_name_, a_tag), AM_OK);
      ASSERT_EQ(AM_Map(e, 1, b_name_, b_tag), AM_OK);
      ASSERT_EQ(AM_SetExpectedResources(e, 2, depth_), AM_OK);
    }
  }
  void TearDown() override { ASSERT_EQ(AM_Terminate(), AM_OK); }

  /// Polls both bundles until no message is left.
  void poll_both() const {
    for (int i = 0; i < 4; ++i) {
      ASSERT_EQ(AM_Poll(b_bundle_), AM_OK);
      ASSERT_EQ(AM_Poll(a_bundle_), AM_OK);
    }
  }

  static constexpr tag_t a_tag = 0xa0000000000aULL;
  static constexpr tag_t b_tag = 0xb0000000000bULL;

  int depth_;
  int mode_;
  eb_t a_bundle_{};
  eb_t b_bundle_{};
  ep_t a_{};
  ep_t b_{};
  en_t a_name_{};
  en_t b_name_{};
};

/// Arguments, payload and token values that a handler has received.
struct seen {
  int calls = 0;
  std::vector<std::int32_t> arguments;
  std::vector<unsigned char> payload;
  const void* at = nullptr;
  en_t source{};
  int source_id = -1;
  ep_t destination{};
  tag_t tag = 0;
  handler_t handler = 0;
  amx_category_t category = amx_NumCategories;
  int is_request = -1;
};

inline void note(seen& s, void* token, const void* payload, std::size_t bytes) {
  ++s.calls;
  s.at = payload;
  const auto* const from = static_cast<const unsigned char*>(payload);
  s.payload.assign(from, from + bytes);
  EXPECT_EQ(AM_GetSourceEndpoint(token, &s.source), AM_OK);
  EXPECT_EQ(AM_GetDestEndpoint(token, &s.destination), AM_OK);
  EXPECT_EQ(AM_GetMsgTag(token, &s.tag), AM_OK);
  EXPECT_EQ(AMX_GetSourceId(token, &s.source_id), AM_OK);
  EXPECT_EQ(AMX_GetTokenInfo(token, &s.handler, &s.category, &s.is_request), AM_OK);
}

} // namespace farcall::am2::test
