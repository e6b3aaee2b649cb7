// SPDX-License-Identifier: Apache-2.0
#include "bare_processes.hpp"

#include <bench/runner/echo.hpp>
#include <bench/runner/spin.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <sys/uio.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

using direction = bare_processes::direction;
using way = bare_processes::way;

constexpr std::size_t slot_bytes = std::size_t{64} << 10;
constexpr std::size_t slots = 16;

/// Copies of a block through slots that two processes map. One process fills each slot in turn, and
/// the other empties it.
struct slot_ring {
  void fill(std::span<const std::byte> from) {
    in_parts(from.size(), [&](std::size_t part, std::size_t at, std::size_t bytes) {
      wait([&] { return part < emptied.load(std::memory_order_acquire) + slots; });
      std::memcpy(memory[part % slots].data(), from.data() + at, bytes);
      filled.store(part + 1, std::memory_order_release);
    });
  }
  void empty(std::span<std::byte> to) {
    in_parts(to.size(), [&](std::size_t part, std::size_t at, std::size_t bytes) {
      wait([&] { return part < filled.load(std::memory_order_acquire); });
      std::memcpy(to.data() + at, memory[part % slots].data(), bytes);
      emptied.store(part + 1, std::memory_order_release);
    });
  }
  /// Begins a copy. Call in one process, before the other one knows of the copy.
  void begin() {
    filled.store(0, std::memory_order_relaxed);
    emptied.store(0, std::memory_order_relaxed);
  }

 private:
  template <class Copy>
  static void in_parts(std::size_t bytes, const Copy& copy) {
    for (std::size_t at = 0; at < bytes; at += slot_bytes)
      copy(at / slot_bytes, at, std::min(slot_bytes, bytes - at));
  }
  template <class Condition>
  static void wait(const Condition& holds) {
    constexpr std::uint32_t spins = 1U << 20;
    for (std::uint32_t spin = 0; !holds(); ++spin) {
      if (spin < spins) {
        spin_pause();
      } else if (spin < 2 * spins) {
        sched_yield();
      } else {
        throw failed_run("the other process of bare copies does not take part");
      }
    }
  }

  alignas(128) std::atomic<std::size_t> filled{0};
  alignas(128) std::atomic<std::size_t> emptied{0};
  alignas(4096) std::array<std::array<std::byte, slot_bytes>, slots> memory;
};

/// Copies between `here` and the same number of bytes of another process. Returns 0 or errno.
int attach(int pid, std::uint64_t there, std::span<std::byte> here, bool is_write) {
  while (!here.empty()) {
    const iovec local{here.data(), here.size()};
    const iovec remote{reinterpret_cast<void*>(there), here.size()};
    const ssize_t copied = is_write ? process_vm_writev(pid, &local, 1, &remote, 1, 0)
                                    : process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (copied <= 0) return errno;
    here = here.subspan(static_cast<std::size_t>(copied));
    there += static_cast<std::uint64_t>(copied);
  }
  return 0;
}

enum class task : std::uint32_t { allocate, fill, copy, check };

struct block_link {
  struct memory {
    task what = task::allocate;
    direction to = direction::to_peer;
    way by = way::attach;
    pages kind = pages::small;
    std::size_t bytes = 0;
    std::uint64_t here = 0; ///< address of the asking process's half of the copy
    int pid = 0;            ///< of the asking process
    block_content content;
    // Reply.
    std::uint64_t block = 0; ///< address of the second process's block
    int second_pid = 0;
    int reason = 0; ///< errno, or 0
    std::size_t first_wrong = 0;
    alignas(128) std::atomic<std::uint64_t> asked{0};
    alignas(128) std::atomic<std::uint64_t> done{0};
    slot_ring ring;
  };

  class host_side {
   public:
    explicit host_side(memory& at) : at(at) {}

