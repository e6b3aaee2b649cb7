// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <veo_dev_mem.h>
#include <veo_vedma.h>
#include <veo_veshm.h>
#include <veo_vhveshm.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <vector>

#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace veo_test {
namespace {

// Functions for the card's DMA engine and shared memory.

// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): GoogleTest ends it by its base
class dma : public ::testing::Test {
 protected:
  dma() {
    EXPECT_EQ(veo_alloc_hmem(process_.get(), &source_, size), 0);
    EXPECT_EQ(veo_alloc_hmem(process_.get(), &target_, size), 0);
    sent_ = content(size, 1);
    EXPECT_EQ(veo_hmemcpy(source_, sent_.data(), size), 0);
  }
  ~dma() override {
    EXPECT_EQ(veo_free_hmem(source_), 0);
    EXPECT_EQ(veo_free_hmem(target_), 0);
  }

  static constexpr std::size_t size = 4096;
  veo_proc_handle* proc() { return process_.get(); }
  void* source() { return source_; }
  void* target() { return target_; }

  void expect_copied() {
    std::vector<unsigned char> got(size);
    EXPECT_EQ(veo_hmemcpy(got.data(), target_, size), 0);
    EXPECT_EQ(got, sent_);
  }

 private:
  process process_;
  void* source_ = nullptr;
  void* target_ = nullptr;
  std::vector<unsigned char> sent_;
};

constexpr std::uint64_t none = ~std::uint64_t{0};

TEST_F(dma, copies) {
  const bounded b("DMA");
  const std::uint64_t from = veo_register_mem_to_dmaatb(source(), size);
  const std::uint64_t to = veo_register_mem_to_dmaatb(target(), size);
  ASSERT_NE(from, none);
  ASSERT_NE(to, none);
  ASSERT_EQ(veo_dma_post_wait(proc(), to, from, size), 0);
  expect_copied();

  const std::vector<unsigned char> zeros(size, 0);
  ASSERT_EQ(veo_hmemcpy(target(), zeros.data(), size), 0);
  ve_dma_handle_t handle = {};
  ASSERT_EQ(veo_dma_post(proc(), to, from, size, &handle), 0);
  EXPECT_TRUE(eventually([&] {
    const int state = veo_dma_poll(proc(), &handle);
    EXPECT_THAT(state, ::testing::AnyOf(0, -EAGAIN));
    return state == 0;
  }));
  expect_copied();
  EXPECT_EQ(veo_unregister_mem_from_dmaatb(proc(), from), 0);
  EXPECT_EQ(veo_unregister_mem_from_dmaatb(proc(), to), 0);
}

TEST_F(dma, needs_no_alignment) {
  const bounded b("DMA");
  auto* const odd = static_cast<unsigned char*>(source()) + 1;
  const std::uint64_t from = veo_register_mem_to_dmaatb_unalign(odd, 77);
  const std::uint64_t to = veo_register_mem_to_dmaatb_unalign(target(), size);
  ASSERT_NE(from, none);
  ASSERT_EQ(veo_dma_post_wait(proc(), to + 3, from, 77), 0);
  std::vector<unsigned char> got(77);
  EXPECT_EQ(veo_hmemcpy(got.data(), static_cast<unsigned char*>(target()) + 3, 77), 0);
  std::vector<unsigned char> sent(77);
  EXPECT_EQ(veo_hmemcpy(sent.data(), odd, 77), 0);
  EXPECT_EQ(got, sent);
  EXPECT_EQ(veo_unregister_mem_from_dmaatb_unalign(proc(), from), 0);
  EXPECT_EQ(veo_register_mem_to_dmaatb_unalign(nullptr, 8), none);
}

TEST_F(dma, does_not_reach_gpus_and_says_so) {
  const bounded b("DMA");
  std::uint64_t registered = 0;
  EXPECT_EQ(veo_register_gpu_mem(proc(), 4096, 4096, &registered), -ENOTSUP);
  EXPECT_THAT(last_error(), ::testing::HasSubstr("veo_register_gpu_mem"));
  EXPECT_EQ(veo_attach_dev_mem(proc(), 1), -ENOTSUP);
  EXPECT_EQ(veo_detach_dev_mem(proc(), 4096), -ENOTSUP);
  EXPECT_EQ(veo_unregister_gpu_mem(proc(), 1), -ENOTSUP);
  EXPECT_EQ(veo_attach_dev_mem(nullptr, 1), -EINVAL);
}

TEST_F(dma, fails_for_unmapped_memory) {
  const bounded b("DMA");
  constexpr int missing_page = 0x4000;
  const auto to = reinterpret_cast<std::uintptr_t>(veo_get_hmem_addr(target()));
  EXPECT_EQ(veo_dma_post_wait(proc(), to, 8, 4), missing_page);
  ve_dma_handle_t handle = {};
  ASSERT_EQ(veo_dma_post(proc(), to, 8, 4, &handle), 0);
  EXPECT_EQ(veo_dma_poll(proc(), &handle), missing_page);
  EXPECT_EQ(veo_dma_post_wait(proc(), to, to + 64, 64), 0);
}

TEST_F(dma, refuses_invalid_arguments) {
  const bounded b("DMA");
  EXPECT_EQ(veo_dma_post(proc(), 0, 0, 4, nullptr), -EFAULT);
  EXPECT_EQ(veo_dma_poll(proc(), nullptr), -EFAULT);
  EXPECT_EQ(veo_dma_post_wait(proc(), 0, 0, -1), -EINVAL);
  EXPECT_EQ(veo_dma_post_wait(nullptr, 0, 0, 4), -EINVAL);
  int mine = 0;
  errno = 0;
  EXPECT_EQ(veo_register_mem_to_dmaatb(&mine, sizeof mine), none);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(veo_register_mem_to_dmaatb(source(), 0), none);
  EXPECT_EQ(veo_unregister_mem_from_dmaatb(proc(), none), -1);
}

TEST(dma_of, a_process_that_has_ended_is_busy) {
  process p;
  const std::uint64_t address = p.allocate(64);
  EXPECT_EQ(call(p.main(), p.symbol("write_nowhere")), exception(SIGSEGV));
  const bounded b("DMA of a process that has ended");
  EXPECT_EQ(veo_dma_post_wait(p.get(), address, address + 32, 32), -EBUSY);
  errno = 0;
  EXPECT_EQ(veo_shmget(p.get(), 1, 4096, 0), -1);
  EXPECT_EQ(errno, EBUSY);
}

TEST_F(dma, has_no_writes_of_devices_to_wait_for) {
  const bounded b("veo_access_pcircvsyc_register");
  veo_access_pcircvsyc_register(proc());
  std::uint64_t word = 0;
  EXPECT_EQ(veo_hmemcpy(&word, source(), 8), 0);
}

TEST(shared_memory, between_processes_is_not_supported) {
  process p;
  void* memory = nullptr;
  ASSERT_EQ(veo_alloc_hmem(p.get(), &memory, 4096), 0);
  const pid_t pid = veo_get_pid_from_hmem(memory);
  errno = 0;
  EXPECT_EQ(veo_shared_mem_open(memory, 4096, 0, VE_REGISTER_VEMVA), -1);
  EXPECT_EQ(errno, ENOTSUP);
  errno = 0;
  EXPECT_EQ(veo_shared_mem_attach(p.get(), pid, memory, 4096, 0, VE_REGISTER_VEMVA),
            reinterpret_cast<void*>(-1));
  EXPECT_EQ(errno, ENOTSUP);
  EXPECT_NE(last_error(), "");
  EXPECT_EQ(veo_shared_mem_detach(p.get(), memory, VE_REGISTER_VEMVA), -1);
  EXPECT_EQ(veo_shared_mem_close(memory, 4096, 0, VE_REGISTER_VEMVA), -1);
  EXPECT_EQ(veo_free_hmem(memory), 0);
}

/// A System V segment of this program, which the destructor removes.
class segment {
 public:
  segment() : key_(::getpid()), id_(::shmget(key_, size, IPC_CREAT | IPC_EXCL | 0600)) {
    if (id_ >= 0) address_ = ::shmat(id_, nullptr, 0);
  }
  segment(const segment&) = delete;
  segment& operator=(const segment&) = delete;
  ~segment() {
    if (id_ < 0) return;
    ::shmdt(address_);
    ::shmctl(id_, IPC_RMID, nullptr);
  }
  static constexpr std::size_t size = 1 << 16;
  [[nodiscard]] key_t key() const { return key_; }
  [[nodiscard]] int id() const { return id_; }
  [[nodiscard]] std::uint64_t* words() const { return static_cast<std::uint64_t*>(address_); }

