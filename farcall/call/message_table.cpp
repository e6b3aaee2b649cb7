// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/call/entry.hpp>
#include <farcall/call/message_table.hpp>

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace farcall::detail {
namespace {

struct message_types {
  struct type {
    std::string name; ///< copy of the name, because a library may be unloaded
    /// Code of the type's entry; null if no other type can have this name.
    am::handler_function code;
    bool operator==(const type&) const = default;
  };

  std::mutex mutex;
  std::vector<type> all;

  static message_types& instance() {
    // The object is never destroyed, because static objects of libraries may outlive it.
    static auto* const types = new message_types;
    return *types;
  }
};

} // namespace

std::uint32_t number_of_message_type(const char* name, am::handler_function code) noexcept {
  try {
    const message_types::type wanted{name, may_be_local(name) ? code : nullptr};
    message_types& types = message_types::instance();
    const std::lock_guard guard(types.mutex);
    const auto found = std::find(types.all.begin(), types.all.end(), wanted);
    const auto number = static_cast<std::uint32_t>(found - types.all.begin()) + 1;
    if (found != types.all.end()) return number;
    if (number > message_table::most) return 0;
    types.all.push_back(wanted);
    return number;
  } catch (const std::exception&) {
    return 0;
  }
}

message_table::~message_table() {
  for (registration* each = last_.load(std::memory_order_acquire); each != nullptr;)
    delete std::exchange(each, each->before);
}

void message_table::set(std::uint32_t number, void (*run)(), void* context) {
  if (number == 0)
    throw error("a program has at most " + std::to_string(most) + " types of raw messages");
  if (run == nullptr) {
    // Relaxed, because no thread relies on seeing the removal.
    handlers_[number].store(nullptr, std::memory_order_relaxed);
    return;
  }
  auto* const made = new registration{run, context, last_.load(std::memory_order_relaxed)};
  // Release, paired with the acquire load in the destructor, which then sees the registration's
  // members.
  while (!last_.compare_exchange_weak(made->before, made, std::memory_order_release,
                                      std::memory_order_relaxed)) {
  }
  // Release, paired with the acquire load in find(), so that the registration's members are
  // visible.
  handlers_[number].store(made, std::memory_order_release);
}

} // namespace farcall::detail
