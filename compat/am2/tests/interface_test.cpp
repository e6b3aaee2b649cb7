// SPDX-License-Identifier: Apache-2.0

// Tests of the functions that send no messages: their results, and which error comes first.
#include "support.hpp"

#include <gmock/gmock.h>

#include <array>
#include <limits>
#include <string>

namespace farcall::am2::test {
namespace {

void nothing(void* /*token*/) {}

TEST(am2_before_init, all_functions_fail) {
  eb_t bundle{};
  int n = 0;
  EXPECT_EQ(AM_AllocateBundle(AM_SEQ, &bundle), AM_ERR_NOT_INIT);
  EXPECT_EQ(AM_MaxNumTranslations(&n), AM_ERR_NOT_INIT);
  EXPECT_EQ(AM_Poll(nullptr), AM_ERR_NOT_INIT);
  EXPECT_EQ(AM_Request0(nullptr, 0, 1), AM_ERR_NOT_INIT);
  EXPECT_EQ(AM_Reply0(nullptr, 1), AM_ERR_NOT_INIT);
  EXPECT_EQ(AM_Terminate(), AM_ERR_NOT_INIT);
}

TEST(am2_init, is_counted) {
  ASSERT_EQ(AM_Init(), AM_OK);
  ASSERT_EQ(AM_Init(), AM_OK);
  eb_t bundle{};
  ASSERT_EQ(AM_AllocateBundle(AM_SEQ, &bundle), AM_OK);
  EXPECT_EQ(AM_Terminate(), AM_OK);
  EXPECT_EQ(AM_Poll(bundle), AM_OK);
  EXPECT_EQ(AM_Terminate(), AM_OK);
  EXPECT_EQ(AM_Terminate(), AM_ERR_NOT_INIT);
}

class am2_interface : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(AM_Init(), AM_OK);
    ASSERT_EQ(AM_AllocateBundle(AM_SEQ, &bundle_), AM_OK);
    ASSERT_EQ(AM_AllocateEndpoint(bundle_, &ep_, &name_), AM_OK);
  }
  void TearDown() override { ASSERT_EQ(AM_Terminate(), AM_OK); }

  eb_t bundle_{};
  ep_t ep_{};
  en_t name_{};
};

TEST_F(am2_interface, has_limits_that_programs_can_count_with) {
  EXPECT_EQ(AM_MaxShort(), 16);
  EXPECT_GE(AM_MaxMedium(), 512);
  EXPECT_GE(AM_MaxLong(), 8192);
  EXPECT_EQ(AM_MaxLong() % 4, 0);
  EXPECT_LE(AM_MaxLong(), 4 << 20);
  EXPECT_EQ(AM_MaxNumHandlers(), 256);
  EXPECT_LT(sizeof(amx_stats_t), static_cast<std::size_t>(AM_MaxMedium()));
  int n = 0;
  EXPECT_EQ(AM_MaxNumTranslations(&n), AM_OK);
  EXPECT_GE(n, 256);
  std::uintptr_t bytes = 0;
  EXPECT_EQ(AM_MaxSegLength(&bytes), AM_OK);
  EXPECT_EQ(bytes, std::numeric_limits<std::uintptr_t>::max());
  EXPECT_EQ(AM_MaxNumTranslations(nullptr), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_MaxSegLength(nullptr), AM_ERR_BAD_ARG);
}

TEST_F(am2_interface, makes_bundles_of_both_kinds_and_not_too_many) {
  eb_t other{};
  EXPECT_EQ(AM_AllocateBundle(AM_PAR, &other), AM_OK);
  EXPECT_EQ(AM_AllocateBundle(AM_NUM_BUNDLE_MODES, &other), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_AllocateBundle(-1, &other), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_AllocateBundle(AM_SEQ, nullptr), AM_ERR_BAD_ARG);
  for (int i = 2; i < 254; ++i)
    ASSERT_EQ(AM_AllocateBundle(AM_SEQ, &other), AM_OK);
  EXPECT_EQ(AM_AllocateBundle(AM_SEQ, &other), AM_ERR_RESOURCE);
  EXPECT_EQ(AM_FreeBundle(other), AM_OK);
  EXPECT_EQ(AM_FreeBundle(other), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_FreeBundle(nullptr), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_AllocateBundle(AM_SEQ, &other), AM_OK);
}

