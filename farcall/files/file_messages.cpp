// SPDX-License-Identifier: Apache-2.0
#include <farcall/files/file_messages.hpp>
#include <farcall/files/user_memory.hpp>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include <fcntl.h>

namespace farcall::files {
namespace {

struct flag_pair {
  int system;
  std::uint32_t ours;
};

// The order matters: O_SYNC comes before O_DSYNC and O_TMPFILE before O_DIRECTORY, because the
// former contain the bits of the latter.
constexpr flag_pair flag_pairs[] = {
    {O_CREAT, open_flags::create},        {O_EXCL, open_flags::exclusive},
    {O_TRUNC, open_flags::truncate},      {O_APPEND, open_flags::append},
    {O_NONBLOCK, open_flags::nonblock},   {O_SYNC, open_flags::sync},
    {O_DSYNC, open_flags::data_sync},     {O_TMPFILE, open_flags::temporary},
    {O_DIRECTORY, open_flags::directory}, {O_NOFOLLOW, open_flags::no_follow}};

struct place {
  void* to;
  landing_sink* sink; ///< null if the bytes go to `to`
  std::size_t bytes;
  std::atomic<bool> is_full{false};
};

/// All landing places of this process. Never destroyed, because threads may still wait for replies
/// while static objects are destroyed.
struct places {
  std::shared_mutex mutex;
  std::uint64_t last = 0;
  std::unordered_map<std::uint64_t, place> all;

  std::uint64_t add(void* to, landing_sink* sink, std::size_t bytes) {
    const std::lock_guard guard(mutex);
    all.try_emplace(++last, to, sink, bytes);
    return last;
  }

  static places& instance() {
    static auto* const all = new places;
    return *all;
  }
};

} // namespace

std::uint32_t to_open_flags(int system_flags) noexcept {
  std::uint32_t flags = static_cast<std::uint32_t>(system_flags) & open_flags::access_mode;
  for (const flag_pair& p : flag_pairs) {
    if ((system_flags & p.system) != p.system) continue;
    flags |= p.ours;
  }
  return flags;
}

int to_system_flags(std::uint32_t flags) noexcept {
  int system = static_cast<int>(flags & open_flags::access_mode);
  for (const flag_pair& p : flag_pairs) {
    if ((flags & p.ours) != 0) system |= p.system;
  }
  return system;
}

landing_place::landing_place(void* to, std::size_t bytes)
    : number_(places::instance().add(to, nullptr, bytes)) {}

landing_place::landing_place(landing_sink& to, std::size_t bytes)
    : number_(places::instance().add(nullptr, &to, bytes)) {}

landing_place::~landing_place() {
  places& p = places::instance();
  const std::lock_guard guard(p.mutex);
  p.all.erase(number_);
}

bool landing_place::redirect(void* to) noexcept {
  places& p = places::instance();
  const std::lock_guard guard(p.mutex);
  place& mine = p.all.at(number_);
  // Relaxed, because the mutex orders the accesses.
  if (mine.is_full.load(std::memory_order_relaxed)) return false;
  mine.to = to;
  return true;
}

std::int64_t landing_place::put(std::uint64_t number, const std::byte* from,
                                std::size_t bytes) noexcept {
  places& p = places::instance();
  // Hold the lock during the copy, because the destructor of the landing place locks it as well,
  // and so the memory stays valid.
  const std::shared_lock guard(p.mutex);
  const auto at = p.all.find(number);
  if (at == p.all.end() || bytes > at->second.bytes) return -EIO;
  const bool was_full = at->second.is_full.exchange(true, std::memory_order_relaxed);
  if (landing_sink* const sink = at->second.sink; sink != nullptr)
    return was_full ? -EIO : sink->take(from, bytes);
  return copy_to_user(at->second.to, from, bytes) ? 0 : -EFAULT;
}

} // namespace farcall::files
