// SPDX-License-Identifier: Apache-2.0
#include <farcall/memory/heap.hpp>

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <memory>
#include <new>

namespace farcall {
namespace {

constexpr std::uint64_t page_shift = 16;
constexpr std::uint64_t page = std::uint64_t{1} << page_shift;
constexpr std::uint64_t max_small = 64 * 1024;

// Sizes of small blocks, called classes: every multiple of a line up to 512 bytes, then four sizes
// between each two powers of two. Rounding up to a class therefore wastes at most a fifth of a
// block.
constexpr std::size_t class_of(std::uint64_t bytes) noexcept {
  if (bytes <= 512) return static_cast<std::size_t>((bytes - 1) / line_bytes);
  const auto log = static_cast<unsigned>(std::bit_width(bytes - 1)) - 1;
  const std::uint64_t quarter = (bytes - 1 - (std::uint64_t{1} << log)) >> (log - 2);
  return 8 + std::size_t{4} * (log - 9) + static_cast<std::size_t>(quarter);
}

constexpr std::uint64_t class_bytes(std::size_t index) noexcept {
  if (index < 8) return (index + 1) * line_bytes;
  const std::uint64_t doubling = std::uint64_t{512} << ((index - 8) / 4);
  return doubling + ((index - 8) % 4 + 1) * (doubling / 4);
}

constexpr bool classes_are_consistent(std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bytes = class_bytes(i);
    if (class_of(bytes) != i || class_of(bytes + 1) != i + 1 || bytes % line_bytes != 0)
      return false;
    if ((bytes == max_small) != (i + 1 == count)) return false;
  }
  return true;
}

// Returns the smallest class that is large enough, and whose size is a multiple of the alignment.
// All blocks of such a class are aligned, because slabs start at multiples of 64 KiB. The search is
// short, because a power of two is at most three classes away.
constexpr std::size_t class_for(std::uint64_t bytes, std::uint64_t alignment) noexcept {
  std::size_t index = class_of(std::max(bytes, alignment));
  while (class_bytes(index) % alignment != 0)
    ++index;
  return index;
}

// Returns the size of a slab. A slab has a whole number of pages, so that a page belongs to one
// slab only. A slab has space for eight blocks at least, so that the best-fit search for a new slab
// is rare.
constexpr std::uint64_t slab_bytes(std::uint64_t block_bytes) noexcept {
  return align_up(std::max(page, 8 * block_bytes), page);
}

std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) noexcept {
  return b > std::numeric_limits<std::uint64_t>::max() - a
             ? std::numeric_limits<std::uint64_t>::max()
             : a + b;
}

// Returns the offset of the first line that starts at or after `offset`. If no line starts there,
// because `offset` is inside the last line of the address space, returns the offset of that line.
std::uint64_t first_line(std::uint64_t offset) noexcept {
  return saturating_add(offset, line_bytes - 1) & ~std::uint64_t{line_bytes - 1};
}

} // namespace

heap::range_map::range_map(std::uint64_t begin, std::uint64_t end,
                           std::pmr::memory_resource* bookkeeping)
    : nodes_{bookkeeping}, begin_{begin}, capacity_{end > begin ? end - begin : 0} {
  if (capacity_ != 0) add_free(new_range(), begin_, capacity_);
}

std::optional<std::uint64_t> heap::range_map::take(std::uint64_t bytes, std::uint64_t alignment) {
  std::uint64_t padding = 0;
  auto fit = free_.lower_bound({bytes, 0});
  for (; fit != free_.end(); ++fit) {
    const auto [size, offset] = *fit;
    padding = -offset & (alignment - 1);
    if (padding <= size - bytes) break;
  }
  if (fit == free_.end()) return std::nullopt;

  auto at = ranges_.find(fit->second);
  const std::uint64_t rest = at->second.bytes - padding - bytes;
  // Allocate the entries first, so that no operation can throw after the first change.
  auto before = padding != 0 ? new_range() : offset_map::node_type{};
  auto after = rest != 0 ? new_range() : offset_map::node_type{};

  mark_used(at);
  const std::uint64_t offset = at->first + padding;
  if (padding != 0) {
    // The new entry gets the part of the range before the block. The old entry moves to `offset`
    // and becomes the block.
    const std::uint64_t front = at->first;
    auto block = ranges_.extract(at);
    block.key() = offset;
    at = ranges_.insert(std::move(block)).position;
    add_free(std::move(before), front, padding);
  }
  at->second.bytes = bytes;
  if (rest != 0) add_free(std::move(after), offset + bytes, rest);
  return offset;
}

