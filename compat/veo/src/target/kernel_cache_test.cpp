// SPDX-License-Identifier: Apache-2.0
#include "kernel_cache.hpp"

#include "test_kernels/library.hpp"
#include "test_kernels/printing.hpp"

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace farcall::veo::kernel_cache_test {
namespace {

using test::library;

std::uint64_t address_of(const void* code) { return reinterpret_cast<std::uint64_t>(code); }

TEST(kernel_cache, gives_the_same_kernel_again) {
  const library library(FARCALL_VEO_TEST_KERNELS_C);
  kernel_cache cache;
  const kernel& half = cache.at(address_of(library["half"]));
  EXPECT_EQ(half.code(), library["half"]);
  EXPECT_EQ(half.known(), signature_of(library["half"]));
  EXPECT_EQ(&cache.at(address_of(library["half"])), &half);
  const kernel* elsewhere = nullptr;
  std::thread([&] { elsewhere = &cache.at(address_of(library["half"])); }).join();
  EXPECT_EQ(elsewhere, &half);
}

TEST(kernel_cache, holds_more_kernels_than_a_thread_remembers) {
  kernel_cache cache;
  std::vector<const kernel*> kernels;
  for (std::uint64_t address = 0; address < 1000; ++address)
    kernels.push_back(&cache.at(address));
  for (std::uint64_t address = 0; address < 1000; ++address) {
    EXPECT_EQ(&cache.at(address), kernels[address]);
    EXPECT_EQ(address_of(kernels[address]->code()), address);
  }
}

TEST(kernel_cache, does_not_mix_with_another) {
  kernel_cache one;
  kernel_cache other;
  const kernel& first = one.at(16);
  EXPECT_NE(&other.at(16), &first);
  EXPECT_EQ(&one.at(16), &first);
}

TEST(kernel_cache, looks_up_again_what_it_was_told_to_forget) {
  kernel_cache cache;
  std::uint64_t address = 0;
  const kernel* old = nullptr;
  {
    const library library(FARCALL_VEO_TEST_KERNELS_C);
    address = address_of(library["half"]);
    old = &cache.at(address);
    EXPECT_EQ(old->known(), signature_of(library["half"]));
  }
  EXPECT_EQ(cache.at(address).known(), old->known());
  cache.forget();
  const kernel& now = cache.at(address);
#if FARCALL_VEO_HAS_DWARF
  EXPECT_EQ(now.known(), std::nullopt);
  // Another thread may still be in the old kernel.
  EXPECT_EQ(old->known()->result, value_class::real64);
#endif
  EXPECT_EQ(now.code(), old->code());
}

TEST(kernel_cache, does_not_grow_when_a_library_comes_back) {
  kernel_cache cache;
  const library library(FARCALL_VEO_TEST_KERNELS_C);
  const kernel& half = cache.at(address_of(library["half"]));
  cache.forget();
  EXPECT_EQ(&cache.at(address_of(library["half"])), &half);
}

TEST(kernel_cache, may_be_told_to_forget_while_others_use_it) {
  const library library(FARCALL_VEO_TEST_KERNELS_C);
  kernel_cache cache;
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> users;
  for (int index = 0; index < 3; ++index) {
    users.emplace_back([&] {
      while (!done.load(std::memory_order_relaxed)) {
        for (const char* name : {"half", "negation", "negative_int"}) {
          const kernel& found = cache.at(address_of(library[name]));
          if (found.code() != library[name]) wrong.fetch_add(1, std::memory_order_relaxed);
        }
      }
    });
  }
  for (int turn = 0; turn < 200; ++turn)
    cache.forget();
  done.store(true, std::memory_order_relaxed);
  for (std::thread& user : users)
    user.join();
  EXPECT_EQ(wrong.load(), 0U);
}

} // namespace
} // namespace farcall::veo::kernel_cache_test