TEST_F(am2_interface, makes_endpoints_as_the_standard_says) {
  ep_t ep{};
  en_t name{};
  EXPECT_EQ(AM_AllocateEndpoint(nullptr, &ep, &name), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_AllocateEndpoint(bundle_, nullptr, &name), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_AllocateEndpoint(bundle_, &ep, nullptr), AM_ERR_BAD_ARG);
  ASSERT_EQ(AM_AllocateEndpoint(bundle_, &ep, &name), AM_OK);
  EXPECT_FALSE(AMX_enEqual(name, name_));
  EXPECT_TRUE(AMX_enEqual(name, name));
  tag_t tag = 99;
  EXPECT_EQ(AM_GetTag(ep, &tag), AM_OK);
  EXPECT_EQ(tag, AM_NONE);
  int n = 0;
  EXPECT_EQ(AM_GetNumTranslations(ep, &n), AM_OK);
  EXPECT_EQ(n, 256);
  EXPECT_EQ(AM_GetNumHandlers(ep, &n), AM_OK);
  EXPECT_EQ(n, 256);
  void* segment = &n;
  std::uintptr_t bytes = 9;
  EXPECT_EQ(AM_GetSeg(ep, &segment, &bytes), AM_OK);
  EXPECT_EQ(segment, nullptr);
  EXPECT_EQ(bytes, 0U);
  for (int i = 0; i < 256; ++i)
    EXPECT_EQ(AM_GetTranslationInuse(ep, i), AM_ERR_RESOURCE);
  EXPECT_EQ(AM_FreeEndpoint(ep), AM_OK);
  EXPECT_EQ(AM_FreeEndpoint(ep), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_FreeEndpoint(nullptr), AM_ERR_BAD_ARG);
}

TEST_F(am2_interface, keeps_tags_and_segments) {
  tag_t tag = 0;
  EXPECT_EQ(AM_SetTag(ep_, 0x123456789abcdefULL), AM_OK);
  EXPECT_EQ(AM_GetTag(ep_, &tag), AM_OK);
  EXPECT_EQ(tag, 0x123456789abcdefULL);
  EXPECT_EQ(AM_SetTag(nullptr, 1), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_GetTag(ep_, nullptr), AM_ERR_BAD_ARG);
  int memory = 0;
  void* segment = nullptr;
  std::uintptr_t bytes = 0;
  EXPECT_EQ(AM_SetSeg(ep_, &memory, sizeof memory), AM_OK);
  EXPECT_EQ(AM_GetSeg(ep_, &segment, &bytes), AM_OK);
  EXPECT_EQ(segment, &memory);
  EXPECT_EQ(bytes, sizeof memory);
  EXPECT_EQ(AM_GetSeg(ep_, nullptr, &bytes), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_SetSeg(nullptr, &memory, 1), AM_ERR_BAD_ARG);
}

TEST_F(am2_interface, maps_and_unmaps) {
  EXPECT_EQ(AM_Map(ep_, 256, name_, 5), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_Map(ep_, -1, name_, 5), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_Map(nullptr, 0, name_, 5), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_Map(ep_, 1, name_, 5), AM_OK);
  EXPECT_EQ(AM_Map(ep_, 1, name_, 5), AM_ERR_RESOURCE);
  int index = -1;
  EXPECT_EQ(AM_MapAny(ep_, &index, name_, 6), AM_OK);
  EXPECT_EQ(index, 0);
  EXPECT_EQ(AM_MapAny(ep_, &index, name_, 7), AM_OK);
  EXPECT_EQ(index, 2);
  EXPECT_EQ(AM_MapAny(ep_, nullptr, name_, 7), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_GetTranslationInuse(ep_, 2), AM_OK);
  EXPECT_EQ(AM_GetTranslationInuse(ep_, 3), AM_ERR_RESOURCE);
  EXPECT_EQ(AM_GetTranslationInuse(ep_, 256), AM_ERR_BAD_ARG);
  tag_t tag = 0;
  EXPECT_EQ(AM_GetTranslationTag(ep_, 2, &tag), AM_OK);
  EXPECT_EQ(tag, 7U);
  EXPECT_EQ(AM_GetTranslationTag(ep_, 3, &tag), AM_ERR_RESOURCE);
  EXPECT_EQ(AM_GetTranslationTag(ep_, -3, &tag), AM_ERR_BAD_ARG);
  EXPECT_EQ(AMX_SetTranslationTag(ep_, 2, 70), AM_OK);
  EXPECT_EQ(AM_GetTranslationTag(ep_, 2, &tag), AM_OK);
  EXPECT_EQ(tag, 70U);
  EXPECT_EQ(AMX_SetTranslationTag(ep_, 3, 70), AM_ERR_RESOURCE);
  EXPECT_EQ(AMX_SetTranslationTag(ep_, 300, 70), AM_ERR_BAD_ARG);
  en_t name{};
  EXPECT_EQ(AM_GetTranslationName(ep_, 2, &name), AM_OK);
  EXPECT_TRUE(AMX_enEqual(name, name_));
  EXPECT_EQ(AM_GetTranslationName(ep_, 3, &name), AM_ERR_RESOURCE);
  EXPECT_EQ(AM_UnMap(ep_, 2), AM_OK);
  EXPECT_EQ(AM_Unmap(ep_, 2), AM_ERR_RESOURCE);
  EXPECT_EQ(AM_UnMap(ep_, 256), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_GetTranslationInuse(ep_, 2), AM_ERR_RESOURCE);
}

