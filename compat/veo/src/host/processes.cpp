// SPDX-License-Identifier: Apache-2.0
#include "processes.hpp"
#include "last_error.hpp"
#include "nodes.hpp"

#include <farcall/base/error.hpp>
#include <farcall/base/fork.hpp>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace farcall::veo {
namespace {

/// Time for which the program waits for kernels at its exit if it has not destroyed their process.
constexpr std::chrono::milliseconds finish_timeout_at_exit{2'000};

/// Leaks an object that a child of a fork has inherited, because destroying the object could block.
void leave_alone(std::unique_ptr<process> p) {
  static auto* const inherited = new std::vector<std::unique_ptr<process>>;
  inherited->push_back(std::move(p));
}

/// Processes by identifier.
struct all_processes final : private fork_observer {
  std::mutex mutex;
  std::vector<std::unique_ptr<process>> slots;
  std::vector<bool> taken; ///< identifiers in use; an entry is set before its process exists
  std::vector<const process*> ending; ///< processes whose destructors run

  all_processes() { watch_forks(); }
  ~all_processes() override {
    unwatch_forks();
    for (auto& p : slots) {
      if (!p) continue;
      if (p->is_inherited()) {
        leave_alone(std::move(p));
      } else {
        p->finish_timeout = finish_timeout_at_exit;
      }
    }
  }

 private:
  void before_fork() noexcept override { mutex.lock(); }
  void after_fork_in_parent() noexcept override { mutex.unlock(); }
  void after_fork_in_child() noexcept override { mutex.unlock(); }
};

all_processes& all() {
  static all_processes the;
  return the;
}

/// Throws error with the text if `is_looked_for` is false for each process. Calls it for no process
/// that was inherited by a fork, because another thread of the parent may have held its mutex.
void require_existing(const auto& is_looked_for, const char* text) {
  all_processes& a = all();
  const std::lock_guard guard(a.mutex);
  bool is_any_inherited = false;
  const auto is_it = [&](const process* p) {
    if (p == nullptr) return false;
    is_any_inherited = is_any_inherited || p->is_inherited();
    return !p->is_inherited() && is_looked_for(*p);
  };
  if (std::ranges::any_of(a.slots, [&](const auto& p) { return is_it(p.get()); })) return;
  if (std::ranges::any_of(a.ending, is_it)) return;
  if (is_any_inherited) throw forked();
  throw invalid_argument(text);
}

} // namespace

process& create_process(int node, const std::string& program) {
  const int chosen = choose_node(node);
  all_processes& a = all();
  std::size_t slot = 0;
  {
    const std::lock_guard guard(a.mutex);
    slot = static_cast<std::size_t>(std::find(a.taken.begin(), a.taken.end(), false) -
                                    a.taken.begin());
    if (slot == a.taken.size()) {
      a.taken.push_back(true);
      a.slots.emplace_back();
    }
    a.taken[slot] = true;
  }
  try {
    auto made = std::make_unique<process>(chosen, program, static_cast<int>(slot));
    const std::lock_guard guard(a.mutex);
    a.slots[slot] = std::move(made);
    return *a.slots[slot];
  } catch (...) {
    const std::lock_guard guard(a.mutex);
    a.taken[slot] = false;
    throw;
  }
}

void destroy_process(process* p) {
  all_processes& a = all();
  std::unique_ptr<process> ending;
  {
    const std::lock_guard guard(a.mutex);
    const auto it = std::find_if(a.slots.begin(), a.slots.end(),
                                 [&](const auto& known) { return known.get() == p; });
    if (p == nullptr || it == a.slots.end()) throw error("there is no such process (any more)");
    ending = std::move(*it);
    a.ending.push_back(p);
  }
  const auto slot = static_cast<std::size_t>(ending->identifier());
  // Release the identifier after the helper has ended, because until then kernels may use addresses
  // that contain it as a tag.
  if (ending->is_inherited()) {
    leave_alone(std::move(ending));
  } else {
    ending.reset();
  }
  const std::lock_guard guard(a.mutex);
  std::erase(a.ending, p);
  a.taken[slot] = false;
}

int identifier_of(const process* p) noexcept {
  all_processes& a = all();
  const std::lock_guard guard(a.mutex);
  const auto it = std::find_if(a.slots.begin(), a.slots.end(),
                               [&](const auto& known) { return known.get() == p; });
  return p == nullptr || it == a.slots.end() ? -1 : static_cast<int>(it - a.slots.begin());
}

bool is_context(const context* c) noexcept {
  all_processes& a = all();
  const std::lock_guard guard(a.mutex);
  return std::any_of(a.slots.begin(), a.slots.end(),
                     [&](const auto& p) { return p && !p->is_inherited() && p->has(c); });
}

void require_existing(const process* p) {
  require_existing([p](const process& known) { return &known == p; },
                   "this process has been destroyed");
}

void require_existing(const context* c) {
  require_existing([c](const process& known) { return known.has(c); },
                   "this context, or its process, has been closed");
}

process* process_with(int identifier) noexcept {
  all_processes& a = all();
  const std::lock_guard guard(a.mutex);
  if (identifier < 0 || static_cast<std::size_t>(identifier) >= a.slots.size()) return nullptr;
  return a.slots[static_cast<std::size_t>(identifier)].get();
}

} // namespace farcall::veo
