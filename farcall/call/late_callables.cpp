#include <farcall/call/entry.hpp>
#include <farcall/call/late_callables.hpp>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

namespace farcall::late_callables {
namespace {

/// By number; null until it is given out.
constinit std::array<std::atomic<am::handler_function>, most> code{};

/// A job's handlers are fixed when it begins, so there is one for each number from the start.
template <std::size_t Number>
void run(am::request_context& request, const void* context) noexcept {
  // Acquire; partner: the release store in number_of().
  const am::handler_function f = code[Number].load(std::memory_order_acquire);
  if (f == nullptr) return request.reply_unknown();
  f(request, context);
}

struct numbers {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, std::uint32_t> given;

  static numbers& instance() {
    // Never destroyed: a job that lives in a static object may end after everything else.
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

std::vector<am::handler> handlers(const void* context) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::vector<am::handler>{{&run<I>, context}...};
  }(std::make_index_sequence<most>{});
}

} // namespace farcall::late_callables