TEST_F(am2_interface, maps_no_name_of_another_job) {
  constexpr std::array nodes{1, 99, -1, std::numeric_limits<int>::max(),
                             std::numeric_limits<int>::min()};
  for (const int node : nodes) {
    en_t name = name_;
    name.node = node;
    int index = -1;
    EXPECT_EQ(AM_Map(ep_, 0, name, 5), AM_ERR_BAD_ARG) << node;
    EXPECT_EQ(AM_MapAny(ep_, &index, name, 5), AM_ERR_BAD_ARG) << node;
    EXPECT_EQ(AM_GetTranslationInuse(ep_, 0), AM_ERR_RESOURCE) << node;
  }
}

TEST_F(am2_interface, changes_the_size_of_the_translation_table) {
  int n = 0;
  EXPECT_EQ(AM_SetNumTranslations(ep_, 1000), AM_OK);
  EXPECT_EQ(AM_GetNumTranslations(ep_, &n), AM_OK);
  EXPECT_EQ(n, 1000);
  EXPECT_EQ(AM_Map(ep_, 999, name_, 5), AM_OK);
  EXPECT_EQ(AM_SetNumTranslations(ep_, 10), AM_ERR_RESOURCE);
  EXPECT_EQ(AM_UnMap(ep_, 999), AM_OK);
  EXPECT_EQ(AM_SetNumTranslations(ep_, 10), AM_OK);
  EXPECT_EQ(AM_GetNumTranslations(ep_, &n), AM_OK);
  EXPECT_EQ(n, 256);
  EXPECT_EQ(AM_SetNumTranslations(ep_, std::numeric_limits<int>::max()), AM_ERR_RESOURCE);
  EXPECT_EQ(AM_SetNumTranslations(ep_, -1), AM_ERR_BAD_ARG);
  for (int i = 0; i < 256; ++i)
    ASSERT_EQ(AM_Map(ep_, i, name_, 5), AM_OK);
  EXPECT_EQ(AM_MapAny(ep_, &n, name_, 5), AM_ERR_RESOURCE);
}

TEST_F(am2_interface, settles_the_table_with_the_resources_once) {
  EXPECT_EQ(AM_Map(ep_, 0, name_, 5), AM_OK);
  EXPECT_EQ(AM_Request0(ep_, 0, 1), AM_ERR_NOT_INIT);
  EXPECT_EQ(AM_SetExpectedResources(ep_, 1, 0), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_SetExpectedResources(ep_, 1, std::numeric_limits<int>::max()), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_SetExpectedResources(nullptr, 1, 1), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_SetExpectedResources(ep_, 1, 1), AM_OK);
  EXPECT_EQ(AM_SetExpectedResources(ep_, 1, 1), AM_ERR_RESOURCE);
  int index = 0;
  EXPECT_EQ(AM_Map(ep_, 1, name_, 5), AM_ERR_RESOURCE);
  EXPECT_EQ(AM_MapAny(ep_, &index, name_, 5), AM_ERR_RESOURCE);
  EXPECT_EQ(AM_UnMap(ep_, 0), AM_ERR_RESOURCE);
  EXPECT_EQ(AM_SetNumTranslations(ep_, 512), AM_ERR_RESOURCE);
  EXPECT_EQ(AM_SetTag(ep_, 5), AM_OK);
  EXPECT_EQ(AMX_SetTranslationTag(ep_, 0, 6), AM_OK);
  EXPECT_EQ(AM_SetHandler(ep_, 1, nothing), AM_OK);
}

