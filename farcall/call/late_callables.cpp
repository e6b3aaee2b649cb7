// SPDX-License-Identifier: Apache-2.0
#include <farcall/call/entry.hpp>
#include <farcall/call/late_callables.hpp>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

namespace farcall::late_callables {
namespace {

/// Code of each late callable, by number. Null as long as the number is not assigned to a callable.
constinit std::array<std::atomic<am::handler_function>, most> code{};

/// Handler of the callable with this number. There is a handler for each number from the start,
/// because a job's handlers cannot change after the job has begun.
template <std::size_t Number>
void run(am::request_context& request) noexcept {
  // Acquire, paired with the release store in number_of(), so that everything that the loading of
  // the library has written is visible.
  const am::handler_function f = code[Number].load(std::memory_order_acquire);
  if (f == nullptr) return request.reply_unknown();
  f(request);
}

struct numbers {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, std::uint32_t> given;

  static numbers& instance() {
    // The object is never destroyed, because a static job may end after all other static objects.
    static auto* const all = new numbers;
    return *all;
  }
};

} // namespace

std::uint32_t number_of(const std::string& name, const std::string& signature) {
  numbers& all = numbers::instance();
  const std::lock_guard guard(all.mutex);
  const std::pair key(name, signature);
  if (const auto at = all.given.find(key); at != all.given.end()) return at->second;
  const auto number = static_cast<std::uint32_t>(all.given.size());
  const entry* const found =
      number < most ? function_registry::find_late(name, signature) : nullptr;
  if (found == nullptr) return none;
  all.given.emplace(key, number);
  code[number].store(found->run(), std::memory_order_release);
  return number;
}

std::vector<am::handler_function> handlers() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return std::vector<am::handler_function>{&run<I>...};
  }(std::make_index_sequence<most>{});
}

} // namespace farcall::late_callables
