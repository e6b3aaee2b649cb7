// SPDX-License-Identifier: Apache-2.0
#include "local_memory.hpp"

#include <tools/common/environment.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include <sys/mman.h>

namespace farcall::tool {

namespace {

constexpr std::size_t huge_page = bytes_of_huge_page;
/// Flags for 2 MiB pages of the pool: the size must be named, since a machine may have several
/// pools.
constexpr int of_the_pool = MAP_HUGETLB | (21 << MAP_HUGE_SHIFT);

constexpr std::size_t rounded_up(std::size_t bytes) {
  return (bytes + huge_page - 1) / huge_page * huge_page;
}

/// Parses "AnonHugePages:   2048 kB" to 2048; 0 for other lines.
std::size_t kib_of_huge_pages(const std::string& line) {
  for (const char* key : {"AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:", "Shared_Hugetlb:",
                          "Private_Hugetlb:"}) {
    if (!line.starts_with(key)) continue;
    const std::size_t digit = line.find_first_of("0123456789", std::strlen(key));
    std::size_t kib = 0;
    if (digit != std::string::npos)
      std::from_chars(line.data() + digit, line.data() + line.size(), kib);
    return kib;
  }
  return 0;
}

/// True if the line begins a mapping ("7f00-7f10 rw-p …"); sets `inside` if `address` is in it.
bool opens_mapping(const std::string& line, std::uintptr_t address, bool& inside) {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  const char* last = line.data() + line.size();
  const auto first = std::from_chars(line.data(), last, begin, 16);
  if (first.ec != std::errc{} || first.ptr == last || *first.ptr != '-') return false;
  const auto second = std::from_chars(first.ptr + 1, last, end, 16);
  if (second.ec != std::errc{} || second.ptr == last || *second.ptr != ' ') return false;
  inside = begin <= address && address < end;
  return true;
}

} // namespace

local_memory::local_memory(std::size_t bytes, pages kind)
    : mapped_(rounded_up(bytes) + huge_page), bytes_(bytes) {
  if (kind == pages::hugetlb) mapped_ = rounded_up(bytes); // the kernel aligns it
  mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | (kind == pages::hugetlb ? of_the_pool : 0), -1, 0);
  if (mapping_ == MAP_FAILED) {
    throw failed_run(
        fmt::format("cannot get {} bytes of memory: {}; limit the sizes with --max-bytes", mapped_,
                    reason_text(errno)));
  }
  const std::size_t over = reinterpret_cast<std::uintptr_t>(mapping_) % huge_page;
  data_ = static_cast<std::byte*>(mapping_) + (over == 0 ? 0 : huge_page - over);
  // Advice only: a kernel without transparent huge pages refuses it. Callers check the result with
  // huge_bytes_at().
  if (kind != pages::hugetlb)
    madvise(data_, rounded_up(bytes), kind == pages::huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  std::memset(data_, 1, rounded_up(bytes));
}

local_memory::~local_memory() { munmap(mapping_, mapped_); }

std::size_t huge_bytes_at(const void* address) {
  std::ifstream file{"/proc/self/smaps"};
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool inside = false;
  std::size_t kib = 0;
  for (std::string line; std::getline(file, line);) {
    const bool was_inside = inside;
    if (opens_mapping(line, wanted, inside)) {
      if (was_inside) break;
    } else if (inside) {
      kib += kib_of_huge_pages(line);
    }
  }
  return kib * 1024;
}

std::string why_no_huge_pages() {
  const std::string choice =
      bracketed_choice(first_line_of("/sys/kernel/mm/transparent_hugepage/enabled"));
  if (choice.empty()) return "this kernel has no transparent huge pages";
  if (choice == "never") {
    return "transparent huge pages are switched off "
           "(echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, as root)";
  }
  return {};
}

std::size_t free_pool_pages() {
  const auto number_in = [](const char* name) {
    const std::string text =
        first_line_of(fmt::format("/sys/kernel/mm/hugepages/hugepages-2048kB/{}", name));
    std::size_t pages = 0;
    std::from_chars(text.data(), text.data() + text.size(), pages);
    return pages;
  };
  const std::size_t free = number_in("free_hugepages");
  // Free pages that are reserved for other mappings do not count.
  return free - std::min(free, number_in("resv_hugepages"));
}

} // namespace farcall::tool
