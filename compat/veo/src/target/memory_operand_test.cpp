// SPDX-License-Identifier: Apache-2.0
#include "memory_operand.hpp"

#include <array>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace farcall::veo::memory_operand_test {
namespace {

std::optional<memory_operand> of(const std::vector<unsigned char>& bytes) {
  return memory_operand_of(bytes.data());
}

constexpr int none = memory_operand::no_register;
enum : int { rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15 };

// Bytes are the assembled instructions in the comments beside them.
TEST(memory_operand, has_one_register) {
  EXPECT_EQ(of({0x48, 0x8B, 0x07}), (memory_operand{rdi, none, 0, 0}));         // mov (%rdi),%rax
  EXPECT_EQ(of({0x8B, 0x41, 0xF8}), (memory_operand{rcx, none, 0, -8}));        // mov -8(%rcx),%eax
  EXPECT_EQ(of({0x49, 0x8B, 0x45, 0x00}), (memory_operand{r13, none, 0, 0}));   // mov (%r13),%rax
  EXPECT_EQ(of({0x88, 0x93, 0, 1, 0, 0}), (memory_operand{rbx, none, 0, 256})); // mov %dl,256(%rbx)
  EXPECT_EQ(of({0x48, 0x8B, 0x04, 0x24}), (memory_operand{rsp, none, 0, 0}));   // mov (%rsp),%rax
  EXPECT_EQ(of({0x49, 0x8B, 0x04, 0x24}), (memory_operand{r12, none, 0, 0}));   // mov (%r12),%rax
  EXPECT_EQ(of({0xFF, 0x10}), (memory_operand{rax, none, 0, 0}));               // call *(%rax)
  EXPECT_EQ(of({0xF0, 0x48, 0x01, 0x06}),
            (memory_operand{rsi, none, 0, 0})); // lock add %rax,(%rsi)
}

TEST(memory_operand, has_two_registers) {
  EXPECT_EQ(of({0x48, 0x89, 0x14, 0xD7}),
            (memory_operand{rdi, rdx, 3, 0})); // mov %rdx,(%rdi,%rdx,8)
  EXPECT_EQ(of({0x43, 0x8B, 0x44, 0xBE, 0x10}),
            (memory_operand{r14, r15, 2, 16})); // mov 16(%r14,%r15,4),%eax
  EXPECT_EQ(of({0x42, 0x8B, 0x04, 0x20}), (memory_operand{rax, r12, 0, 0})); // mov (%rax,%r12),%eax
}

TEST(memory_operand, may_be_an_index_alone) {
  // mov 8(,%rcx,8),%rax
  EXPECT_EQ(of({0x48, 0x8B, 0x04, 0xCD, 8, 0, 0, 0}), (memory_operand{none, rcx, 3, 8}));
}

TEST(memory_operand, is_found_in_vector_instructions) {
  EXPECT_EQ(of({0x66, 0x0F, 0x10, 0x00}), (memory_operand{rax, none, 0, 0})); // movupd (%rax),%xmm0
  EXPECT_EQ(of({0xF2, 0x41, 0x0F, 0x58, 0x04, 0xC0}),
            (memory_operand{r8, rax, 3, 0})); // addsd (%r8,%rax,8),%xmm0
  EXPECT_EQ(of({0x66, 0x0F, 0x38, 0x17, 0x02}),
            (memory_operand{rdx, none, 0, 0})); // ptest (%rdx),%xmm0
  EXPECT_EQ(of({0x66, 0x0F, 0x3A, 0x0F, 0x02, 4}),
            (memory_operand{rdx, none, 0, 0})); // palignr $4,(%rdx),%xmm0
  EXPECT_EQ(of({0xC5, 0xFC, 0x10, 0x04, 0x0E}),
            (memory_operand{rsi, rcx, 0, 0})); // vmovups (%rsi,%rcx),%ymm0
  EXPECT_EQ(of({0xC4, 0xC1, 0x7C, 0x10, 0x41, 0x20}),
            (memory_operand{r9, none, 0, 32})); // vmovups 32(%r9),%ymm0
  EXPECT_EQ(of({0xC4, 0xA1, 0x7C, 0x10, 0x04, 0x00}),
            (memory_operand{rax, r8, 0, 0})); // vmovups (%rax,%r8),%ymm0
  EXPECT_EQ(of({0x62, 0xB1, 0x7C, 0x48, 0x10, 0x04, 0x00}),
            (memory_operand{rax, r8, 0, 0})); // vmovups (%rax,%r8),%zmm0
  EXPECT_EQ(of({0x62, 0xD1, 0x7C, 0x48, 0x10, 0x00}),
            (memory_operand{r8, none, 0, 0})); // vmovups (%r8),%zmm0
  // AVX-512 encodes a displacement of one byte in units of the operand: 1 stands for 64.
  EXPECT_EQ(of({0x62, 0xF1, 0x7C, 0x48, 0x10, 0x40, 0x01}),
            (memory_operand{rax, none, 0, 64})); // vmovups 64(%rax),%zmm0
}

// The indices are in a vector register, which the handler does not change.
TEST(memory_operand, is_the_base_of_a_gather) {
  // vgatherqpd %ymm2,(%rax,%ymm1,8),%ymm0
  EXPECT_EQ(of({0xC4, 0xE2, 0xED, 0x93, 0x04, 0xC8}), (memory_operand{rax, none, 0, 0}));
}

TEST(memory_operand, is_not_in_instructions_without_one) {
  EXPECT_EQ(of({0x48, 0x89, 0xC8}), std::nullopt);              // mov %rcx,%rax
  EXPECT_EQ(of({0xC3}), std::nullopt);                          // ret
  EXPECT_EQ(of({0xF3, 0xA4}), std::nullopt);                    // rep movsb
  EXPECT_EQ(of({0x48, 0x8B, 0x05, 1, 0, 0, 0}), std::nullopt);  // mov 1(%rip),%rax
  EXPECT_EQ(of({0x64, 0x48, 0x8B, 0x00}), std::nullopt);        // mov %fs:(%rax),%rax
  EXPECT_EQ(of({0x8B, 0x04, 0x25, 16, 0, 0, 0}), std::nullopt); // mov 16,%eax
  EXPECT_EQ(of({0x0F, 0x84, 16, 0, 0, 0}), std::nullopt);       // je
  EXPECT_EQ(of({0x50}), std::nullopt);                          // push %rax
}

} // namespace
} // namespace farcall::veo::memory_operand_test
