// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace veo_test {
namespace {

int write(const process& p, std::uint64_t to, const void* from, std::size_t size) {
  const bounded b("veo_write_mem");
  return veo_write_mem(p.get(), to, from, size);
}

int read(const process& p, void* to, std::uint64_t from, std::size_t size) {
  const bounded b("veo_read_mem");
  return veo_read_mem(p.get(), to, from, size);
}

TEST(memory, is_aligned_for_any_type) {
  process p;
  for (const std::size_t size : {1U, 7U, 16U, 100U, 4096U, 1000000U}) {
    const std::uint64_t address = p.allocate(size);
    EXPECT_EQ(address % 16, 0U) << size;
  }
}

TEST(memory, holds_what_was_written) {
  process p;
  const std::vector<unsigned char> sent = content(1000, 1);
  const std::uint64_t address = p.allocate(sent.size());
  ASSERT_EQ(write(p, address, sent.data(), sent.size()), 0);
  std::vector<unsigned char> got(sent.size());
  ASSERT_EQ(read(p, got.data(), address, got.size()), 0);
  EXPECT_EQ(got, sent);
}

TEST(memory, null_of_this_program_is_refused) {
  process p;
  veo_thr_ctxt* const c = p.open();
  const std::uint64_t address = p.allocate(8);
  EXPECT_EQ(read(p, nullptr, address, 8), -1);
  EXPECT_EQ(last_error(), "the address in the memory of this program is NULL");
  EXPECT_EQ(write(p, address, nullptr, 8), -1);
  EXPECT_EQ(veo_async_read_mem(c, nullptr, address, 8), VEO_REQUEST_ID_INVALID);
  EXPECT_EQ(veo_async_write_mem(c, address, nullptr, 8), VEO_REQUEST_ID_INVALID);
  EXPECT_EQ(write(p, address, nullptr, 0), 0);
  EXPECT_EQ(p.call("same", std::uint64_t{6}), 6U);
}

TEST(memory, is_what_the_kernel_sees) {
  process p;
  const std::uint64_t address = p.allocate(100);
  const std::vector<unsigned char> ones(100, 1);
  ASSERT_EQ(write(p, address, ones.data(), ones.size()), 0);
  EXPECT_EQ(p.call("sum_bytes", address, std::uint64_t{100}), 100U);
  EXPECT_EQ(p.call("fill_bytes", address, std::uint64_t{100}, std::uint8_t{5}), 100U);
  std::vector<unsigned char> got(100);
  ASSERT_EQ(read(p, got.data(), address, got.size()), 0);
  EXPECT_EQ(got.front(), 5);
  EXPECT_EQ(got.back(), 104);
}

TEST(memory, any_few_bytes_at_any_alignment) {
  process p;
  constexpr std::size_t space = 64;
  const std::uint64_t address = p.allocate(space);
  const std::vector<unsigned char> sent = content(space, 2);
  for (std::size_t size = 1; size <= 22; ++size) {
    for (std::size_t there = 8; there < 16; ++there) {
      const std::size_t here = (there * 3 + size) % 8;
      std::vector<unsigned char> expected(space, 0xEE);
      ASSERT_EQ(write(p, address, expected.data(), space), 0);
      ASSERT_EQ(write(p, address + there, sent.data() + here, size), 0);
      std::copy_n(sent.data() + here, size, expected.data() + there);
      // The bytes around stay unchanged, in the process and here.
      std::vector<unsigned char> got(space);
      ASSERT_EQ(read(p, got.data(), address, space), 0);
      ASSERT_EQ(got, expected) << size << " bytes at " << there;
      std::vector<unsigned char> part(space, 0xDD);
      ASSERT_EQ(read(p, part.data() + here, address + there, size), 0);
      std::vector<unsigned char> expected_part(space, 0xDD);
      std::copy_n(sent.data() + here, size, expected_part.data() + here);
      ASSERT_EQ(part, expected_part) << size << " bytes at " << there;
    }
  }
}

TEST(memory, no_bytes) {
  process p;
  const std::uint64_t address = p.allocate(8);
  p.write(address, std::uint64_t{5});
  std::uint64_t value = 6;
  EXPECT_EQ(write(p, address, &value, 0), 0);
  EXPECT_EQ(read(p, &value, address, 0), 0);
  EXPECT_EQ(value, 6U);
  EXPECT_EQ(p.read<std::uint64_t>(address), 5U);
}

TEST(memory, can_have_no_bytes) {
  process p;
  const bounded b("veo_alloc_mem");
  std::uint64_t address = 0;
  ASSERT_EQ(veo_alloc_mem(p.get(), &address, 0), 0);
  EXPECT_EQ(veo_free_mem(p.get(), address), 0);
  EXPECT_EQ(p.call("same", std::uint64_t{1}), 1U);
}

TEST(memory, of_libraries) {
  process p;
  const std::uint64_t table = p.symbol("table");
  std::int64_t squares[16];
  ASSERT_EQ(read(p, squares, table, sizeof squares), 0);
  for (std::int64_t i = 0; i < 16; ++i)
    EXPECT_EQ(squares[i], i * i);
  const std::int64_t numbers[2] = {-1, -2};
  ASSERT_EQ(write(p, table + 3 * 8, numbers, sizeof numbers), 0);
  // 9 and 16 are replaced: 1240 - 25 - 3.
  EXPECT_EQ(p.call("sum_words", table, std::uint64_t{16}), 1212U);
}

TEST(memory, can_be_a_running_kernels_stack) {
  process p;
  veo_thr_ctxt* const context = p.open();
  gate g(p);
  const std::uint64_t request = submit(context, p.symbol("show_stack_at"), g.address());
  const std::uint64_t variable = g.wait_for_kernel();
  EXPECT_EQ(p.read<std::uint64_t>(variable), 1234U);
  p.write(variable, std::uint64_t{5678});
  g.open();
  EXPECT_EQ(collect(context, request), ok(5678));
}

TEST(memory, large_and_not_aligned) {
  process p;
  constexpr std::size_t size = (64U << 20) + 3;
  const std::uint64_t address = p.allocate(size + 16);
  const std::vector<unsigned char> sent = content(size, 3);
  p.write(address + size + 1, std::uint64_t{0x0123456789ABCDEF});
  ASSERT_EQ(write(p, address + 1, sent.data(), size), 0);
  EXPECT_EQ(p.read<std::uint64_t>(address + size + 1), 0x0123456789ABCDEFU);
  std::uint64_t sum = 0;
  for (const unsigned char c : sent)
    sum += c;
  EXPECT_EQ(p.call("sum_bytes", address + 1, std::uint64_t{size}), sum);
  std::vector<unsigned char> got(size + 1, 0xEE);
  ASSERT_EQ(read(p, got.data(), address + 1, size), 0);
  EXPECT_EQ(got.back(), 0xEE);
  got.pop_back();
  EXPECT_TRUE(got == sent);
}

TEST(memory, many_pieces_do_not_overlap) {
  process p;
  std::map<std::uint64_t, std::size_t> pieces;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::size_t size = 1 + scrambled(i) % 3000;
    const auto [at, is_new] = pieces.emplace(p.allocate(size), size);
    ASSERT_TRUE(is_new);
  }
  std::uint64_t end = 0;
  for (const auto& [address, size] : pieces) {
    ASSERT_GE(address, end);
    end = address + size;
  }
  for (const auto& [address, size] : pieces)
    p.free(address);
}

