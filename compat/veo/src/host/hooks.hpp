#pragma once

#include <cstdint>

/// Hooks: functions of the program that are called after a successful operation. The key is the
/// address of the API function.
namespace farcall::veo {

using hook_function = void (*)(void* payload, ...);

struct hook {
  hook_function function = nullptr;
  void* payload = nullptr;
  explicit operator bool() const noexcept { return function != nullptr; }
};

/// What a function of the interface is known by.
[[nodiscard]] void* hook_key(auto* function) noexcept { return reinterpret_cast<void*>(function); }

void set_hook(void* key, hook h);
[[nodiscard]] hook hook_of(void* key) noexcept;
void remove_hook(void* key) noexcept;

} // namespace farcall::veo
