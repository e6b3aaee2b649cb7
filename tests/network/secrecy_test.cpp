// SPDX-License-Identifier: Apache-2.0
#include "tests/network/support.hpp"
#include "tests/sanitizer.hpp"

#include <farcall/transport/tcp/secret.hpp>
#include <tests/jobs.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <functional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/uio.h>

/// Searches the memory of hosts, servers and targets for copies of keys and of the job's key.
namespace farcall::test {
namespace {

struct mapping {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool is_for_secrets = false; ///< left out of core dumps, and zero in forked processes
};

/// Returns the private writable mappings of this process.
std::vector<mapping> own_mappings() {
  std::vector<mapping> all;
  std::ifstream file("/proc/self/smaps");
  bool is_own = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    mapping m;
    char dash = 0;
    std::string access;
    if (words >> std::hex >> m.begin >> dash >> m.end >> access && dash == '-') {
      is_own = access == "rw-p";
      if (is_own) all.push_back(m);
    } else if (is_own && line.starts_with("VmFlags:")) {
      all.back().is_for_secrets =
          line.find(" dd") != std::string::npos && line.find(" wf") != std::string::npos;
    }
  }
  return all;
}

constexpr std::size_t page = 4096;

/// A copy of a part of this process's memory, on pages for secrets, which are not searched.
class window {
 public:
  window() {
    void* const at =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ::madvise(at, size, MADV_DONTDUMP);
    ::madvise(at, size, MADV_WIPEONFORK);
    data_ = static_cast<std::byte*>(at);
  }
  window(const window&) = delete;
  window& operator=(const window&) = delete;
  ~window() {
    ::explicit_bzero(data_, size);
    ::munmap(data_, size);
  }

  /// Returns up to `bytes` bytes at `from`; none if another thread has unmapped them.
  [[nodiscard]] std::span<const std::byte> look(std::uintptr_t from, std::size_t bytes) {
    const iovec here{data_, std::min(bytes, size)};
    const iovec there{reinterpret_cast<void*>(from), here.iov_len};
    const ssize_t got = ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0);
    return {data_, got < 0 ? 0 : static_cast<std::size_t>(got)};
  }

  static constexpr std::size_t size = std::size_t{1} << 20;

 private:
  std::byte* data_ = nullptr;
};

/// Returns the secrets of a key's size at the beginning of pages for secrets, each once.
std::vector<tcp::secret> own_secrets() {
  std::vector<tcp::secret> secrets;
  const std::vector<mapping> before = own_mappings();
  window w;
  for (const mapping& m : before) {
    if (!m.is_for_secrets) continue;
    for (std::uintptr_t at = m.begin; at < m.end; at += page) {
      const auto bytes = w.look(at, tcp::key_bytes);
      tcp::secret s = tcp::secret::copy_of(bytes);
      const bool is_known = std::ranges::any_of(secrets, [&](const auto& k) { return k == s; });
      if (bytes.size() == tcp::key_bytes && !s.is_wiped() && !is_known)
        secrets.push_back(std::move(s));
    }
  }
  return secrets;
}

/// Returns the number of copies in all other memory.
std::size_t strays_of(std::span<const tcp::secret> secrets) {
  std::size_t found = 0;
  window w;
  for (const mapping& m : own_mappings()) {
    if (m.is_for_secrets) continue;
    // Overlap by one page, so that no copy is cut in two.
    const std::size_t step = window::size - page;
    for (std::uintptr_t at = m.begin; at < m.end; at += step) {
      const auto bytes = w.look(at, m.end - at);
      for (const tcp::secret& s : secrets) {
        if (std::search(bytes.begin(), bytes.end(),
                        std::boyer_moore_horspool_searcher(s.bytes().begin(), s.bytes().end())) !=
            bytes.end()) {
          ++found;
        }
      }
    }
  }
  return found;
}

bool can_be_searched() {
  // A sanitizer has terabytes of its own mappings, and keeps freed memory.
  if (under_sanitizer) return false;
  const tcp::secret s = tcp::secret::random(tcp::key_bytes);
  return !own_secrets().empty();
}

/// Ordinary memory to plant a key in.
std::array<std::byte, tcp::key_bytes> planted;

TEST(secrecy, strays_are_found) {
  if (!can_be_searched())
    GTEST_SKIP() << "a sanitizer, or a system that tells nothing of its mappings";
  const tcp::secret s = tcp::secret::random(tcp::key_bytes);
  EXPECT_EQ(own_secrets().size(), 1U);
  EXPECT_EQ(strays_of({&s, 1}), 0U);
  std::ranges::copy(s.bytes(), planted.begin());
  const std::size_t found = strays_of({&s, 1});
  planted.fill(std::byte{0});
  EXPECT_EQ(found, 1U);
}

/// Connections of each kind leave no copy of the key in hosts, servers and targets. The job's key
/// has no copies in targets; hosts and servers may have some on stacks, where it was passed on.
TEST(secrecy, keys_leave_no_copies_where_a_job_runs) {
  if (!can_be_searched())
    GTEST_SKIP() << "a sanitizer, or a system that tells nothing of its mappings";
  const scratch_folder folder;
  const std::string path = folder.file("key");
  tcp::write_key_file(path, "alice");
  const tcp::secret key = tcp::read_key_file(path).key;
  const server s(local_server(path));
  const job j(network_job(url_of(s) + "?count=2", path));
  const node first = j.targets().at(0);
  const node second = j.targets().at(1);
  EXPECT_EQ(sync(first, [](const node& n) { return sync(n, [] { return 5; }); }, second), 5);
  EXPECT_EQ(sync(first, [] { return sync(host(), [] { return 6; }); }), 6);
  const auto there = first.allocate<std::byte>(100'000);
  put(std::vector<std::byte>(100'000), there).get();

  EXPECT_EQ(own_secrets().size(), 2U) << "the key and the job's secret";
  EXPECT_EQ(strays_of({&key, 1}), 0U);
  EXPECT_EQ(sync(first, [] { return own_secrets().size(); }), 1U) << "the job's secret";
  EXPECT_EQ(sync(first, [] { return strays_of(own_secrets()); }), 0U);
}

} // namespace
} // namespace farcall::test
