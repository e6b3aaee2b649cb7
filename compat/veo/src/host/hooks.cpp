// SPDX-License-Identifier: Apache-2.0
#include "hooks.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>

namespace farcall::veo {
namespace {

std::shared_mutex mutex;
// True after the first hook was set. While it is false, the look-up of a hook takes no lock.
std::atomic<bool> any{false};

std::map<void*, hook>& hooks() {
  static std::map<void*, hook> all;
  return all;
}

} // namespace

void set_hook(void* key, hook h) {
  const std::unique_lock guard(mutex);
  hooks()[key] = h;
  any.store(true, std::memory_order_release);
}

hook hook_of(void* key) noexcept {
  if (!any.load(std::memory_order_acquire)) return {};
  const std::shared_lock guard(mutex);
  const auto it = hooks().find(key);
  return it == hooks().end() ? hook{} : it->second;
}

void remove_hook(void* key) noexcept {
  const std::unique_lock guard(mutex);
  hooks().erase(key);
}

} // namespace farcall::veo
