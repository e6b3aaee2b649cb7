// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

#include "../messages.hpp"

#include <farcall/base/error.hpp>

#include <algorithm>
#include <utility>

namespace farcall::openmp {

namespace {

/// Loads an image on a node. Returns the address of each name.
std::vector<std::uint64_t> load_on(const node& on, std::span<const std::byte> image,
                                   const std::vector<std::string>& names) {
  auto addresses = sync(on, fn<&load_image>, image, names);
  if (addresses.size() != names.size()) {
    throw error("the target has replied " + std::to_string(addresses.size()) +
                " addresses for an image with " + std::to_string(names.size()) + " entries");
  }
  return addresses;
}

std::uint64_t allocate_on(const node& on, std::size_t bytes) {
  return on.allocate<std::byte>(std::max<std::size_t>(bytes, 1)).release().address();
}

} // namespace

remote_span<std::byte> bytes_of(const node& where, std::uint64_t address, std::size_t bytes) {
  return {where.id(), address, bytes};
}

device::device(std::uint32_t number, const node& where, std::function<node(const node&)> restart)
    : number_(number), restart_(std::move(restart)), where_(where) {}

node device::where() const {
  const std::lock_guard guard(mutex_);
  return where_;
}

node device::where_usable() {
  const std::lock_guard guard(mutex_);
  if (restart_ == nullptr || where_.alive()) return where_;
  if (allocations_.load(std::memory_order_relaxed) != 0 || has_variables_) return where_;
  const node again = restart_(where_);
  load_again(again);
  where_ = again;
  return where_;
}

std::uint64_t device::allocate_new(std::size_t bytes) {
  const node on = where_usable();
  std::uint64_t address = 0;
  try {
    address = allocate_on(on, bytes);
  } catch (const node_failed&) {
    // The job notices the end of a process on another machine later than the program may. An
    // allocation without effect can be repeated.
    const node again = where_usable();
    if (again.id() == on.id()) throw;
    address = allocate_on(again, bytes);
  }
  return address;
}

std::uint64_t device::allocate(std::size_t bytes) {
  std::vector<std::uint64_t> in_the_way;
  {
    const std::lock_guard guard(mutex_);
    if (const auto freed = freed_.take(bytes)) {
      allocations_.fetch_add(1, std::memory_order_relaxed);
      return *freed;
    }
    in_the_way = freed_.make_space(bytes);
  }
  free_now(in_the_way);
  const std::uint64_t address = allocate_new(bytes);
  allocations_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard guard(mutex_);
  if (restart_ == nullptr) freed_.add(address, bytes);
  return address;
}

void device::release(std::uint64_t address) noexcept {
  std::unique_lock lock(mutex_);
  const bool is_kept = freed_.keep(address);
  lock.unlock();
  if (!is_kept) free_now({&address, 1});
  allocations_.fetch_sub(1, std::memory_order_relaxed);
}

void device::drop_freed_blocks() noexcept {
  std::vector<std::uint64_t> dropped;
  {
    const std::lock_guard guard(mutex_);
    dropped = freed_.drop();
  }
  free_now(dropped);
}

void device::free_now(std::span<const std::uint64_t> addresses) noexcept {
  const node on = where();
  for (const std::uint64_t address : addresses) {
    auto memory = buffer<std::byte>::adopt(on, bytes_of(on, address, 1));
    memory.reset();
  }
}

entry_list* device::load(const device_image& image) {
  auto loaded = std::make_unique<loaded_image>();
  loaded->bytes = {static_cast<const std::byte*>(image.begin),
                   static_cast<const std::byte*>(image.end)};
  for (const image_entry* e = image.entries_begin; e != image.entries_end; ++e)
    loaded->names.emplace_back(e->name);
  const node on = where();
  const auto addresses = load_on(on, loaded->bytes, loaded->names);
  const std::lock_guard guard(mutex_);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    image_entry entry = image.entries_begin[i];
    if (entry.size != 0) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of the target, in libomptarget's form
      entry.address = reinterpret_cast<void*>(addresses[i]);
      has_variables_ = true;
    } else if (addresses[i] == 0) {
      entry.address = nullptr;
    } else {
      entry.address = &loaded->regions.emplace_back(region{loaded->names[i], addresses[i]});
    }
    loaded->entries.push_back(entry);
  }
  loaded->table = {loaded->entries.data(), loaded->entries.data() + loaded->entries.size()};
  images_.push_back(std::move(loaded));
  return &images_.back()->table;
}

void device::load_again(const node& on) {
  for (const auto& image : images_) {
    const auto addresses = load_on(on, image->bytes, image->names);
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      if (image->entries[i].address != nullptr)
        static_cast<region*>(image->entries[i].address)->code = addresses[i];
    }
  }
}

} // namespace farcall::openmp
