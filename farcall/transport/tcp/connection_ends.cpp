// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/log.hpp>
#include <farcall/transport/tcp/connection_ends.hpp>

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>
#include <vector>

namespace farcall::tcp {
namespace {

/// Interval at which given_up messages are repeated, because such a message is lost if a queue on
/// its route is full.
constexpr std::chrono::milliseconds repetition_interval{500};

} // namespace

void connection_ends::give_up(node_id peer, connection_kind kind, std::uint64_t serial,
                              std::function<void()> refused) {
  loop_->post([self = shared_from_this(), which = name{peer, kind, serial},
               done = std::move(refused)]() mutable {
    {
      const std::lock_guard guard(self->mutex_);
      if (self->is_over_ || self->gone_.contains(which.peer)) return;
      self->unconfirmed_.emplace(which, std::move(done));
      self->repeat_later();
    }
    self->tell(which, connection_word::given_up);
  });
}

void connection_ends::tell(const name& connection, connection_word word) const {
  dial_request said;
  said.serial = connection.serial;
  said.kind = connection.kind;
  said.word = word;
  tell_(connection.peer, said);
}

/// Schedules the next repetition. Called with the mutex held.
void connection_ends::repeat_later() {
  if (std::exchange(repeats_, true)) return;
  loop_->at(clock::now() + repetition_interval, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->repeat();
  });
}

void connection_ends::repeat() noexcept {
  try {
    std::vector<name> all;
    {
      const std::lock_guard guard(mutex_);
      repeats_ = false;
      if (is_over_ || unconfirmed_.empty()) return;
      for (const auto& [which, done] : unconfirmed_)
        all.push_back(which);
      repeat_later();
    }
    for (const name& which : all)
      tell(which, connection_word::given_up);
  } catch (const std::exception& e) {
    log::error(std::string("peers are not told of lost connections: ") + e.what());
  }
}

bool connection_ends::add(node_id peer, connection_kind kind, std::uint64_t serial,
                          const std::shared_ptr<revocable>& connection) {
  if (given_up_[peer][kind].has(serial)) return false;
  if (served_.size() >= purge_at_) {
    std::erase_if(served_, [](const auto& entry) { return entry.second.expired(); });
    purge_at_ = std::max<std::size_t>(64, 2 * served_.size());
  }
  served_.emplace(name{peer, kind, serial}, connection);
  return true;
}

void connection_ends::take(node_id peer, const dial_request& said) {
  const name which{peer, said.kind, said.serial};
  if (said.kind != connection_kind::lane && said.kind != connection_kind::bulk) return;
  if (said.word == connection_word::refused) {
    std::function<void()> done;
    {
      const std::lock_guard guard(mutex_);
      const auto at = unconfirmed_.find(which);
      if (at == unconfirmed_.end()) return;
      done = std::move(at->second);
      unconfirmed_.erase(at);
    }
    done();
    return;
  }
  given_up_[peer][said.kind].add(said.serial);
  const auto [first, end] = served_.equal_range(which);
  for (auto at = first; at != end; ++at) {
    if (const auto connection = at->second.lock()) connection->revoke();
  }
  served_.erase(first, end);
  tell(which, connection_word::refused);
}

void connection_ends::forget(node_id peer) noexcept {
  std::map<name, std::function<void()>> dropped;
  const std::lock_guard guard(mutex_);
  gone_[peer] = true;
  for (auto at = unconfirmed_.begin(); at != unconfirmed_.end();) {
    const auto next = std::next(at);
    if (at->first.peer == peer) dropped.insert(unconfirmed_.extract(at));
    at = next;
  }
}

void connection_ends::stop() noexcept {
  // Destroy the callbacks after the mutex was unlocked. They hold lanes, which hold references to
  // this object.
  std::map<name, std::function<void()>> dropped;
  const std::lock_guard guard(mutex_);
  is_over_ = true;
  dropped.swap(unconfirmed_);
}

} // namespace farcall::tcp
