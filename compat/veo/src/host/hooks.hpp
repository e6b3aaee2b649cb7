// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// Hooks are functions of the program that are called after an API function has succeeded. The key
/// of a hook is the address of that API function.
namespace farcall::veo {

using hook_function = void (*)(void* payload, ...);

struct hook {
  hook_function function = nullptr;
  void* payload = nullptr;
  explicit operator bool() const noexcept { return function != nullptr; }
};

/// Returns the key for hooks of an API function.
[[nodiscard]] void* hook_key(auto* function) noexcept { return reinterpret_cast<void*>(function); }

void set_hook(void* key, hook h);
[[nodiscard]] hook hook_of(void* key) noexcept;
void remove_hook(void* key) noexcept;

} // namespace farcall::veo
