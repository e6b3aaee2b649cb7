#include <farcall/transport/tcp/unproved_arrivals.hpp>

#include <utility>

namespace farcall::tcp {

void unproved_arrivals::add(const std::string& peer, const receiver& receive) {
  const std::lock_guard guard(mutex_);
  if (const auto displaced = waiting_.displaced()) {
    const refusal refuse = waiting_.take(*displaced).value();
    refuse("it has not proved yet that it belongs to the job, and too many others have come");
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
