// SPDX-License-Identifier: Apache-2.0
#include "process_use.hpp"

#include <tools/common/environment.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include <malloc.h>

namespace farcall::tool {

namespace {

double entries_in(const std::string& folder) {
  std::error_code unknown;
  double count = 0;
  for (std::filesystem::directory_iterator all(folder, unknown), end; !unknown && all != end;
       all.increment(unknown))
    ++count;
  return count;
}

} // namespace

process_use use_of(int pid) {
  const std::string folder = fmt::format("/proc/{}/", pid);
  const auto kib = [&](const char* file, const char* key) {
    return static_cast<double>(std::max(0L, value_in_file(folder + file, key)));
  };
  // Without pages of the program's file, whose share shrinks as the number of processes grows.
  return {.private_kib = kib("smaps_rollup", "Pss_Anon"),
          .shared_kib = kib("smaps_rollup", "Pss_Shmem"),
          .page_tables_kib = kib("status", "VmPTE"),
          .descriptors = entries_in(folder + "fd"),
          .threads = kib("status", "Threads")};
}

process_use average_use(const std::vector<int>& pids) {
  process_use sum;
  for (const int pid : pids) {
    const process_use one = use_of(pid);
    sum.private_kib += one.private_kib;
    sum.shared_kib += one.shared_kib;
    sum.page_tables_kib += one.page_tables_kib;
    sum.descriptors += one.descriptors;
    sum.threads += one.threads;
  }
  const double n = static_cast<double>(std::max<std::size_t>(1, pids.size()));
  return {sum.private_kib / n, sum.shared_kib / n, sum.page_tables_kib / n, sum.descriptors / n,
          sum.threads / n};
}

double heap_bytes() {
  const struct mallinfo2 all = mallinfo2();
  return static_cast<double>(all.uordblks) + static_cast<double>(all.hblkhd);
}

} // namespace farcall::tool
