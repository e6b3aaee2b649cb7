// Copies of ordinary memory, which the peer makes a part of.
#include <farcall/offload/helped_copy.hpp>
#include <farcall/offload/job_test_support.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farcall::test {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

std::uint8_t byte_at(std::uint64_t i, std::uint64_t seed) {
  return static_cast<std::uint8_t>((i + seed) * 0x9e3779b97f4a7c15U >> 56);
}
bool holds(const std::uint8_t* at, std::uint64_t bytes, std::uint64_t seed) {
  for (std::uint64_t i = 0; i < bytes; ++i)
    if (at[i] != byte_at(i, seed)) return false;
  return true;
}
void fill(std::uint8_t* at, std::uint64_t bytes, std::uint64_t seed) {
  for (std::uint64_t i = 0; i < bytes; ++i)
    at[i] = byte_at(i, seed);
}

// ---- on the target ----

std::uint64_t reserve(std::uint64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(std::calloc(bytes, 1));
}
bool holds_there(std::uint64_t address, std::uint64_t bytes, std::uint64_t seed) {
  return holds(reinterpret_cast<const std::uint8_t*>(address), bytes, seed);
}
void fill_there(std::uint64_t address, std::uint64_t bytes, std::uint64_t seed) {
  fill(reinterpret_cast<std::uint8_t*>(address), bytes, seed);
}
std::atomic<bool> may_end{false};
void compute() {
  while (!may_end.load())
    std::this_thread::yield();
}
std::uint64_t helped() { return detail::chunks_copied_for_others(); }
void die_soon() {
  std::thread([] {
    ::usleep(2000);
    ::kill(::getpid(), SIGKILL);
  }).detach();
}
std::uint64_t reserve_with_a_hole(std::uint64_t bytes) {
  void* const all =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ::munmap(static_cast<std::byte*>(all) + bytes / 2, 4096);
  return reinterpret_cast<std::uintptr_t>(all);
}

class helped_copies : public job_test {
 protected:
  remote_span<std::uint8_t> there(std::uint64_t address, std::uint64_t bytes) const {
    return {target_.id(), address, bytes};
  }
};

// Until the target has had its part in both directions; each copy is whole.
TEST_F(helped_copies, arrive_whole_and_are_made_by_both_ends) {
  constexpr std::uint64_t most = 3 * mib;
  const std::uint64_t address = sync(target_, fn<&reserve>, most + 1);
  const auto here = std::make_unique<std::uint8_t[]>(most + 1);
  std::uint64_t seed = 0;
  for (const bool is_put : {true, false}) {
    const std::uint64_t before = sync(target_, fn<&helped>);
    const bool is_helped = eventually([&] {
      // Lengths and addresses that are no multiples of anything.
      ++seed;
      const std::uint64_t bytes = most - seed * 4097 % mib;
      const std::uint64_t odd = seed % 2;
      const std::span<std::uint8_t> mine(here.get() + odd, bytes);
      if (is_put) {
        fill(mine.data(), bytes, seed);
        put_sync(mine, there(address + 1 - odd, bytes));
        EXPECT_TRUE(sync(target_, fn<&holds_there>, address + 1 - odd, bytes, seed)) << bytes;
      } else {
        sync(target_, fn<&fill_there>, address + 1 - odd, bytes, seed);
        get_sync(there(address + 1 - odd, bytes), mine);
        EXPECT_TRUE(holds(mine.data(), bytes, seed)) << bytes;
      }
      return HasFailure() || sync(target_, fn<&helped>) != before;
    });
    EXPECT_TRUE(is_helped) << (is_put ? "put" : "get");
  }
}

