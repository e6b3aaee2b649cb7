#include <farcall/am/completion.hpp>
#include <farcall/am/engine.hpp>

namespace farcall::am {

void completion::attach(continuation* c) noexcept {
  guard_->lock();
  const bool now = ready();
  if (!now) then_ = c;
  guard_->unlock();
  if (now) c->run();
}

bool completion::detach(const continuation* c) noexcept {
  guard_->lock();
  const bool was_attached = then_ == c;
  if (was_attached) then_ = nullptr;
  guard_->unlock();
  return was_attached;
}

void local_completion::complete(std::exception_ptr failure) noexcept {
  guard().lock();
  failure_ = std::move(failure);
  continuation* then = mark_ready();
  guard().unlock();
  if (owner() != nullptr) engine_of(*owner()).notify_local();
  if (then != nullptr) then->run();
  release();
}

} // namespace farcall::am