std::optional<std::uint64_t> heap::range_map::give_back(std::uint64_t offset) noexcept {
  auto at = ranges_.find(offset);
  if (at == ranges_.end() || at->second.parked.empty()) return std::nullopt;
  const std::uint64_t bytes = at->second.bytes;

  const auto after = std::next(at);
  if (after != ranges_.end() && after->second.parked.empty()) {
    mark_used(after);
    at->second.bytes += after->second.bytes;
    ranges_.erase(after);
  }
  if (at != ranges_.begin()) {
    const auto before = std::prev(at);
    if (before->second.parked.empty()) {
      mark_used(before);
      before->second.bytes += at->second.bytes;
      ranges_.erase(at);
      at = before;
    }
  }
  mark_free(at);
  return bytes;
}

std::optional<std::uint64_t> heap::range_map::size_of(std::uint64_t offset) const noexcept {
  const auto at = ranges_.find(offset);
  if (at == ranges_.end() || at->second.parked.empty()) return std::nullopt;
  return at->second.bytes;
}

std::uint64_t heap::range_map::largest_free() const noexcept {
  return free_.empty() ? 0 : free_.rbegin()->first;
}

heap::range_map::offset_map::node_type heap::range_map::new_range() {
  free_set free_node{&nodes_};
  free_node.emplace(0, 0);
  offset_map node{&nodes_};
  node.emplace(0, range{0, free_node.extract(free_node.begin())});
  return node.extract(node.begin());
}

void heap::range_map::add_free(offset_map::node_type node, std::uint64_t offset,
                               std::uint64_t bytes) noexcept {
  node.key() = offset;
  node.mapped().bytes = bytes;
  mark_free(ranges_.insert(std::move(node)).position);
}

void heap::range_map::mark_free(offset_map::iterator at) noexcept {
  at->second.parked.value() = {at->second.bytes, at->first};
  free_.insert(std::move(at->second.parked));
}

void heap::range_map::mark_used(offset_map::iterator at) noexcept {
  // Construct the node handle again instead of assigning it, because libc++ cannot assign node
  // handles with a memory resource.
  auto& parked = at->second.parked;
  std::destroy_at(&parked);
  std::construct_at(&parked, free_.extract({at->second.bytes, at->first}));
}

heap::heap(std::uint64_t base_offset, std::uint64_t bytes, std::pmr::memory_resource* bookkeeping)
    : ranges_{first_line(base_offset),
              saturating_add(base_offset, bytes) & ~std::uint64_t{line_bytes - 1}, bookkeeping},
      slabs_{bookkeeping}, page_tables_{bookkeeping} {
  static_assert(classes_are_consistent(class_count));
  static_assert(page / line_bytes == bitmap_words * 64,
                "a slab of the smallest blocks has a bit each");
}