TEST_F(am2_interface, sets_handlers) {
  EXPECT_EQ(AM_SetHandler(nullptr, 1, nothing), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_SetHandler(ep_, 1, nullptr), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_SetHandler(ep_, 2, nothing), AM_OK);
  EXPECT_EQ(AM_SetHandler(ep_, 2, nothing), AM_OK);
  handler_t h = 0;
  EXPECT_EQ(AM_SetHandlerAny(ep_, &h, nothing), AM_OK);
  EXPECT_EQ(h, 1);
  EXPECT_EQ(AM_SetHandlerAny(ep_, &h, nothing), AM_OK);
  EXPECT_EQ(h, 3);
  EXPECT_EQ(AM_SetHandlerAny(ep_, nullptr, nothing), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_SetHandlerAny(ep_, &h, nullptr), AM_ERR_BAD_ARG);
  for (int i = 4; i < 256; ++i)
    ASSERT_EQ(AM_SetHandlerAny(ep_, &h, nothing), AM_OK);
  EXPECT_EQ(AM_SetHandlerAny(ep_, &h, nothing), AM_ERR_RESOURCE);
  EXPECT_EQ(AM_SetNumHandlers(ep_, 256), AM_OK);
  EXPECT_EQ(AM_SetNumHandlers(ep_, 128), AM_ERR_RESOURCE);
  EXPECT_EQ(AM_SetNumHandlers(ep_, 257), AM_ERR_RESOURCE);
}

TEST_F(am2_interface, has_an_event_mask) {
  int mask = -1;
  EXPECT_EQ(AM_GetEventMask(bundle_, &mask), AM_OK);
  EXPECT_EQ(mask, AM_NOEVENTS);
  EXPECT_EQ(AM_SetEventMask(bundle_, AM_NUMEVENTMASKS), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_SetEventMask(bundle_, AM_NOTEMPTY), AM_OK);
  EXPECT_EQ(AM_GetEventMask(bundle_, &mask), AM_OK);
  EXPECT_EQ(mask, AM_NOTEMPTY);
  EXPECT_EQ(AM_GetEventMask(nullptr, &mask), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_GetEventMask(bundle_, nullptr), AM_ERR_BAD_ARG);
}

TEST_F(am2_interface, refuses_arguments_of_messages_that_make_no_sense) {
  ASSERT_EQ(AM_SetTag(ep_, AM_ALL), AM_OK);
  ASSERT_EQ(AM_Map(ep_, 3, name_, 5), AM_OK);
  ASSERT_EQ(AM_SetExpectedResources(ep_, 1, 1), AM_OK);
  ASSERT_EQ(AM_SetHandler(ep_, 1, nothing), AM_OK);
  EXPECT_EQ(AM_Request0(nullptr, 3, 1), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_Request0(ep_, -1, 1), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_Request0(ep_, 2, 1), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_Request0(ep_, 256, 1), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_RequestI0(ep_, 3, 1, nullptr, 8), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_RequestXfer0(ep_, 3, 0, 1, nullptr, 8), AM_ERR_BAD_ARG);
  EXPECT_EQ(AMX_Request(ep_, 3, 1, 17), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_Reply0(nullptr, 1), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_Poll(nullptr), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_Request0(ep_, 3, 1), AM_OK);
  int id = 0;
  EXPECT_EQ(AMX_GetSourceId(nullptr, &id), AM_ERR_BAD_ARG);
}

