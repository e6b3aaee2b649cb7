// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/tcp/unproved_arrivals.hpp>

#include <utility>

namespace farcall::tcp {

void unproved_arrivals::add(const std::string& peer, const receiver& receive) {
  std::unique_lock guard(mutex_);
  while (const auto displaced = waiting_.displaced()) {
    const refusal refuse = waiting_.take(*displaced).value();
    // Unlock the mutex first, because refuse() locks the connection. Another thread that decides
    // about this connection locks the connection first, and then this mutex, so that the two
    // threads could block each other.
    guard.unlock();
    refuse("it has not proved yet that it belongs to the job, and too many other connections wait");
    guard.lock();
  }
  const std::uint64_t number = waiting_.add(peer, {});
  try {
    *waiting_.find(number) = receive([this, number] {
      const std::lock_guard decided(mutex_);
      waiting_.take(number);
    });
  } catch (...) {
    waiting_.take(number);
    throw;
  }
}

} // namespace farcall::tcp