TEST_F(helped_copies, need_no_help_of_a_busy_target) {
  constexpr std::uint64_t bytes = 5 * mib;
  const std::uint64_t address = sync(target_, fn<&reserve>, bytes);
  const std::uint64_t flag =
      sync(target_, [] { return std::uint64_t{reinterpret_cast<std::uintptr_t>(&may_end)}; });
  std::vector<std::uint8_t> here(bytes);
  future<void> busy = async(target_, fn<&compute>);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    fill(here.data(), bytes, seed);
    put_sync(here, there(address, bytes));
    std::fill(here.begin(), here.end(), std::uint8_t{0});
    get_sync(there(address, bytes), here);
    EXPECT_TRUE(holds(here.data(), bytes, seed));
  }
  const std::uint8_t yes = 1;
  put_sync(std::span(&yes, 1), there(flag, 1));
  busy.get();
  // What the target was asked for meanwhile comes too late, and does nothing.
  EXPECT_EQ(sync(target_, fn<&helped>), 0U);
}

/// The calling thread may not copy memory of other processes any more, as in many containers.
void refuse_attach() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof rules / sizeof rules[0], rules};
  ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

TEST_F(helped_copies, go_by_calls_where_the_system_allows_nothing_else) {
  constexpr std::uint64_t most = 3 * mib + 77;
  const std::uint64_t address = sync(target_, fn<&reserve>, most);
  std::thread([&] {
    refuse_attach();
    std::vector<std::uint8_t> here(most);
    for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{70'000}, 2 * mib, most}) {
      fill(here.data(), bytes, bytes);
      put_sync(std::span(here.data(), bytes), there(address, bytes));
      EXPECT_TRUE(sync(target_, fn<&holds_there>, address, bytes, bytes));
      std::fill(here.begin(), here.end(), std::uint8_t{0});
      get_sync(there(address, bytes), std::span(here.data(), bytes));
      EXPECT_TRUE(holds(here.data(), bytes, bytes)) << bytes;
    }
    const std::uint64_t hole = sync(target_, fn<&reserve_with_a_hole>, 2 * mib);
    EXPECT_THROW(get_sync(there(hole, 2 * mib), std::span(here.data(), 2 * mib)), error);
    EXPECT_THROW(put_sync(std::span(here.data(), 2 * mib), there(hole, 2 * mib)), error);
  }).join();
}

TEST_F(helped_copies, run_in_several_threads_at_once) {
  constexpr std::uint64_t bytes = mib + 123;
  std::vector<std::thread> threads;
  std::atomic<int> whole{0};
  for (std::uint64_t k = 0; k < 4; ++k) {
    threads.emplace_back([&, k] {
      const std::uint64_t address = sync(target_, fn<&reserve>, bytes);
      std::vector<std::uint8_t> here(bytes);
      for (std::uint64_t round = 0; round < 5; ++round) {
        fill(here.data(), bytes, 100 * k + round);
        put_sync(here, there(address, bytes));
        std::fill(here.begin(), here.end(), std::uint8_t{0});
        get_sync(there(address, bytes), here);
        whole += holds(here.data(), bytes, 100 * k + round) ? 1 : 0;
      }
    });
  }
  for (std::thread& t : threads)
    t.join();
  EXPECT_EQ(whole, 20);
}

TEST_F(helped_copies, fail_where_the_target_has_no_memory) {
  constexpr std::uint64_t bytes = 2 * mib;
  const std::uint64_t address = sync(target_, fn<&reserve_with_a_hole>, bytes);
  const std::uint64_t sound = sync(target_, fn<&reserve>, bytes);
  std::vector<std::uint8_t> here(bytes);
  for (int round = 0; round < 3; ++round) {
    EXPECT_THROW(put_sync(here, there(address, bytes)), error);
    EXPECT_THROW(get_sync(there(address, bytes), here), error);
    fill(here.data(), bytes, 5);
    put_sync(here, there(sound, bytes));
    EXPECT_TRUE(sync(target_, fn<&holds_there>, sound, bytes, std::uint64_t{5}));
  }
}

TEST_F(helped_copies, end_when_the_target_does) {
  constexpr std::uint64_t bytes = 4 * mib;
  const std::uint64_t address = sync(target_, fn<&reserve>, bytes);
  std::vector<std::uint8_t> here(bytes);
  sync(target_, fn<&die_soon>);
  EXPECT_THROW(
      {
        for (;;)
          put_sync(here, there(address, bytes));
      },
      node_failed);
}

} // namespace
} // namespace farcall::test
