// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/base/error.hpp>
#include <farcall/copy/copy_state.hpp>
#include <farcall/copy/mapped.hpp>
#include <farcall/job/members.hpp>
#include <farcall/memory/shared_heap.hpp>
#include <farcall/transport/rma_engine.hpp>

#include <algorithm>

namespace farcall {
namespace {

bool has(const shared_heap& heap, std::uint64_t address, std::size_t bytes) {
  const auto windows = heap.windows();
  return std::any_of(windows.begin(), windows.end(), [&](const auto& w) {
    const std::uint64_t offset = address - w.first;
    return offset < w.second && bytes <= w.second - offset;
  });
}

} // namespace

held_bytes detail::hold_bytes(job_core& job, node_id node, std::uint64_t address,
                              std::size_t bytes) {
  const copy_state& copies = copies_of(job);
  found_memory found = find_mapped(copies, node, address, bytes);
  if (node != copies.members().self()) return {found.here, std::move(found.window.owner)};
  std::shared_ptr<const shared_heap> heap = copies.members().heap();
  if (!has(*heap, address, bytes)) {
    throw error("this memory of " + node_text(node) +
                    " cannot be kept mapped, because it was not allocated with node::allocate",
                node);
  }
  return {found.here, std::move(heap)};
}

} // namespace farcall