 private:
  key_t key_;
  int id_;
  void* address_ = nullptr;
};

TEST(shared_memory, can_be_attached) {
  VEO_TEST_LOCAL_ONLY("segments are of one machine");
  process p;
  const segment s;
  ASSERT_GE(s.id(), 0);
  s.words()[0] = 88;
  const bounded b("System V shared memory");
  ASSERT_EQ(veo_shmget(p.get(), s.key(), segment::size, 0), s.id());
  void* for_copies = nullptr;
  void* const there = veo_shmat(p.get(), s.id(), nullptr, 0, &for_copies);
  ASSERT_NE(there, reinterpret_cast<void*>(-1));
  const auto address = reinterpret_cast<std::uintptr_t>(there);
  EXPECT_EQ(p.call("load_word", std::uint64_t{address}), 88U);
  EXPECT_EQ(p.call("store_word", std::uint64_t{address}, std::uint64_t{99}), 99U);
  EXPECT_EQ(s.words()[0], 99U);
  const auto copies = reinterpret_cast<std::uintptr_t>(for_copies);
  EXPECT_EQ(veo_dma_post_wait(p.get(), copies + 8, copies, 8), 0);
  EXPECT_EQ(s.words()[1], 99U);
  EXPECT_EQ(p.read<std::uint64_t>(address + 8), 99U);
  EXPECT_EQ(veo_shmdt(p.get(), there), 0);
}

TEST(shared_memory, must_exist) {
  process p;
  const bounded b("System V shared memory");
  void* const failed = reinterpret_cast<void*>(-1);
  void* for_copies = nullptr;
  const auto error_of = [](bool has_failed) { return has_failed ? errno : 0; };
  EXPECT_EQ(error_of(veo_shmget(p.get(), 0x7ab1e5, 4096, 0) == -1), ENOENT);
  EXPECT_EQ(error_of(veo_shmget(p.get(), 0x7ab1e5, 4096, IPC_CREAT) == -1), EINVAL);
  EXPECT_EQ(error_of(veo_shmat(p.get(), -1, nullptr, 0, &for_copies) == failed), EINVAL);
  EXPECT_EQ(error_of(veo_shmat(p.get(), -1, nullptr, SHM_EXEC, &for_copies) == failed), EINVAL);
  EXPECT_EQ(error_of(veo_shmat(p.get(), -1, nullptr, 0, nullptr) == failed), EFAULT);
  EXPECT_EQ(error_of(veo_shmat(p.get(), -1, &for_copies, 0, &for_copies) == failed), EINVAL);
  EXPECT_EQ(error_of(veo_shmdt(p.get(), nullptr) == -1), EINVAL);
  EXPECT_NE(last_error(), "");
  EXPECT_EQ(for_copies, nullptr);
}

// --- veo_hmem.h ----------------------------------------------------------------------------------

TEST(system_call, gives_its_result_or_minus_the_error) {
  EXPECT_EQ(syscall_wrapper(SYS_getpid, 0, 0, 0, 0, 0, 0), ::getpid());
  EXPECT_EQ(syscall_wrapper(SYS_close, -1, 0, 0, 0, 0, 0), -EBADF);
}

} // namespace
} // namespace veo_test
