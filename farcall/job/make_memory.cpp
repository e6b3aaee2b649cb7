// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/node_table.hpp>
#include <farcall/job/make_memory.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/memory/segment.hpp>
#include <farcall/transport/shm/receive_segment.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <algorithm>
#include <fstream>
#include <string>

#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

namespace farcall {
namespace {

constexpr std::uint64_t min_heap = std::uint64_t{64} << 20;

/// If a node runs in an emulator, the maximum size of the heaps of all nodes together. It is small
/// because qemu keeps a table of all mapped pages: each GiB costs 12 MB and 30 ms.
constexpr std::uint64_t emulated_heaps = std::uint64_t{8} << 30;

/// Maximum address space for the heaps of all nodes together. It is limited because every process
/// maps the heaps of all nodes.
#if defined(__riscv)
constexpr std::uint64_t heap_address_space = std::uint64_t{1} << 36;
#else
constexpr std::uint64_t heap_address_space = std::uint64_t{1} << 45;
#endif

std::uint64_t machine_memory() {
  struct sysinfo info{};
  if (::sysinfo(&info) != 0) return min_heap;
  return align_up(std::uint64_t{info.totalram} * info.mem_unit, std::uint64_t{1} << 30);
}

/// Returns the size of the system's pool of huge pages, in bytes. Returns 0 if the system has none.
std::uint64_t huge_page_pool() {
  std::ifstream meminfo("/proc/meminfo");
  std::uint64_t pages = 0;
  std::uint64_t page_kib = 0;
  for (std::string name, rest; meminfo >> name; std::getline(meminfo, rest)) {
    if (name == "HugePages_Total:") meminfo >> pages;
    if (name == "Hugepagesize:") meminfo >> page_kib;
  }
  return pages * page_kib * 1024;
}

// Returns the limit that the system sets for the private memory of this process (ulimit -d). A node
// does not share more memory than this limit, either.
rlim_t limit_of_data() noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_DATA, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

} // namespace

node_memory make_memory(node_id node, const memory_sizes& sizes) {
  node_memory made;
  made.node = node;
  const std::string label = "farcall-" + std::to_string(::getpid()) + "-" + std::to_string(node);
  const std::uint32_t lanes = receive_lanes(node, sizes.nodes);
  made.receive_segment =
      segment::create(label + "-receive", shm::receive_segment::bytes(sizes.lane_bytes, lanes));
  const std::uint64_t all = sizes.is_emulated ? emulated_heaps : heap_address_space;
  const std::uint64_t heap_bytes = std::min<std::uint64_t>(
      sizes.heap_bytes != 0 ? sizes.heap_bytes : std::min(machine_memory(), all / sizes.nodes),
      limit_of_data());
  try {
    made.windows.push_back(segment::create(label + "-heap", std::max(heap_bytes, min_heap)));
  } catch (const segment_too_large& e) {
    throw error(std::string(e.what()) + "; FARCALL_HEAP_BYTES or job_options::heap_bytes lets each "
                                        "node share less");
  }
  // Use no huge pages in an emulator, because emulators map huge pages at few addresses, or at
  // none.
  if (const std::uint64_t pool = sizes.is_emulated ? 0 : huge_page_pool(); pool != 0) {
    try {
      made.windows.push_back(segment::create(label + "-huge", pool, page_kind::huge));
    } catch (const error& e) {
      // Go on without huge pages, because they are optional and the ordinary heap suffices.
      log::info(std::string("huge pages are not used: ") + e.what());
    }
  }
  return made;
}

std::uint32_t receive_lanes(node_id node, std::size_t nodes) noexcept {
  // The host gets a lane for each node, because every target may open a lane to the host. Lanes
  // that are never opened take no memory.
  if (node != host_id) return shm::receive_segment_lanes;
  return static_cast<std::uint32_t>(
      std::min<std::size_t>(planned_nodes(nodes), shm::max_receive_segment_lanes));
}

} // namespace farcall
