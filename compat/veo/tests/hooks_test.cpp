// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <gtest/gtest.h>

#include <cstdarg>
#include <cstdint>
#include <vector>

namespace veo_test {
namespace {

/// Arguments of a hook's call.
struct hook_call {
  const void* payload;
  const void* owner; ///< the process or the context
  std::uint64_t address;
  std::size_t size;
  bool operator==(const hook_call&) const = default;
};

/// Calls of the hooks in this file. Needs no lock: while one thread runs,
/// the others wait for it.
std::vector<hook_call> calls;

extern "C" {

/// Hook of veo_alloc_mem(), which passes a pointer to the address.
void alloc_hook(void* payload, ...) {
  std::va_list rest;
  va_start(rest, payload);
  const void* const owner = va_arg(rest, void*);
  const std::uint64_t* const address = va_arg(rest, std::uint64_t*);
  calls.push_back({payload, owner, *address, va_arg(rest, std::size_t)});
  va_end(rest);
}

/// Hook of veo_alloc_mem_async() and veo_alloc_hmem(), which pass the address.
void alloc_value_hook(void* payload, ...) {
  std::va_list rest;
  va_start(rest, payload);
  const void* const owner = va_arg(rest, void*);
  const std::uint64_t address = va_arg(rest, std::uint64_t);
  calls.push_back({payload, owner, address, va_arg(rest, std::size_t)});
  va_end(rest);
}

void free_hook(void* payload, ...) {
  std::va_list rest;
  va_start(rest, payload);
  const void* const owner = va_arg(rest, void*);
  calls.push_back({payload, owner, va_arg(rest, std::uint64_t), 0});
  va_end(rest);
}

void tagged_alloc(void* address, std::size_t size) {
  calls.push_back({nullptr, nullptr, reinterpret_cast<std::uintptr_t>(address), size});
}
void tagged_free(std::uint64_t address) { calls.push_back({nullptr, nullptr, address, 0}); }
}

template <class Function>
void* key(Function* function) {
  return reinterpret_cast<void*>(function);
}

// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): GoogleTest ends it by its base
class hook : public ::testing::Test {
 protected:
  hook() { calls.clear(); }
  ~hook() override {
    for (void* const f : {key(&veo_alloc_mem), key(&veo_free_mem), key(&veo_alloc_hmem),
                          key(&veo_free_hmem), key(&veo_alloc_mem_async), key(&veo_free_mem_async)})
      veo_unregister_hook(f);
  }

  process& proc() { return process_; }

  /// Returns the calls since the last take().
  static std::vector<hook_call> take() { return std::exchange(calls, {}); }

