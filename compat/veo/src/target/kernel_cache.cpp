// SPDX-License-Identifier: Apache-2.0
#include "kernel_cache.hpp"

#include <array>
#include <cstddef>
#include <utility>

namespace farcall::veo {
namespace {

struct thread_memory {
  std::uint64_t generation;
  std::array<const kernel*, 64> kernels;

  const kernel*& place_of(std::uint64_t address) noexcept {
    // The index uses the bits from 4 and from 10 on, because functions begin at multiples of 16
    // bytes and libraries at multiples of a page.
    return kernels[((address >> 4U) ^ (address >> 10U)) % std::tuple_size_v<decltype(kernels)>];
  }
};

constinit thread_local thread_memory remembered{};

std::uint64_t next_generation() noexcept {
  static std::atomic<std::uint64_t> last{0};
  // The addition is relaxed, because the number only has to differ from all earlier numbers.
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

const void* code_at(std::uint64_t address) noexcept {
  return reinterpret_cast<const void*>(address);
}

} // namespace

kernel_cache::kernel_cache() : generation_(next_generation()) {}

kernel_cache::~kernel_cache() = default;

const kernel& kernel_cache::at(std::uint64_t address) {
  // Acquire pairs with the release store in forget(). A caller that knows that forget() was called
  // for a dlclose() therefore sees the new number.
  if (remembered.generation == generation_.load(std::memory_order_acquire)) {
    const kernel* known = remembered.place_of(address);
    if (known != nullptr && known->code() == code_at(address)) return *known;
  }
  return find(address);
}

const kernel& kernel_cache::find(std::uint64_t address) {
  const std::scoped_lock lock(mutex_);
  auto place = kernels_.find(address);
  if (place == kernels_.end()) {
    std::optional<signature> known = signature_of(code_at(address));
    std::unique_ptr<const kernel> made;
    const auto [first, last] = forgotten_.equal_range(address);
    for (auto old = first; old != last; ++old) {
      if (old->second->known() != known) continue;
      made = std::move(old->second);
      forgotten_.erase(old);
      break;
    }
    if (made == nullptr) made = std::make_unique<const kernel>(code_at(address), std::move(known));
    place = kernels_.emplace(address, std::move(made)).first;
  }
  // The load is relaxed, because the number changes only under the mutex, which this thread holds.
  const std::uint64_t generation = generation_.load(std::memory_order_relaxed);
  if (remembered.generation != generation) remembered = thread_memory{generation, {}};
  remembered.place_of(address) = place->second.get();
  return *place->second;
}

void kernel_cache::forget() noexcept {
  const std::scoped_lock lock(mutex_);
  while (!kernels_.empty()) {
    forgotten_.insert(kernels_.extract(kernels_.begin()));
  }
  close_debug_information();
  // Release pairs with the acquire load in at(). The new number makes each thread drop the kernels
  // that it has remembered.
  generation_.store(next_generation(), std::memory_order_release);
}

} // namespace farcall::veo
