// SPDX-License-Identifier: Apache-2.0
#include "probes.hpp"

#include <tools/common/environment.hpp>
#include <tools/common/forked_process.hpp>
#include <tools/common/mount_program.hpp>
#include <tools/common/openmp_plugin.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/memory_file.hpp>
#include <farcall/memory/doorbell.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

constexpr std::uint64_t pattern = 0x5ca1ab1edeadbeefU;
constexpr std::size_t huge_page = std::size_t{2} << 20;

/// Tests whether this process can read the memory of another process, where the other process has
/// stored `pattern`. Returns 0 if so, and otherwise an error number.
int read_from(pid_t other, const std::uint64_t* address) {
  std::uint64_t value = 0;
  const iovec here{&value, sizeof value};
  const iovec there{const_cast<std::uint64_t*>(address), sizeof *address};
  const ssize_t got = process_vm_readv(other, &here, 1, &there, 1, 0);
  if (got < 0) return errno;
  return got == static_cast<ssize_t>(sizeof value) && value == pattern ? 0 : EIO;
}

std::string outcome(int error) {
  return error == 0 ? "allowed" : fmt::format("refused ({})", reason_text(error));
}

/// Closes a descriptor that was opened as a test. Returns false if it could not be opened.
bool close_if_open(long fd) {
  if (fd >= 0) close(static_cast<int>(fd));
  return fd >= 0;
}

probe tried(std::string name, bool works, const char* good, const std::string& advice) {
  const int error = errno;
  if (works) return {std::move(name), true, good, {}};
  return {std::move(name), false, fmt::format("refused ({})", reason_text(error)), advice};
}

} // namespace

probe probe_cross_memory_attach() {
  // The word is static, so that it is at the same address in the child.
  static const std::uint64_t word = pattern;
  const pid_t parent = getpid();
  std::array<int, 2> hold{};
  if (pipe(hold.data()) != 0)
    return {"cross-memory attach", false, "cannot make a pipe to try it", {}};
  int child_reads = EIO;
  int parent_reads = EIO;
  {
    // The child reads the word from its parent, and returns the result as its exit status. The
    // parent reads the word from the child meanwhile; the child does not end before that, because
    // it waits until the parent closes the pipe.
    forked_process child{[&] {
      close(hold[1]);
      const int error = read_from(parent, &word);
      char byte = 0;
      while (read(hold[0], &byte, 1) < 0 && errno == EINTR) {
      }
      return error;
    }};
    close(hold[0]);
    parent_reads = read_from(child.pid(), &word);
    close(hold[1]);
    if (child.wait_until(std::chrono::steady_clock::now() + std::chrono::seconds{5})) {
      child_reads = child.exit_status().value_or(EIO);
    }
  }
  const std::string yama = first_line_of("/proc/sys/kernel/yama/ptrace_scope");
  probe result{"cross-memory attach", child_reads == 0 && parent_reads == 0, {}, {}};
  result.detail =
      fmt::format("host reads target: {}, target reads host: {}, Yama ptrace_scope: {}",
                  outcome(parent_reads), outcome(child_reads), yama.empty() ? "absent" : yama);
  if (!result.works) {
    result.advice = "put and get of memory that farcall did not allocate go through the message "
                    "rings; to allow the direct way: "
                    "sysctl kernel.yama.ptrace_scope=0, or in a container --cap-add=SYS_PTRACE";
  }
  return result;
}

probe probe_membarrier() {
  const long supported = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  if (supported < 0) {
    return tried("membarrier", false, "",
                 "sleeping threads look for messages every millisecond instead; allow it in the "
                 "seccomp profile");
  }
  const bool expedited = has_asymmetric_barrier();
  return {"membarrier", expedited,
          expedited ? "expedited barriers between processes"
                    : "only slow barriers between processes",
          expedited ? ""
                    : "sleeping threads look for messages every millisecond instead; needs Linux "
                      "4.16 or later"};
}

probe probe_futex() {
  std::uint32_t word = 0;
  const bool works = syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0) >= 0;
  return tried("futex", works, "sleep and wake in shared memory",
               "farcall needs it: allow it in the seccomp profile");
}

probe probe_pidfd() {
  const bool works = close_if_open(syscall(SYS_pidfd_open, getpid(), 0));
  return tried("pidfd", works, "the end of a target is noticed at once",
               "needs Linux 5.3 or later, or permission in the seccomp profile");
}