std::optional<std::uint64_t> heap::allocate(std::uint64_t bytes, std::uint64_t alignment) noexcept {
  // Refuse sizes above the capacity first, because rounding them up could overflow.
  if (!is_power_of_two(alignment) || bytes > ranges_.capacity()) return std::nullopt;
  bytes = std::max<std::uint64_t>(bytes, 1);
  alignment = std::max<std::uint64_t>(alignment, line_bytes);
  try {
    if (bytes <= max_small && alignment <= max_small) {
      if (const auto offset = allocate_small(class_for(bytes, alignment))) return offset;
    }
    // If there is no space for another slab, take a small block directly from the ranges, like a
    // large one.
    return allocate_range(align_up(bytes, line_bytes), alignment);
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

std::optional<std::uint64_t> heap::allocate_small(std::size_t class_index) {
  size_class& sizes = classes_[class_index];
  const slab_id id = sizes.with_space != no_slab ? sizes.with_space : add_slab(class_index);
  if (id == no_slab) return std::nullopt;
  slab& from = slabs_[id];
  if (sizes.empty == id) sizes.empty = no_slab;

  const auto word = static_cast<unsigned>(std::countr_zero(from.words_with_free));
  const auto bit = static_cast<unsigned>(std::countr_zero(from.free_bits[word]));
  from.free_bits[word] &= from.free_bits[word] - 1;
  if (from.free_bits[word] == 0)
    from.words_with_free = static_cast<std::uint16_t>(from.words_with_free & ~(1U << word));
  --from.free_count;
  if (from.free_count == 0) unlink(id);

  bytes_in_use_ += from.block_bytes;
  ++blocks_;
  return from.offset + (std::uint64_t{word} * 64 + bit) * from.block_bytes;
}

std::optional<std::uint64_t> heap::allocate_range(std::uint64_t bytes, std::uint64_t alignment) {
  auto offset = ranges_.take(bytes, alignment);
  if (!offset && dissolve_empty_slabs()) offset = ranges_.take(bytes, alignment);
  if (offset) {
    bytes_in_use_ += bytes;
    ++blocks_;
  }
  return offset;
}

std::optional<std::uint64_t> heap::release(std::uint64_t offset) noexcept {
  const slab_id id = slab_at(offset);
  if (id == no_slab) {
    const auto bytes = ranges_.give_back(offset);
    if (bytes) {
      bytes_in_use_ -= *bytes;
      --blocks_;
    }
    return bytes;
  }

  const auto index = used_block(id, offset);
  if (!index) return std::nullopt;
  slab& from = slabs_[id];
  const std::uint64_t bytes = from.block_bytes;
  from.free_bits[*index / 64] |= std::uint64_t{1} << (*index % 64);
  from.words_with_free = static_cast<std::uint16_t>(from.words_with_free | 1U << (*index / 64));
  ++from.free_count;
  if (from.free_count == 1) link(id);
  if (from.free_count == from.block_count) {
    size_class& sizes = classes_[from.class_index];
    if (sizes.empty == no_slab)
      sizes.empty = id;
    else
      dissolve(id);
  }
  bytes_in_use_ -= bytes;
  --blocks_;
  return bytes;
}

std::optional<std::uint64_t> heap::block_size(std::uint64_t offset) const noexcept {
  const slab_id id = slab_at(offset);
  if (id == no_slab) return ranges_.size_of(offset);
  if (!used_block(id, offset)) return std::nullopt;
  return slabs_[id].block_bytes;
}

std::uint64_t heap::largest_free() noexcept {
  dissolve_empty_slabs();
  // Include the free blocks in slabs, because a block of a slab may be the largest free memory that
  // is left.
  std::uint64_t in_slabs = 0;
  for (std::size_t i = 0; i < class_count; ++i) {
    if (classes_[i].with_space != no_slab) in_slabs = class_bytes(i);
  }
  return std::max(in_slabs, ranges_.largest_free());
}

heap::slab_id heap::add_slab(std::size_t class_index) {
  if (unused_entry_ == no_slab) {
    if (slabs_.size() >= no_slab) return no_slab;
    slabs_.emplace_back();
    unused_entry_ = static_cast<slab_id>(slabs_.size() - 1);
  }
  const std::uint64_t block_bytes = class_bytes(class_index);
  const std::uint64_t bytes = slab_bytes(block_bytes);
  auto offset = ranges_.take(bytes, page);
  if (!offset && dissolve_empty_slabs()) offset = ranges_.take(bytes, page);
  if (!offset) return no_slab;

  const slab_id id = unused_entry_;
  const std::uint64_t first_page = page_of(*offset);
  const std::uint64_t page_count = bytes / page;
  try {
    // The first pass creates the page tables, so that the second pass cannot throw.
    for (std::uint64_t i = 0; i < page_count; ++i)
      static_cast<void>(page_entry(first_page + i));
  } catch (...) {
    ranges_.give_back(*offset);
    throw;
  }
  for (std::uint64_t i = 0; i < page_count; ++i)
    page_entry(first_page + i) = id;

  slab& added = slabs_[id];
  unused_entry_ = added.next;
  added = slab{};
  added.offset = *offset;
  added.block_bytes = static_cast<std::uint32_t>(block_bytes);
  added.block_count = static_cast<std::uint16_t>(bytes / block_bytes);
  added.free_count = added.block_count;
  added.class_index = static_cast<std::uint16_t>(class_index);
  for (unsigned first = 0; first < added.block_count; first += 64) {
    const unsigned here = std::min(64U, added.block_count - first);
    added.free_bits[first / 64] = ~std::uint64_t{0} >> (64 - here);
    added.words_with_free = static_cast<std::uint16_t>(added.words_with_free | 1U << (first / 64));
  }
  link(id);
  return id;
}

void heap::dissolve(slab_id id) noexcept {
  unlink(id);
  slab& gone = slabs_[id];
  const std::uint64_t first_page = page_of(gone.offset);
  const std::uint64_t page_count = slab_bytes(gone.block_bytes) / page;
  for (std::uint64_t i = 0; i < page_count; ++i)
    page_entry(first_page + i) = no_slab;
  ranges_.give_back(gone.offset);
  gone.next = unused_entry_;
  unused_entry_ = id;
}

bool heap::dissolve_empty_slabs() noexcept {
  bool any = false;
  for (size_class& sizes : classes_) {
    if (sizes.empty == no_slab) continue;
    dissolve(sizes.empty);
    sizes.empty = no_slab;
    any = true;
  }
  return any;
}

void heap::link(slab_id id) noexcept {
  slab& added = slabs_[id];
  slab_id& head = classes_[added.class_index].with_space;
  added.previous = no_slab;
  added.next = head;
  if (head != no_slab) slabs_[head].previous = id;
  head = id;
}

void heap::unlink(slab_id id) noexcept {
  slab& gone = slabs_[id];
  if (gone.previous != no_slab)
    slabs_[gone.previous].next = gone.next;
  else
    classes_[gone.class_index].with_space = gone.next;
  if (gone.next != no_slab) slabs_[gone.next].previous = gone.previous;
  gone.previous = gone.next = no_slab;
}

std::uint64_t heap::page_of(std::uint64_t offset) const noexcept {
  return (offset >> page_shift) - (ranges_.begin() >> page_shift);
}

heap::slab_id& heap::page_entry(std::uint64_t page_index) {
  const std::uint64_t table = page_index / pages_per_table;
  if (table >= page_tables_.size()) page_tables_.resize(table + 1);
  page_table& entries = page_tables_[table];
  if (entries.empty()) entries.resize(pages_per_table, no_slab);
  return entries[page_index % pages_per_table];
}

heap::slab_id heap::slab_at(std::uint64_t offset) const noexcept {
  if (offset < ranges_.begin()) return no_slab;
  const std::uint64_t page_index = page_of(offset);
  const std::uint64_t table = page_index / pages_per_table;
  if (table >= page_tables_.size() || page_tables_[table].empty()) return no_slab;
  return page_tables_[table][page_index % pages_per_table];
}

std::optional<std::uint32_t> heap::used_block(slab_id id, std::uint64_t offset) const noexcept {
  const slab& in = slabs_[id];
  const std::uint64_t distance = offset - in.offset;
  if (distance % in.block_bytes != 0) return std::nullopt;
  const auto index = static_cast<std::uint32_t>(distance / in.block_bytes);
  // Check the index, because the end of a slab may be too short for another block.
  if (index >= in.block_count || (in.free_bits[index / 64] >> (index % 64) & 1) != 0)
    return std::nullopt;
  return index;
}

} // namespace farcall
