#pragma once

#include <farcall/copy/helped_copy.hpp>
#include <tests/jobs.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <thread>

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

class copy_test : public job_test {
 protected:
  remote_span<std::uint8_t> there(std::uint64_t address, std::uint64_t bytes) const {
    return {target_.id(), address, bytes};
  }
};

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

} // namespace farcall::test