TEST_F(am2_interface, moves_endpoints_and_frees_bundles) {
  eb_t other{};
  ASSERT_EQ(AM_AllocateBundle(AM_SEQ, &other), AM_OK);
  EXPECT_EQ(AM_MoveEndpoint(ep_, other, bundle_), AM_ERR_RESOURCE);
  EXPECT_EQ(AM_MoveEndpoint(nullptr, bundle_, other), AM_ERR_BAD_ARG);
  EXPECT_EQ(AM_MoveEndpoint(ep_, bundle_, nullptr), AM_ERR_BAD_ARG);
  ASSERT_EQ(AM_SetTag(ep_, 77), AM_OK);
  EXPECT_EQ(AM_MoveEndpoint(ep_, bundle_, other), AM_OK);
  EXPECT_EQ(AM_FreeBundle(bundle_), AM_OK);
  tag_t tag = 0;
  EXPECT_EQ(AM_GetTag(ep_, &tag), AM_OK);
  EXPECT_EQ(tag, 77U);
  EXPECT_EQ(AM_FreeBundle(other), AM_OK);
  EXPECT_EQ(AM_FreeEndpoint(ep_), AM_ERR_BAD_ARG) << "it went with its bundle";
}

/// Returns the lines that `f` writes to standard error with AMX_VerboseErrors set.
template <class F>
std::string told_by(const F& f) {
  testing::internal::CaptureStderr();
  AMX_VerboseErrors = 1;
  f();
  AMX_VerboseErrors = 0;
  return testing::internal::GetCapturedStderr();
}

TEST_F(am2_interface, names_the_function_that_returns_an_error) {
  EXPECT_EQ(told_by([] { (void)AM_AllocateEndpoint(nullptr, nullptr, nullptr); }),
            "AM-2: AM_AllocateEndpoint returns AM_ERR_BAD_ARG: this is no bundle\n");
  const auto told = [](auto f) { return told_by(f); };
  const auto returns = [](const std::string& name) {
    return testing::StartsWith("AM-2: " + name + " returns AM_ERR_BAD_ARG: ");
  };
  EXPECT_THAT(told([&] { (void)AM_Map(nullptr, 0, name_, 5); }), returns("AM_Map"));
  EXPECT_THAT(told([&] { (void)AM_MapAny(nullptr, nullptr, name_, 5); }), returns("AM_MapAny"));
  en_t none = name_;
  none.node = -1;
  int index = 0;
  EXPECT_THAT(told([&] { (void)AM_MapAny(ep_, &index, none, 5); }), returns("AM_MapAny"));
  EXPECT_THAT(told([&] { (void)AM_GetTranslationName(nullptr, 0, &none); }),
              returns("AM_GetTranslationName"));
  EXPECT_THAT(told([&] { (void)AM_GetSourceEndpoint(nullptr, &none); }),
              returns("AM_GetSourceEndpoint"));
  EXPECT_THAT(told([&] { (void)AM_SetHandler(nullptr, 1, nothing); }), returns("AM_SetHandler"));
  EXPECT_THAT(told([&] { (void)AM_SetHandlerAny(ep_, nullptr, nothing); }),
              returns("AM_SetHandlerAny"));
  EXPECT_THAT(told([&] { (void)AM2_SPMDStartup(nullptr, nullptr, 0, nullptr, nullptr, nullptr); }),
              returns("AMX_SPMDStartup"));
  EXPECT_EQ(told([] { (void)AMX_SPMDMyProc(); }),
            "AM-2: AMX_SPMDMyProc returns -1: the job has not been started\n");
}

TEST_F(am2_interface, refuses_invalid_network_depths) {
  int argc = 0;
  char** argv = nullptr;
  for (const int depth : {-1, (1 << 20) + 1, std::numeric_limits<int>::min()}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(AM2_SPMDStartup(&argc, &argv, depth, nullptr, nullptr, nullptr), AM_ERR_BAD_ARG);
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "AM-2: a network depth of " + std::to_string(depth) +
                  "; there may be 1 to 1048576 outstanding requests\n");
  }
}

TEST_F(am2_interface, names_the_process_as_the_program_does) {
  AMX_ProcessLabel = "worker 3";
  EXPECT_THAT(told_by([] { (void)AM_Poll(nullptr); }),
              testing::StartsWith("AM-2, worker 3: AM_Poll returns "));
  AMX_ProcessLabel = nullptr;
}

TEST_F(am2_interface, wait_without_events_is_fatal) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH((void)AM_WaitSema(bundle_), "AM_NOEVENTS");
  EXPECT_DEATH(AMX_FatalErr("number %d", 17), "number 17");
}

} // namespace
} // namespace farcall::am2::test