 private:
  process process_;
};

int payload;
int other_payload;

using hook_calls = std::vector<hook_call>;

TEST_F(hook, is_called_for_alloc_and_free) {
  veo_register_hook(key(&veo_alloc_mem), &alloc_hook, &payload);
  veo_register_hook(key(&veo_free_mem), &free_hook, &other_payload);
  const std::uint64_t address = proc().allocate(100);
  EXPECT_EQ(take(), (hook_calls{{&payload, proc().get(), address, 100}}));
  proc().free(address);
  EXPECT_EQ(take(), (hook_calls{{&other_payload, proc().get(), address, 0}}));
}

TEST_F(hook, is_not_called_for_what_fails) {
  veo_register_hook(key(&veo_alloc_mem), &alloc_hook, &payload);
  std::uint64_t address = 0;
  const bounded b("veo_alloc_mem");
  EXPECT_EQ(veo_alloc_mem(proc().get(), &address, std::size_t{1} << 60), -1);
  EXPECT_EQ(take(), hook_calls{});
}

TEST_F(hook, is_not_called_for_other_functions) {
  veo_register_hook(key(&veo_alloc_mem), &alloc_hook, &payload);
  const std::uint64_t address = proc().allocate(100);
  (void)take();
  proc().free(address);
  const outcome o = collect(proc().main(), veo_alloc_mem_async(proc().main(), 8));
  EXPECT_EQ(o.state, VEO_COMMAND_OK);
  EXPECT_EQ(take(), hook_calls{});
}

TEST_F(hook, can_be_asked_for_replaced_and_taken_away) {
  void* const function = key(&veo_alloc_mem);
  EXPECT_EQ(veo_get_hook(function), nullptr);
  veo_register_hook(function, &alloc_hook, &payload);
  EXPECT_EQ(veo_get_hook(function), key(&alloc_hook));
  veo_register_hook(function, &free_hook, &payload);
  EXPECT_EQ(veo_get_hook(function), key(&free_hook));
  EXPECT_EQ(veo_get_hook(key(&veo_free_mem)), nullptr);
  veo_register_hook(function, &alloc_hook, &other_payload);
  const std::uint64_t address = proc().allocate(8);
  EXPECT_EQ(take(), (hook_calls{{&other_payload, proc().get(), address, 8}}));
  veo_unregister_hook(function);
  EXPECT_EQ(veo_get_hook(function), nullptr);
  proc().free(proc().allocate(8));
  EXPECT_EQ(take(), hook_calls{});
  veo_unregister_hook(function);
}

TEST_F(hook, is_called_for_tagged_memory) {
  veo_register_hook(key(&veo_alloc_hmem), &alloc_value_hook, &payload);
  veo_register_hook(key(&veo_free_hmem), &free_hook, &payload);
  const bounded b("veo_alloc_hmem");
  void* memory = nullptr;
  ASSERT_EQ(veo_alloc_hmem(proc().get(), &memory, 100), 0);
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  EXPECT_EQ(take(), (hook_calls{{&payload, proc().get(), address, 100}}));
  ASSERT_EQ(veo_free_hmem(memory), 0);
  EXPECT_EQ(take(), (hook_calls{{&payload, proc().get(), address, 0}}));
}

TEST_F(hook, for_plain_memory_is_called_for_tagged_memory) {
  veo_register_hook(key(&veo_alloc_mem), &alloc_hook, &payload);
  veo_register_hook(key(&veo_alloc_hmem), &alloc_value_hook, &other_payload);
  veo_register_hook(key(&veo_free_mem), &free_hook, &payload);
  const bounded b("veo_alloc_hmem");
  void* memory = nullptr;
  ASSERT_EQ(veo_alloc_hmem(proc().get(), &memory, 100), 0);
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const auto plain = reinterpret_cast<std::uintptr_t>(veo_get_hmem_addr(memory));
  EXPECT_EQ(take(), (hook_calls{{&payload, proc().get(), plain, 100},
                                {&other_payload, proc().get(), address, 100}}));
  ASSERT_EQ(veo_free_hmem(memory), 0);
  EXPECT_EQ(take(), (hook_calls{{&payload, proc().get(), plain, 0}}));
}

TEST_F(hook, is_called_for_asynchronous_alloc_and_free) {
  veo_register_hook(key(&veo_alloc_mem_async), &alloc_value_hook, &payload);
  veo_register_hook(key(&veo_free_mem_async), &free_hook, &other_payload);
  veo_thr_ctxt* const context = proc().open();
  const std::uint64_t allocates = veo_alloc_mem_async(context, 100);
  // Two requests: the allocation, and the call of the hook behind it, whose number the caller gets.
  EXPECT_EQ(allocates, 2U);
  const outcome o = collect(context, allocates);
  ASSERT_EQ(o.state, VEO_COMMAND_OK);
  ASSERT_NE(o.value, 0U);
  EXPECT_EQ(take(), (hook_calls{{&payload, context, o.value, 100}}));
  proc().write(o.value, std::uint64_t{3});
  EXPECT_EQ(collect(context, veo_free_mem_async(context, o.value)), ok(0));
  EXPECT_EQ(take(), (hook_calls{{&other_payload, context, o.value, 0}}));
}

TEST_F(hook, is_called_without_a_waiting_caller) {
  veo_register_hook(key(&veo_alloc_mem_async), &alloc_value_hook, &payload);
  veo_thr_ctxt* const context = proc().open();
  for (int i = 0; i < 5; ++i)
    ASSERT_NE(veo_alloc_mem_async(context, 100), VEO_REQUEST_ID_INVALID);
  const bounded b("veo_context_sync");
  veo_context_sync(context);
  EXPECT_EQ(take().size(), 5U);
}

TEST_F(hook, pair_that_gets_tagged_addresses) {
  veo_register_hmem_hook_functions(&tagged_alloc, &tagged_free);
  for (void* const f : {key(&veo_alloc_mem), key(&veo_free_mem), key(&veo_alloc_mem_async),
                        key(&veo_free_mem_async)})
    EXPECT_NE(veo_get_hook(f), nullptr);
  const int identifier = veo_proc_identifier(proc().get());
  const auto with_tag = [&](std::uint64_t address) {
    return reinterpret_cast<std::uintptr_t>(
        veo_set_proc_identifier(reinterpret_cast<void*>(address), identifier));
  };

  const std::uint64_t address = proc().allocate(100);
  EXPECT_EQ(take(), (hook_calls{{nullptr, nullptr, with_tag(address), 100}}));
  proc().free(address);
  EXPECT_EQ(take(), (hook_calls{{nullptr, nullptr, with_tag(address), 0}}));

  veo_thr_ctxt* const context = proc().open();
  const outcome o = collect(context, veo_alloc_mem_async(context, 200));
  ASSERT_EQ(o.state, VEO_COMMAND_OK);
  EXPECT_EQ(take(), (hook_calls{{nullptr, nullptr, with_tag(o.value), 200}}));
  EXPECT_EQ(collect(context, veo_free_mem_async(context, o.value)), ok(0));
  EXPECT_EQ(take(), (hook_calls{{nullptr, nullptr, with_tag(o.value), 0}}));

  veo_unregister_hmem_hook_functions();
  EXPECT_EQ(veo_get_hook(key(&veo_alloc_mem)), nullptr);
  EXPECT_EQ(veo_get_hook(key(&veo_free_mem_async)), nullptr);
  proc().free(proc().allocate(8));
  EXPECT_EQ(take(), hook_calls{});
}

} // namespace
} // namespace veo_test
