// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <memory>
#include <vector>

namespace veo_test {
namespace {

std::uintptr_t number(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }
void* pointer(std::uintptr_t n) { return reinterpret_cast<void*>(n); }

/// Memory of veo_alloc_hmem(), of a process or of this program.
class tagged_memory {
 public:
  tagged_memory(veo_proc_handle* proc, std::size_t size) {
    const bounded b("veo_alloc_hmem");
    EXPECT_EQ(veo_alloc_hmem(proc, &address_, size), 0) << last_error();
  }
  tagged_memory(const tagged_memory&) = delete;
  tagged_memory& operator=(const tagged_memory&) = delete;
  ~tagged_memory() {
    const bounded b("veo_free_hmem");
    EXPECT_EQ(veo_free_hmem(address_), 0) << last_error();
  }
  [[nodiscard]] void* at(std::size_t offset = 0) const {
    return pointer(number(address_) + offset);
  }

 private:
  void* address_ = nullptr;
};

int copy(void* to, const void* from, std::size_t size) {
  const bounded b("veo_hmemcpy");
  return veo_hmemcpy(to, from, size);
}

using words = std::vector<std::uint64_t>;

// --- tags ----------------------------------------------------------------------------------------

TEST(hmem_tag, is_bit_63_and_the_identifier_below_it) {
  EXPECT_EQ(veo_set_proc_identifier(pointer(0x1000), 0), pointer(0x8000000000001000));
  EXPECT_EQ(veo_set_proc_identifier(pointer(0x1000), 1), pointer(0x8800000000001000));
  EXPECT_EQ(veo_set_proc_identifier(pointer(0x1000), 15), pointer(0xF800000000001000));
  EXPECT_EQ(veo_set_proc_identifier(pointer(0x1000), 16), nullptr);
  EXPECT_EQ(veo_set_proc_identifier(pointer(0x1000), -1), nullptr);
}

TEST(hmem_tag, is_taken_away) {
  EXPECT_EQ(veo_get_hmem_addr(pointer(0x8000000000001000)), pointer(0x1000));
  EXPECT_EQ(veo_get_hmem_addr(pointer(0xF800000000001000)), pointer(0x1000));
  EXPECT_EQ(veo_get_hmem_addr(pointer(0xFFFFFFFFFFFFFFFF)), pointer(0x07FFFFFFFFFFFFFF));
  // Without bit 63, bits 62 to 59 are part of the address.
  EXPECT_EQ(veo_get_hmem_addr(pointer(0x7800000000001000)), pointer(0x7800000000001000));
  EXPECT_EQ(veo_get_hmem_addr(pointer(0x1000)), pointer(0x1000));
  EXPECT_EQ(veo_get_hmem_addr(nullptr), nullptr);
}

TEST(hmem_tag, is_recognised) {
  EXPECT_EQ(veo_is_ve_addr(pointer(0x8000000000000000)), 1);
  EXPECT_EQ(veo_is_ve_addr(pointer(0x7FFFFFFFFFFFFFFF)), 0);
  EXPECT_EQ(veo_is_ve_addr(nullptr), 0);
  EXPECT_EQ(veo_get_proc_identifier_from_hmem(pointer(0x8000000000001000)), 0);
  EXPECT_EQ(veo_get_proc_identifier_from_hmem(pointer(0x9800000000001000)), 3);
  EXPECT_EQ(veo_get_proc_identifier_from_hmem(pointer(0xF800000000001000)), 15);
  EXPECT_EQ(veo_get_proc_identifier_from_hmem(pointer(0x7800000000001000)), -1);
  EXPECT_EQ(veo_get_max_proc_identifier(), 16);
}

TEST(hmem_tag, tells_the_process) {
  process a(0);
  process b(1);
  const tagged_memory in_a(a.get(), 64);
  const tagged_memory in_b(b.get(), 64);
  EXPECT_EQ(veo_get_proc_identifier_from_hmem(in_a.at()), veo_proc_identifier(a.get()));
  EXPECT_EQ(veo_get_proc_identifier_from_hmem(in_b.at()), veo_proc_identifier(b.get()));
  EXPECT_EQ(veo_get_proc_handle_from_hmem(in_a.at(10)), a.get());
  EXPECT_EQ(veo_get_proc_handle_from_hmem(in_b.at(20)), b.get());
  EXPECT_EQ(veo_get_venum_from_hmem(in_a.at()), 0);
  EXPECT_EQ(veo_get_venum_from_hmem(in_b.at()), 1);
  EXPECT_EQ(static_cast<std::uint64_t>(veo_get_pid_from_hmem(in_a.at())), a.call("process_id"));
  EXPECT_EQ(static_cast<std::uint64_t>(veo_get_pid_from_hmem(in_b.at())), b.call("process_id"));
}

TEST(hmem_tag, has_only_valid_processes) {
  const process p;
  int here = 0;
  EXPECT_EQ(veo_get_proc_handle_from_hmem(&here), nullptr);
  EXPECT_EQ(veo_get_pid_from_hmem(&here), -1);
  EXPECT_EQ(veo_get_venum_from_hmem(&here), -1);
  // No process has identifier 15.
  void* const other = veo_set_proc_identifier(pointer(0x1000), 15);
  EXPECT_EQ(veo_get_proc_handle_from_hmem(other), nullptr);
  EXPECT_EQ(veo_get_pid_from_hmem(other), -1);
  EXPECT_EQ(veo_get_venum_from_hmem(other), -1);
}

// --- memory and copies ---------------------------------------------------------------------------

TEST(hmem, can_be_allocated_in_a_process) {
  process p;
  const tagged_memory memory(p.get(), 80);
  EXPECT_EQ(veo_is_ve_addr(memory.at()), 1);
  const std::uint64_t address = number(veo_get_hmem_addr(memory.at()));
  p.write(address, std::uint64_t{5});
  std::uint64_t got = 0;
  EXPECT_EQ(copy(&got, memory.at(), 8), 0);
  EXPECT_EQ(got, 5U);
}

TEST(hmem, without_a_process_is_allocated_here) {
  const tagged_memory memory(nullptr, 80);
  EXPECT_EQ(veo_is_ve_addr(memory.at()), 0);
  EXPECT_EQ(veo_get_hmem_addr(memory.at()), memory.at());
  *static_cast<std::uint64_t*>(memory.at()) = 6;
  std::uint64_t got = 0;
  EXPECT_EQ(copy(&got, memory.at(), 8), 0);
  EXPECT_EQ(got, 6U);
}

TEST(hmem, is_copied_in_all_directions) {
  process p;
  for (const std::size_t size : {std::size_t{1}, std::size_t{1001}, (std::size_t{5} << 20) + 3}) {
    const tagged_memory a(p.get(), size + 16);
    const tagged_memory b(p.get(), size + 16);
    const tagged_memory here(nullptr, size);
    const std::vector<unsigned char> sent = content(size, size);
    std::vector<unsigned char> got(size);
    ASSERT_EQ(copy(here.at(), sent.data(), size), 0); // here to here
    ASSERT_EQ(copy(a.at(3), here.at(), size), 0);     // here to there
    ASSERT_EQ(copy(b.at(5), a.at(3), size), 0);       // there to there
    ASSERT_EQ(copy(got.data(), b.at(5), size), 0);    // there to here
    EXPECT_TRUE(got == sent) << size;
  }
}

TEST(hmem, is_not_copied_between_two_processes) {
  process a;
  process b;
  const tagged_memory in_a(a.get(), 64);
  const tagged_memory in_b(b.get(), 64);
  EXPECT_EQ(copy(in_a.at(), in_b.at(), 64), -1);
  EXPECT_NE(last_error(), "");
}

TEST(hmem, needs_a_process_that_exists) {
  auto p = std::make_unique<process>();
  void* memory = nullptr;
  ASSERT_EQ(veo_alloc_hmem(p->get(), &memory, 64), 0);
  p.reset();
  std::uint64_t word = 0;
  EXPECT_EQ(veo_get_proc_handle_from_hmem(memory), nullptr);
  EXPECT_EQ(copy(memory, &word, 8), -1);
  EXPECT_EQ(copy(&word, memory, 8), -1);
  EXPECT_EQ(copy(memory, memory, 8), -1);
  EXPECT_EQ(veo_free_hmem(memory), -1);
}

TEST(hmem, copies_of_no_bytes_do_nothing) {
  process p;
  const tagged_memory memory(p.get(), 8);
  std::uint64_t word = 1;
  EXPECT_EQ(copy(memory.at(), &word, 0), 0);
  EXPECT_EQ(copy(&word, memory.at(), 0), 0);
  EXPECT_EQ(copy(memory.at(), memory.at(), 0), 0);
  EXPECT_EQ(word, 1U);
}

TEST(hmem, more_than_there_is) {
  process p;
  void* memory = nullptr;
  const bounded b("veo_alloc_hmem");
  EXPECT_EQ(veo_alloc_hmem(p.get(), &memory, std::size_t{1} << 60), -1);
  // Sanitizers end a program that allocates so much.
  if (under_sanitizer) return;
  EXPECT_EQ(veo_alloc_hmem(nullptr, &memory, std::size_t{1} << 60), -1);
}

// --- kernels -------------------------------------------------------------------------------------

TEST(hmem_kernel, gets_the_tag) {
  process a;
  process b;
  const tagged_memory memory(b.get(), 64);
  const outcome tag = call(b.main(), b.symbol("get_tag", "hmem"), tagged{memory.at()});
  EXPECT_EQ(tag, ok(16 + static_cast<unsigned>(veo_proc_identifier(b.get()))));
  EXPECT_EQ(call(b.main(), b.symbol("is_tagged", "hmem"), tagged{memory.at()}), ok(1));
  EXPECT_EQ(call(b.main(), b.symbol("is_tagged", "hmem"), std::uint64_t{4096}), ok(0));
  EXPECT_EQ(call(b.main(), b.symbol("identifier", "hmem"), tagged{memory.at()}),
            ok(static_cast<unsigned>(veo_proc_identifier(b.get()))));
  EXPECT_EQ(call(b.main(), b.symbol("identifier", "hmem"), std::uint64_t{4096}), ok(word(-1)));
  EXPECT_EQ(call(b.main(), b.symbol("max_identifiers", "hmem")), ok(16));
}

TEST(hmem_kernel, takes_the_tag_away) {
  process p;
  const words numbers{1, 2, 3, 4, 5};
  const tagged_memory memory(p.get(), 40);
  ASSERT_EQ(copy(memory.at(), numbers.data(), 40), 0);
  EXPECT_EQ(
      call(p.main(), p.symbol("sum_without_tag", "hmem"), tagged{memory.at()}, std::uint64_t{5}),
      ok(15));
}

TEST(hmem_kernel, may_forget_the_tag) {
  process first;
  process p(1); // with an identifier other than 0
  const std::uint64_t sum = p.symbol("sum_with_tag", "hmem");
  const std::uint64_t fill = p.symbol("fill_with_tag", "hmem");
  const tagged_memory memory(p.get(), 8000);
  for (veo_thr_ctxt* const context : {p.main(), p.open()}) {
    for (std::uint64_t round = 0; round < 10; ++round) {
      ASSERT_EQ(call(context, fill, tagged{memory.at()}, std::uint64_t{1000}, round), ok(1000));
      words got(1000);
      ASSERT_EQ(copy(got.data(), memory.at(), 8000), 0);
      for (std::uint64_t i = 0; i < 1000; ++i)
        ASSERT_EQ(got[i], round + i);
      ASSERT_EQ(call(context, sum, tagged{memory.at()}, std::uint64_t{1000}),
                ok(999 * 1000 / 2 + 1000 * round));
    }
  }
}

TEST(hmem_kernel, may_forget_the_tags_of_many_pointers) {
  process p;
  constexpr std::size_t n = 1000;
  const std::vector<double> a(n, 1.5);
  const std::vector<float> b(n, 2.0F);
  const std::vector<std::uint8_t> c(n, 7);
  const tagged_memory ta(p.get(), n * 8);
  const tagged_memory tb(p.get(), n * 4);
  const tagged_memory tc(p.get(), n);
  const tagged_memory td(p.get(), n * 4);
  ASSERT_EQ(copy(ta.at(), a.data(), n * 8), 0);
  ASSERT_EQ(copy(tb.at(), b.data(), n * 4), 0);
  ASSERT_EQ(copy(tc.at(), c.data(), n), 0);
  // 1.5 * 2 + 7, a thousand times.
  EXPECT_EQ(call(p.main(), p.symbol("mix_with_tags", "hmem"), tagged{ta.at()}, tagged{tb.at()},
                 tagged{tc.at()}, tagged{td.at()}, std::uint64_t{n}),
            ok(bits_of(10000.0)));
  std::vector<std::int32_t> d(n);
  ASSERT_EQ(copy(d.data(), td.at(), n * 4), 0);
  EXPECT_EQ(d.front(), 10);
  EXPECT_EQ(d.back(), 10000);
}

TEST(hmem_kernel, with_an_address_that_is_none_still_fails) {
  process p;
  void* const nowhere = veo_set_proc_identifier(pointer(0x10), 0);
  EXPECT_EQ(call(p.main(), p.symbol("sum_with_tag", "hmem"), tagged{nowhere}, std::uint64_t{1}),
            exception(SIGSEGV));
}

} // namespace
} // namespace veo_test
