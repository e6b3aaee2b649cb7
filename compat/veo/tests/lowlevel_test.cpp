#include "support.hpp"

#include <veo_vedma.h>
#include <veo_veshm.h>
#include <veo_vhveshm.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <vector>

#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace veo_test {
namespace {

// Functions that were made for the card's own engines. On other machines they either do the same
// in another way, or say that they are not supported; nothing else.

using ::testing::AnyOf;

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

TEST_F(dma, copies_or_says_that_it_cannot) {
  const bounded b("DMA");
  errno = 0;
  const std::uint64_t from = veo_register_mem_to_dmaatb(source(), size);
  if (from == none) {
    EXPECT_EQ(errno, ENOTSUP);
    EXPECT_EQ(veo_dma_post_wait(proc(), 0, 0, 4), -ENOTSUP);
    ve_dma_handle_t handle = {};
    EXPECT_EQ(veo_dma_post(proc(), 0, 0, 4, &handle), -ENOTSUP);
    EXPECT_EQ(veo_dma_poll(proc(), &handle), -ENOTSUP);
    return;
  }
  const std::uint64_t to = veo_register_mem_to_dmaatb(target(), size);
  ASSERT_NE(to, none);
  ASSERT_EQ(veo_dma_post_wait(proc(), to, from, size), 0);
  expect_copied();

  const std::vector<unsigned char> zeros(size, 0);
  ASSERT_EQ(veo_hmemcpy(target(), zeros.data(), size), 0);
  ve_dma_handle_t handle = {};
  ASSERT_EQ(veo_dma_post(proc(), to, from, size, &handle), 0);
  EXPECT_TRUE(eventually([&] {
    const int state = veo_dma_poll(proc(), &handle);
    EXPECT_THAT(state, AnyOf(0, -EAGAIN));
    return state == 0;
  }));
  expect_copied();
  EXPECT_EQ(veo_unregister_mem_from_dmaatb(proc(), from), 0);
  EXPECT_EQ(veo_unregister_mem_from_dmaatb(proc(), to), 0);
}

TEST_F(dma, without_a_handle_is_refused) {
  const bounded b("DMA");
  EXPECT_THAT(veo_dma_post(proc(), 0, 0, 4, nullptr), AnyOf(-EFAULT, -ENOTSUP));
  EXPECT_THAT(veo_dma_poll(proc(), nullptr), AnyOf(-EFAULT, -ENOTSUP));
}

TEST_F(dma, has_no_writes_of_devices_to_wait_for) {
  const bounded b("veo_access_pcircvsyc_register");
  veo_access_pcircvsyc_register(proc());
  std::uint64_t word = 0;
  EXPECT_EQ(veo_hmemcpy(&word, source(), 8), 0);
}

TEST(shared_memory, of_a_process_is_shared_or_said_not_to_be) {
  process a;
  process b(1);
  void* memory = nullptr;
  constexpr std::size_t size = std::size_t{64} << 20;
  ASSERT_EQ(veo_alloc_hmem(a.get(), &memory, size), 0);
  const pid_t pid = veo_get_pid_from_hmem(memory);
  const bounded bound("shared memory of processes");
  errno = 0;
  if (veo_shared_mem_open(memory, size, 0, VE_REGISTER_VEMVA) != 0) {
    EXPECT_EQ(errno, ENOTSUP);
    errno = 0;
    EXPECT_EQ(veo_shared_mem_attach(b.get(), pid, memory, size, 0, VE_REGISTER_VEMVA),
              reinterpret_cast<void*>(-1));
    EXPECT_EQ(errno, ENOTSUP);
    EXPECT_EQ(veo_shared_mem_detach(b.get(), memory, VE_REGISTER_VEMVA), -1);
    EXPECT_EQ(veo_shared_mem_close(memory, size, 0, VE_REGISTER_VEMVA), -1);
  } else {
    void* const there = veo_shared_mem_attach(b.get(), pid, memory, size, 0, VE_REGISTER_VEMVA);
    ASSERT_NE(there, reinterpret_cast<void*>(-1));
    const std::uint64_t word = 77;
    ASSERT_EQ(veo_hmemcpy(memory, &word, 8), 0);
    EXPECT_EQ(b.read<std::uint64_t>(reinterpret_cast<std::uintptr_t>(veo_get_hmem_addr(there))),
              77U);
    EXPECT_EQ(veo_shared_mem_detach(b.get(), there, VE_REGISTER_VEMVA), 0);
    EXPECT_EQ(veo_shared_mem_close(memory, size, 0, VE_REGISTER_VEMVA), 0);
  }
  EXPECT_EQ(veo_free_hmem(memory), 0);
}

/// A System V segment of this program, gone at the end.
class segment {
 public:
  segment() : id_(::shmget(IPC_PRIVATE, size, IPC_CREAT | 0600)) {
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
  [[nodiscard]] int id() const { return id_; }
  [[nodiscard]] std::uint64_t* words() const { return static_cast<std::uint64_t*>(address_); }

 private:
  int id_;
  void* address_ = nullptr;
};

TEST(shared_memory, of_this_machine_is_attached_or_said_not_to_be) {
  VEO_TEST_LOCAL_ONLY("segments are of one machine");
  process p;
  const segment s;
  ASSERT_GE(s.id(), 0);
  s.words()[0] = 88;
  void* for_copies = nullptr;
  const bounded b("System V shared memory");
  errno = 0;
  void* const there = veo_shmat(p.get(), s.id(), nullptr, 0, &for_copies);
  if (there == reinterpret_cast<void*>(-1)) {
    EXPECT_EQ(errno, ENOTSUP);
    errno = 0;
    EXPECT_EQ(veo_shmget(p.get(), IPC_PRIVATE, 4096, 0600), -1);
    EXPECT_EQ(errno, ENOTSUP);
    EXPECT_EQ(veo_shmdt(p.get(), nullptr), -1);
    return;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(there);
  EXPECT_EQ(p.call("load_word", std::uint64_t{address}), 88U);
  EXPECT_EQ(p.call("store_word", std::uint64_t{address}, std::uint64_t{99}), 99U);
  EXPECT_EQ(s.words()[0], 99U);
  EXPECT_EQ(veo_shmdt(p.get(), there), 0);
}

// --- veo_hmem.h ----------------------------------------------------------------------------------

TEST(system_call, gives_its_result_or_minus_the_error) {
  EXPECT_EQ(syscall_wrapper(SYS_getpid, 0, 0, 0, 0, 0, 0), ::getpid());
  EXPECT_EQ(syscall_wrapper(SYS_close, -1, 0, 0, 0, 0, 0), -EBADF);
}

} // namespace
} // namespace veo_test
