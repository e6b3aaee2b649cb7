// SPDX-License-Identifier: Apache-2.0
#include <farcall/copy/copy_state.hpp>
#include <farcall/copy/transfer.hpp>

#include <algorithm>
#include <future>
#include <memory>
#include <utility>

namespace farcall::detail {
namespace {

using std::chrono::milliseconds;

/// A continuation that does nothing except report that it has run. All continuations that were
/// queued before it have then run, too.
class marker final : public am::continuation {
 public:
  explicit marker(std::shared_ptr<std::promise<void>> passed) : passed_(std::move(passed)) {}
  void run() noexcept override {
    passed_->set_value();
    delete this;
  }

 private:
  std::shared_ptr<std::promise<void>> passed_;
};

} // namespace

copy_state::~copy_state() {
  unwatch_forks();
  drop_last_window(job);
}

void copy_state::after_fork_in_child() noexcept {
  // The child's copies must not pass by the checks of the job. The memory stays mapped, because
  // locks that other threads held would be needed to unmap it.
  if (last_window.job == &job) last_window = {};
}

std::byte* copy_state::map_until_end(node_id node, std::uint64_t address, std::size_t bytes) {
  {
    const std::lock_guard guard(kept_mutex_);
    for (const auto& [of, window] : kept_) {
      std::byte* const here = of == node ? window.range.find(address, bytes) : nullptr;
      if (here != nullptr) return here;
    }
  }
  found_memory found = find_mapped(*this, node, address, bytes);
  if (found.window.owner != nullptr) {
    const std::lock_guard guard(kept_mutex_);
    kept_.emplace_back(node, std::move(found.window));
  }
  return found.here;
}

memory_domain* copy_state::domain_of(node_id node) const {
  transport* const way = members().route_to(node).via;
  return way == nullptr ? nullptr : way->memory();
}

bool copy_state::settle_late_puts(node_id peer, time_point deadline) {
  return late_puts.settle([=](const auto& put) { return put.peer == peer; }, deadline);
}

bool copy_state::settle_puts(node_id peer, time_point deadline) {
  rma_engine* const m = engine().rma_engine_for(peer);
  return (m == nullptr || m->settle(peer, deadline)) && settle_late_puts(peer, deadline);
}

void copy_state::finish(milliseconds duration) {
  const time_point deadline = deadline_after(duration);
  thread.finish(duration);
  if (!thread.has_started()) return;
  const auto passed = std::make_shared<std::promise<void>>();
  am::continuation_list behind;
  behind.push_back(*new marker(passed));
  engine().other_thread().take(behind);
  (void)passed->get_future().wait_until(deadline);
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - clock::now());
  thread.finish(std::max(left, milliseconds(0)));
}

} // namespace farcall::detail