probe probe_memfd() {
  const bool works = close_if_open(make_memory_file("farcall-probe", MFD_CLOEXEC));
  return tried("memfd", works, "shared memory without a name",
               "shm targets need it: allow it in the seccomp profile");
}

probe probe_mounts(const mount_check& found) {
  const bool works = found.why_not.empty();
  return {"mounts of host files", works,
          works ? "--host-files mounts them for targets" : "--host-files preloads a library",
          found.why_not};
}

probe probe_passthrough(const mount_check& found) {
  const bool works = found.why_not.empty() && found.why_no_passthrough.empty();
  return {"passthrough of mounts", works,
          works ? "the system reads and writes files of a host on this machine itself"
                : "targets read and write the files of their mounts",
          works || !found.why_not.empty()
              ? ""
              : found.why_no_passthrough + "; only root may have it, from Linux 6.9 on"};
}

probe probe_mounts_by_ring(const mount_check& found) {
  const bool works = found.why_not.empty() && found.has_ring;
  return {"requests of mounts by io_uring", works,
          works ? "farcall takes requests from /dev/fuse all the same"
                : "requests come by /dev/fuse; the system's parameter fuse.enable_uring is off, or "
                  "Linux is older than 6.14",
          ""};
}

probe probe_openmp() {
  probe result{"OpenMP target regions", false, {}, {}};
  try {
    result.detail =
        fmt::format("farcall run --openmp; the plugin is in {}", find_openmp_plugin().folder);
    result.works = true;
  } catch (const failed_run& e) {
    result.detail = "this farcall has no plugin for libomptarget";
    result.advice = e.what();
    return result;
  }
  const std::vector<std::string> runtimes = find_omptargets();
  if (runtimes.empty()) {
    result.advice = "no libomptarget of LLVM 15 or 16 is here; install libomp-16-dev, clang-16 "
                    "and clang-tools-16";
  }
  for (const std::string& file : runtimes)
    result.detail += ", " + file;
  return result;
}

probe probe_huge_page_pool() {
  const environment env = read_environment();
  probe result{"huge page pool", false, {}, {}};
  void* memory = mmap(nullptr, huge_page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | (21 << MAP_HUGE_SHIFT), -1, 0);
  result.works = memory != MAP_FAILED;
  if (result.works) munmap(memory, huge_page);
  result.detail =
      fmt::format("{} pages of 2 MiB, {} free", env.huge_pages_total, env.huge_pages_free);
  if (!result.works) result.advice = "to get some, as root: sysctl vm.nr_hugepages=512 (1 GiB)";
  return result;
}

probe probe_transparent_huge_pages() {
  const std::string choice = read_environment().transparent_huge_pages;
  const bool works = choice == "always" || choice == "madvise";
  return {"transparent huge pages", works, choice.empty() ? "not in this kernel" : choice,
          works || choice.empty()
              ? ""
              : "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"};
}

probe probe_shared_transparent_huge_pages() {
  const std::string choice = read_environment().transparent_huge_pages_shmem;
  const bool works =
      choice == "always" || choice == "within_size" || choice == "advise" || choice == "force";
  return {"transparent huge pages for shared memory", works,
          choice.empty() ? "not in this kernel" : choice,
          works || choice.empty()
              ? ""
              : "large buffers copy faster with them; as root: "
                "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled"};
}

std::vector<limit> process_limits() {
  struct kind {
    decltype(RLIMIT_NOFILE) resource;
    const char* name;
    const char* unit;
  };
  static constexpr std::array kinds{
      kind{RLIMIT_NOFILE, "open files", "descriptors"},
      kind{RLIMIT_MEMLOCK, "locked memory", "bytes"},
      kind{RLIMIT_NPROC, "processes", "of this user"},
      kind{RLIMIT_AS, "address space", "bytes"},
      kind{RLIMIT_CORE, "core dump", "bytes"},
  };
  std::vector<limit> limits;
  for (const kind& k : kinds) {
    rlimit value{};
    if (getrlimit(k.resource, &value) == 0)
      limits.push_back({k.name, value.rlim_cur, value.rlim_max, k.unit});
  }
  return limits;
}

std::string limit_text(std::uint64_t value) {
  return value == RLIM_INFINITY ? "unlimited" : fmt::format("{}", value);
}

} // namespace farcall::tool
