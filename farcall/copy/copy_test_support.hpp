// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/copy/helped_copy.hpp>
#include <tests/jobs.hpp>
#include <tests/vanishing_memory.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <thread>
#include <vector>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/// Common parts of the tests of copies of ordinary memory.
namespace farcall::test {

inline constexpr std::uint64_t mib = std::uint64_t{1} << 20;

inline std::uint8_t byte_at(std::uint64_t i, std::uint64_t seed) {
  return static_cast<std::uint8_t>((i + seed) * 0x9e3779b97f4a7c15U >> 56);
}
inline bool holds(const std::uint8_t* at, std::uint64_t bytes, std::uint64_t seed) {
  for (std::uint64_t i = 0; i < bytes; ++i)
    if (at[i] != byte_at(i, seed)) return false;
  return true;
}
inline void fill(std::uint8_t* at, std::uint64_t bytes, std::uint64_t seed) {
  for (std::uint64_t i = 0; i < bytes; ++i)
    at[i] = byte_at(i, seed);
}

// ---- functions on the target ----

inline std::uint64_t reserve(std::uint64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(std::calloc(bytes, 1));
}
inline bool holds_there(std::uint64_t address, std::uint64_t bytes, std::uint64_t seed) {
  return holds(reinterpret_cast<const std::uint8_t*>(address), bytes, seed);
}
inline void fill_there(std::uint64_t address, std::uint64_t bytes, std::uint64_t seed) {
  fill(reinterpret_cast<std::uint8_t*>(address), bytes, seed);
}
inline std::atomic<bool> may_end{false};
inline void compute() {
  while (!may_end.load())
    std::this_thread::yield();
}
inline std::uint64_t helped() { return detail::chunks_copied_for_others(); }
inline void die_soon() {
  std::thread([] {
    ::usleep(2000);
    ::kill(::getpid(), SIGKILL);
  }).detach();
}
inline std::uint64_t reserve_with_a_hole(std::uint64_t bytes) {
  void* const all =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ::munmap(static_cast<std::byte*>(all) + bytes / 2, 4096);
  return reinterpret_cast<std::uintptr_t>(all);
}

/// Forbids the calling thread to copy memory of other processes, as in many containers.
inline void refuse_attach() {
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

/// Makes memory that goes away again and again, as long as the process lives.
inline std::uint64_t make_vanishing(std::uint64_t bytes) {
  const auto* const made = new vanishing_memory(bytes);
  return reinterpret_cast<std::uintptr_t>(made->bytes().data());
}

/// Copies between memory of this target that goes away and memory of another node. Returns if a
/// copy has ended with another exception than error.
inline bool copy_vanishing(node_id other, std::uint64_t address, std::uint64_t bytes,
                           bool is_attach_refused) {
  if (is_attach_refused) refuse_attach();
  const remote_span<std::uint8_t> there{other, address, bytes};
  const vanishing_memory memory(bytes);
  bool is_odd = false;
  for (int round = 0; round < 20; ++round) {
    try {
      if (round % 2 == 0) {
        put_sync(memory.bytes(), there);
      } else {
        get_sync(there, memory.bytes());
      }
    } catch (const error&) {
      continue;
    } catch (...) {
      is_odd = true;
    }
  }
  return is_odd;
}

class copy_test : public job_test {
 protected:
  copy_test() : job_test(without_crash_reports()) {}

  /// Returns options with which targets end faster if they crash.
  static job_options without_crash_reports() {
    job_options options = with_targets("shm");
    options.crash_report = "off";
    return options;
  }
  remote_span<std::uint8_t> there(std::uint64_t address, std::uint64_t bytes) const {
    return {target_.id(), address, bytes};
  }

  /// Copies to and from memory of the target that goes away meanwhile. Each copy may succeed, fail,
  /// or end with the target, which is its own fault. This process and other targets must go on.
  void copy_to_and_from_vanishing(bool is_attach_refused) {
    constexpr std::uint64_t bytes = mib;
    const node second = job_.add("shm");
    const std::uint64_t sound = sync(second, fn<&reserve>, bytes);
    std::vector<std::uint8_t> here(bytes + 2, 9);
    const std::span<std::uint8_t> inner(here.data() + 1, bytes);
    try {
      const std::uint64_t address = sync(target_, fn<&make_vanishing>, bytes);
      for (int round = 0; round < 20; ++round) {
        try {
          if (round % 2 == 0) {
            put_sync(inner, there(address, bytes));
          } else {
            get_sync(there(address, bytes), inner);
          }
        } catch (const node_failed&) {
          throw;
        } catch (const error&) {
          continue;
        }
      }
    } catch (const node_failed&) {
    }
    EXPECT_EQ(here.front(), 9);
    EXPECT_EQ(here.back(), 9);
    // The other end of the next copies is this process, and memory of the second target.
    for (const node& each : {job_.add("shm"), job_.add("shm")}) {
      const bool is_here = each.id() % 2 == 0;
      const node_id other = is_here ? own_number() : second.id();
      const std::uint64_t address =
          is_here ? std::uint64_t{reinterpret_cast<std::uintptr_t>(inner.data())} : sound;
      try {
        EXPECT_FALSE(sync(each, fn<&copy_vanishing>, other, address, bytes, is_attach_refused));
      } catch (const node_failed& e) {
        EXPECT_EQ(e.node(), each.id());
      }
    }
    EXPECT_EQ(here.front(), 9);
    EXPECT_EQ(here.back(), 9);
    fill(inner.data(), bytes, 3);
    put_sync(inner, remote_span<std::uint8_t>(second.id(), sound, bytes));
    EXPECT_TRUE(sync(second, fn<&holds_there>, sound, bytes, std::uint64_t{3}));
  }
};

} // namespace farcall::test
