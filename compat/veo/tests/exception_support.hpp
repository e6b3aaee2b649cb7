// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <thread>
#include <vector>

namespace veo_test {

/// Waits until the contexts report the end of their process, and checks that it accepts no further
/// request.
inline void expect_ended(process& p, const std::vector<veo_thr_ctxt*>& contexts) {
  const bounded b("a call of a process that has ended");
  const arguments none;
  std::uint64_t word = 0;
  for (veo_thr_ctxt* const c : contexts) {
    ASSERT_TRUE(eventually([&] { return veo_get_context_state(c) == VEO_STATE_EXIT; }));
    EXPECT_EQ(veo_call_async(c, 4096, none.get()), VEO_REQUEST_ID_INVALID);
    EXPECT_NE(last_error(), "");
    EXPECT_EQ(veo_call_async_by_name(c, p.library("basic"), "same", none.get()),
              VEO_REQUEST_ID_INVALID);
    EXPECT_EQ(veo_call_async_vh(
                  c, [](void*) -> std::uint64_t { return 0; }, nullptr),
              VEO_REQUEST_ID_INVALID);
    EXPECT_EQ(veo_async_read_mem(c, &word, 4096, 8), VEO_REQUEST_ID_INVALID);
    EXPECT_EQ(veo_async_write_mem(c, 4096, &word, 8), VEO_REQUEST_ID_INVALID);
    EXPECT_EQ(veo_alloc_mem_async(c, 8), VEO_REQUEST_ID_INVALID);
    EXPECT_EQ(veo_free_mem_async(c, 4096), VEO_REQUEST_ID_INVALID);
    veo_context_sync(c);
  }
  EXPECT_LT(veo_call_sync(p.get(), 4096, none.get(), &word), 0);
  EXPECT_LT(veo_alloc_mem(p.get(), &word, 8), 0);
  EXPECT_LT(veo_read_mem(p.get(), &word, 4096, 8), 0);
  EXPECT_LT(veo_write_mem(p.get(), 4096, &word, 8), 0);
  EXPECT_EQ(veo_load_library(p.get(), library_file("shadow").c_str()), 0U);
  EXPECT_EQ(veo_get_sym(p.get(), p.library("basic"), "constructed"), 0U);
  EXPECT_EQ(veo_context_open(p.get()), nullptr);
}

} // namespace veo_test