TEST(memory, given_back_is_used_again) {
  process p;
  std::set<std::uint64_t> addresses;
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t address = p.allocate(1 << 20);
    addresses.insert(address);
    p.free(address);
  }
  EXPECT_LT(addresses.size(), 1000U);
}

TEST(memory, more_than_there_is) {
  process p;
  const bounded b("veo_alloc_mem");
  std::uint64_t address = 0;
  EXPECT_EQ(veo_alloc_mem(p.get(), &address, std::size_t{1} << 60), -1);
  EXPECT_NE(last_error(), "");
  EXPECT_EQ(veo_alloc_mem(p.get(), &address, ~std::size_t{0}), -1);
  p.free(p.allocate(100));
}

TEST(memory, freed_twice_or_never_allocated_does_no_harm) {
  process p;
  const std::uint64_t kept = p.allocate(64);
  p.write(kept, std::uint64_t{9});
  const std::uint64_t address = p.allocate(64);
  const bounded b("veo_free_mem");
  EXPECT_EQ(veo_free_mem(p.get(), address), 0);
  EXPECT_EQ(veo_free_mem(p.get(), address), 0);
  EXPECT_EQ(veo_free_mem(p.get(), kept + 8), 0);
  EXPECT_EQ(veo_free_mem(p.get(), p.symbol("variable")), 0);
  EXPECT_EQ(veo_free_mem(p.get(), 0), 0);
  EXPECT_EQ(p.read<std::uint64_t>(kept), 9U);
  EXPECT_EQ(p.call("same", std::uint64_t{1}), 1U);
  // Two allocations are different.
  EXPECT_NE(p.allocate(64), p.allocate(64));
}

TEST(memory, used_by_several_threads) {
  process p;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 100; ++i) {
        const std::vector<unsigned char> sent =
            content(1 + scrambled(t << 32 | i) % 20000, t << 16 | i);
        const std::uint64_t address = p.allocate(sent.size());
        p.write_bytes(address, sent.data(), sent.size());
        std::vector<unsigned char> got(sent.size());
        p.read_bytes(got.data(), address, got.size());
        if (got != sent) ++wrong;
        p.free(address);
      }
    });
  }
  for (std::thread& t : threads)
    t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(memory, copied_while_kernels_are_called) {
  process p;
  const std::uint64_t add = p.symbol("add");
  const std::uint64_t address = p.allocate(1 << 20);
  std::atomic<bool> done{false};
  std::thread copies([&] {
    for (std::uint64_t i = 0; i < 50; ++i) {
      const std::vector<unsigned char> sent = content(1 << 20, i);
      p.write_bytes(address, sent.data(), sent.size());
      std::vector<unsigned char> got(sent.size());
      p.read_bytes(got.data(), address, got.size());
      EXPECT_TRUE(got == sent);
    }
    done = true;
  });
  std::int64_t n = 0;
  for (; !done || n < 1000; ++n) {
    const arguments a(n, std::int64_t{1});
    EXPECT_EQ(p.call_with(add, a), word(n + 1));
  }
  copies.join();
}

} // namespace
} // namespace veo_test
