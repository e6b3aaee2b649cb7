#include <farcall/transport/tcp/unproved_arrivals.hpp>

#include <algorithm>
#include <utility>

#include <sys/resource.h>

namespace farcall::tcp {

std::size_t unproved_arrivals::room() noexcept {
  constexpr rlim_t part = 8;
  constexpr rlim_t least = 16;
  constexpr rlim_t most = 256;
  rlimit limit{};
  const rlim_t all = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
  return std::clamp(all / part, least, most);
}

void unproved_arrivals::add(const std::string& peer, const receiver& receive) {
  const std::lock_guard guard(mutex_);
  if (const auto displaced = peers_.displaced()) {
    const refusal refuse = std::move(waiting_[*displaced].refuse);
    forget(*displaced);
    refuse("it has not proved yet that it belongs to the job, and too many others have come");
  }
  const std::uint64_t number = ++last_;
  refusal refuse = receive([this, number] {
    const std::lock_guard decided(mutex_);
    forget(number);
  });
  const std::string source = source_of(peer);
  peers_.add(number, source);
  waiting_[number] = {source, std::move(refuse)};
}

void unproved_arrivals::forget(std::uint64_t number) noexcept {
  const auto at = waiting_.find(number);
  if (at == waiting_.end()) return;
  peers_.remove(number, at->second.source);
  waiting_.erase(at);
}

} // namespace farcall::tcp
