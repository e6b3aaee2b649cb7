// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/fork.hpp>
#include <farcall/base/unique_fd.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include <fcntl.h>
#include <sys/eventfd.h>

namespace farcall {
namespace {

/// Exclusive upper bound of the numbers of descriptors that the child of a fork closes. A
/// descriptor with a higher number stays open in the child. The bound is the default limit of
/// descriptors of a process.
constexpr std::size_t max_descriptors = std::size_t{1} << 20;
constexpr std::size_t bits = 64;

/// Bit set of the descriptors that the child of a fork closes. All accesses are relaxed. The child
/// sees all changes that the forking thread has seen before the fork, and perhaps changes that
/// other threads make at the same time.
std::array<std::atomic<std::uint64_t>, max_descriptors / bits> marked{};
std::atomic<std::size_t> words_in_use{0};

[[nodiscard]] constexpr std::uint64_t bit_of(int fd) noexcept {
  return std::uint64_t{1} << static_cast<std::size_t>(fd) % bits;
}

[[nodiscard]] bool is_in_table(int fd) noexcept {
  return fd >= 0 && static_cast<std::size_t>(fd) < max_descriptors;
}

/// Closes marked descriptors in the child of a fork, by replacing each with an unused object. The
/// child has copies of the parent's objects that hold the descriptors' numbers. When the child
/// destroys such an object, the object closes its number, so the numbers must stay in use until
/// then.
class descriptors_of_children final : public fork_observer {
 public:
  static void start() {
    // The object is never destroyed, because static objects may hold descriptors.
    static const auto* const one = new descriptors_of_children;
    (void)one;
  }

 private:
  descriptors_of_children() { watch_forks(); }

  void after_fork_in_child() noexcept override {
    const int reason = errno;
    int nothing = -1;
    const std::size_t words = words_in_use.load(std::memory_order_relaxed);
    for (std::size_t word = 0; word < words; ++word) {
      for (std::uint64_t left = marked[word].load(std::memory_order_relaxed); left != 0;
           left &= left - 1) {
        const auto fd =
            static_cast<int>(word * bits + static_cast<std::size_t>(std::countr_zero(left)));
        replace(fd, nothing);
      }
    }
    if (nothing >= 0) ::close(nothing);
    errno = reason;
  }

  /// Makes the number `fd` refer to an eventfd, so that the old object is closed and the number
  /// stays in use.
  static void replace(int fd, int& nothing) noexcept {
    if (nothing < 0) nothing = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (nothing < 0) {
      // If the limit of descriptors is reached, close this descriptor first and reuse its number.
      ::close(fd);
      const int made = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
      if (made >= 0 && made != fd) {
        ::dup3(made, fd, O_CLOEXEC);
        ::close(made);
      }
      return;
    }
    ::dup3(nothing, fd, O_CLOEXEC);
  }
};

} // namespace

void unique_fd::close_on_fork() {
  if (!is_in_table(fd_)) return;
  descriptors_of_children::start();
  const std::size_t word = static_cast<std::size_t>(fd_) / bits;
  marked[word].fetch_or(bit_of(fd_), std::memory_order_relaxed);
  std::size_t used = words_in_use.load(std::memory_order_relaxed);
  while (used <= word &&
         !words_in_use.compare_exchange_weak(used, word + 1, std::memory_order_relaxed)) {
  }
}

void unique_fd::unmark(int fd) noexcept {
  if (!is_in_table(fd)) return;
  auto& word = marked[static_cast<std::size_t>(fd) / bits];
  if ((word.load(std::memory_order_relaxed) & bit_of(fd)) == 0) return;
  word.fetch_and(~bit_of(fd), std::memory_order_relaxed);
}

} // namespace farcall