    /// Asks for the task in the memory. If the task is a copy, makes this process's part.
    void ask(bool /*is_last*/) {
      at.pid = getpid();
      at.here = reinterpret_cast<std::uint64_t>(here.data());
      at.ring.begin();
      at.asked.store(++asked_, std::memory_order_release); // partner: the load in reply()
      if (at.what == task::copy) copy();
    }
    [[nodiscard]] bool take() const {
      return at.done.load(std::memory_order_acquire) == asked_; // partner: the store in reply()
    }

    memory& at;
    std::span<std::byte> here;
    int reason = 0; ///< of this process's half of the copy

   private:
    void copy() {
      const bool is_write = at.to == direction::to_peer;
      if (at.by == way::attach) {
        reason = attach(at.second_pid, at.block, here.first(here.size() / 2), is_write);
      } else if (is_write) {
        at.ring.fill(here);
      } else {
        at.ring.empty(here);
      }
    }

    std::uint64_t asked_ = 0;
  };

  class echo_side {
   public:
    explicit echo_side(memory& at) : at_(at) {}

    [[nodiscard]] bool reply() {
      // Acquire; partner: the store in ask().
      const std::uint64_t asked = at_.asked.load(std::memory_order_acquire);
      if (asked == done_) return false;
      at_.reason = 0;
      switch (at_.what) {
      case task::allocate:
        allocate();
        break;
      case task::fill:
        fill_block(block_->bytes(), at_.content.round);
        break;
      case task::copy:
        copy(block_->bytes());
        break;
      case task::check:
        at_.first_wrong =
            first_wrong_word(block_->bytes(), at_.content).value_or(block_->bytes().size());
        break;
      }
      done_ = asked;
      at_.done.store(asked, std::memory_order_release); // partner: the load in take()
      return true;
    }

   private:
    void allocate() {
      block_.reset();
      if (at_.bytes != 0) block_.emplace(at_.bytes, at_.kind);
      at_.block = block_ ? reinterpret_cast<std::uint64_t>(block_->bytes().data()) : 0;
      at_.second_pid = getpid();
    }

    void copy(std::span<std::byte> block) {
      const bool is_read = at_.to == direction::to_peer;
      if (at_.by == way::attach) {
        const std::size_t half = block.size() / 2;
        at_.reason = attach(at_.pid, at_.here + half, block.subspan(half), !is_read);
      } else if (is_read) {
        at_.ring.empty(block);
      } else {
        at_.ring.fill(block);
      }
    }

    memory& at_;
    std::optional<local_memory> block_;
    std::uint64_t done_ = 0;
  };
};

} // namespace

struct bare_processes::process : echo<block_link> {
  explicit process(core_pair cores) : echo(cores, "bare copies") {}

  block_link::memory& run(task what) {
    block_link::memory& at = side().at;
    at.what = what;
    side().reason = 0;
    round_trips(1);
    const int reason = side().reason != 0 ? side().reason : at.reason;
    if (reason != 0)
      throw failed_run(
          fmt::format("a bare copy by cross-memory attach failed: {}", reason_text(reason)));
    return at;
  }
};

bare_processes::bare_processes(core_pair cores) : process_(std::make_unique<process>(cores)) {}

bare_processes::~bare_processes() = default;

void bare_processes::wake() { process_->tell(echo_state::echoing); }

void bare_processes::sleep() { process_->tell(echo_state::asleep); }

void bare_processes::allocate(std::size_t bytes, pages kind) {
  process_->side().at.bytes = bytes;
  process_->side().at.kind = kind;
  process_->run(task::allocate);
}

void bare_processes::fill(std::uint64_t round) {
  process_->side().at.content = {.round = round};
  process_->run(task::fill);
}

void bare_processes::copy(std::span<std::byte> here, direction to, way by) {
  process_->side().at.to = to;
  process_->side().at.by = by;
  process_->side().here = here;
  process_->run(task::copy);
}

std::size_t bare_processes::first_wrong(block_content content) {
  process_->side().at.content = content;
  return process_->run(task::check).first_wrong;
}

} // namespace farcall::tool
