// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace veo_test {
namespace {

class async_memory : public ::testing::Test {
 protected:
  process& proc() { return process_; }
  veo_thr_ctxt* context() { return context_; }
  outcome write(std::uint64_t to, const void* from, std::size_t size) {
    return collect(context_, veo_async_write_mem(context_, to, from, size));
  }
  outcome read(void* to, std::uint64_t from, std::size_t size) {
    return collect(context_, veo_async_read_mem(context_, to, from, size));
  }

 private:
  process process_;
  veo_thr_ctxt* context_ = process_.open();
};

TEST_F(async_memory, is_written_and_read) {
  const std::vector<unsigned char> sent = content(1000, 1);
  const std::uint64_t address = proc().allocate(1000);
  EXPECT_EQ(write(address, sent.data(), 1000), ok(0));
  std::vector<unsigned char> got(1000);
  EXPECT_EQ(read(got.data(), address, 1000), ok(0));
  EXPECT_EQ(got, sent);
}

TEST_F(async_memory, any_few_bytes_at_any_alignment) {
  const std::uint64_t address = proc().allocate(64);
  for (std::size_t size = 1; size <= 22; ++size) {
    for (std::size_t at = 0; at < 8; ++at) {
      const std::vector<unsigned char> sent = content(size + 2, size << 8 | at);
      ASSERT_EQ(write(address + at, sent.data() + 1, size), ok(0));
      std::vector<unsigned char> got(size + 2, 0xEE);
      ASSERT_EQ(read(got.data() + 1, address + at, size), ok(0));
      std::vector<unsigned char> expected = sent;
      expected.front() = expected.back() = 0xEE;
      ASSERT_EQ(got, expected) << size << " bytes at " << at;
    }
  }
}

TEST_F(async_memory, no_bytes) {
  std::uint64_t word = 5;
  const std::uint64_t address = proc().symbol("variable");
  EXPECT_EQ(write(address, &word, 0), ok(0));
  EXPECT_EQ(read(&word, address, 0), ok(0));
  EXPECT_EQ(word, 5U);
  EXPECT_EQ(proc().read<std::uint64_t>(address), 42U);
}

TEST_F(async_memory, can_copy_five_unaligned_bytes_of_libraries) {
  const std::uint64_t address = proc().symbol("bytes") + 3;
  const unsigned char five[] = {1, 2, 3, 4, 5};
  EXPECT_EQ(write(address, five, 5), ok(0));
  EXPECT_EQ(proc().call("sum_bytes", proc().symbol("bytes"), std::uint64_t{256}), 15U);
  EXPECT_EQ(proc().read<unsigned char>(address + 4), 5);
}

TEST_F(async_memory, large_and_not_aligned) {
  constexpr std::size_t size = (std::size_t{100} << 20) + 7;
  const std::uint64_t address = proc().allocate(size + 8);
  const std::vector<unsigned char> sent = content(size, 6);
  const std::uint64_t written = veo_async_write_mem(context(), address + 3, sent.data(), size);
  std::vector<unsigned char> got(size + 1, 0xEE);
  const std::uint64_t read = veo_async_read_mem(context(), got.data(), address + 3, size);
  EXPECT_EQ(collect(context(), written), ok(0));
  EXPECT_EQ(collect(context(), read), ok(0));
  EXPECT_EQ(got.back(), 0xEE);
  got.pop_back();
  EXPECT_TRUE(got == sent);
}

TEST_F(async_memory, many_copies_outstanding) {
  constexpr std::size_t count = 5000;
  std::vector<std::uint64_t> sent(count);
  std::vector<std::uint64_t> got(count);
  const std::uint64_t address = proc().allocate(8 * count);
  std::vector<std::uint64_t> requests;
  for (std::size_t i = 0; i < count; ++i) {
    sent[i] = scrambled(i);
    requests.push_back(veo_async_write_mem(context(), address + 8 * i, &sent[i], 8));
    requests.push_back(veo_async_read_mem(context(), &got[i], address + 8 * i, 8));
  }
  for (const std::uint64_t r : requests)
    ASSERT_EQ(collect(context(), r), ok(0));
  EXPECT_EQ(got, sent);
}

TEST_F(async_memory, large_copies_of_two_contexts) {
  veo_thr_ctxt* const other = proc().open();
  constexpr std::size_t size = std::size_t{20} << 20;
  const std::vector<unsigned char> a = content(size, 1);
  const std::vector<unsigned char> b = content(size, 2);
  const std::uint64_t at_a = proc().allocate(size);
  const std::uint64_t at_b = proc().allocate(size);
  std::vector<unsigned char> got_a(size);
  std::vector<unsigned char> got_b(size);
  std::vector<std::uint64_t> requests;
  for (int i = 0; i < 3; ++i) {
    ASSERT_NE(veo_async_write_mem(context(), at_a, a.data(), size), VEO_REQUEST_ID_INVALID);
    ASSERT_NE(veo_async_write_mem(other, at_b, b.data(), size), VEO_REQUEST_ID_INVALID);
  }
  const std::uint64_t last_a = veo_async_read_mem(context(), got_a.data(), at_a, size);
  const std::uint64_t last_b = veo_async_read_mem(other, got_b.data(), at_b, size);
  EXPECT_EQ(collect(other, last_b), ok(0));
  EXPECT_EQ(collect(context(), last_a), ok(0));
  EXPECT_TRUE(got_a == a);
  EXPECT_TRUE(got_b == b);
}

TEST_F(async_memory, is_written_though_nobody_waits) {
  constexpr std::size_t size = std::size_t{20} << 20;
  const std::uint64_t address = proc().allocate(size);
  proc().write(address + size - 8, std::uint64_t{0});
  const std::vector<std::uint64_t> sent(size / 8, 9);
  ASSERT_NE(veo_async_write_mem(context(), address, sent.data(), size), VEO_REQUEST_ID_INVALID);
  EXPECT_TRUE(eventually([&] { return proc().read<std::uint64_t>(address + size - 8) == 9; }));
  veo_context_sync(context());
}

TEST_F(async_memory, large_writes_do_not_keep_the_caller) {
  // The caller opens the gate, and can do so only if submitting does not block.
  gate g(proc());
  const std::uint64_t waiting = submit(context(), proc().symbol("wait_at"), g.address());
  constexpr std::size_t size = std::size_t{64} << 20;
  const std::uint64_t address = proc().allocate(size);
  const std::vector<unsigned char> sent = content(size, 8);
  std::vector<unsigned char> got(size);
  std::uint64_t written = 0;
  std::uint64_t read = 0;
  {
    const bounded b("veo_async_write_mem behind a kernel that waits");
    written = veo_async_write_mem(context(), address, sent.data(), size);
    read = veo_async_read_mem(context(), got.data(), address, size);
  }
  EXPECT_EQ(peek(context(), written).state, VEO_COMMAND_UNFINISHED);
  g.open();
  EXPECT_EQ(collect(context(), waiting), ok(1));
  EXPECT_EQ(collect(context(), read), ok(0));
  EXPECT_EQ(collect(context(), written), ok(0));
  EXPECT_TRUE(got == sent);
}

// --- allocating ----------------------------------------------------------------------------------

TEST_F(async_memory, is_allocated_and_freed) {
  const outcome o = collect(context(), veo_alloc_mem_async(context(), 1000));
  ASSERT_EQ(o.state, VEO_COMMAND_OK);
  ASSERT_NE(o.value, 0U);
  EXPECT_EQ(o.value % 16, 0U);
  const std::vector<unsigned char> sent = content(1000, 1);
  EXPECT_EQ(write(o.value, sent.data(), 1000), ok(0));
  std::vector<unsigned char> got(1000);
  EXPECT_EQ(read(got.data(), o.value, 1000), ok(0));
  EXPECT_EQ(got, sent);
  EXPECT_EQ(collect(context(), veo_free_mem_async(context(), o.value)), ok(0));
}

TEST_F(async_memory, allocated_in_one_way_is_freed_in_the_other) {
  const outcome o = collect(context(), veo_alloc_mem_async(context(), 1000));
  ASSERT_EQ(o.state, VEO_COMMAND_OK);
  proc().free(o.value);
  const std::uint64_t address = proc().allocate(1000);
  EXPECT_EQ(collect(context(), veo_free_mem_async(context(), address)), ok(0));
  // Both blocks were freed once: after a double free, two allocations would get the same block.
  EXPECT_NE(proc().allocate(1000), proc().allocate(1000));
}

TEST_F(async_memory, more_than_there_is) {
  EXPECT_EQ(collect(context(), veo_alloc_mem_async(context(), std::size_t{1} << 60)), ok(0));
  const outcome o = collect(context(), veo_alloc_mem_async(context(), 1000));
  ASSERT_EQ(o.state, VEO_COMMAND_OK);
  EXPECT_NE(o.value, 0U);
}

TEST_F(async_memory, many_allocations_outstanding) {
  std::vector<std::uint64_t> requests;
  for (int i = 0; i < 500; ++i)
    requests.push_back(veo_alloc_mem_async(context(), 1000));
  std::vector<std::uint64_t> frees;
  std::uint64_t last = 0;
  for (const std::uint64_t r : requests) {
    const outcome o = collect(context(), r);
    ASSERT_EQ(o.state, VEO_COMMAND_OK);
    ASSERT_NE(o.value, 0U);
    ASSERT_NE(o.value, last);
    last = o.value;
    frees.push_back(veo_free_mem_async(context(), o.value));
  }
  for (const std::uint64_t r : frees)
    ASSERT_EQ(collect(context(), r), ok(0));
}

TEST_F(async_memory, is_freed_after_the_kernel_that_uses_it) {
  const std::uint64_t address = proc().allocate(4096);
  const std::uint64_t stored =
      submit(context(), proc().symbol("store_late"), address, std::uint64_t{5});
  const std::uint64_t freed = veo_free_mem_async(context(), address);
  EXPECT_EQ(collect(context(), freed), ok(0));
  EXPECT_EQ(collect(context(), stored), ok(5));
}

} // namespace
} // namespace veo_test
