// SPDX-License-Identifier: Apache-2.0
#include "bare_copies.hpp"

#include <bench/runner/echo.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>

#include <sys/mman.h>

namespace farcall::tool {

void change_all_lines(std::byte* block, std::size_t bytes) noexcept {
  constexpr std::size_t line = 64;
  for (std::size_t i = 0; i < bytes; i += line)
    block[i] ^= std::byte{1};
}

namespace {

/// Link of two processes that copy a block together. The addresses are the same in both.
struct halves {
  struct memory {
    std::byte* to = nullptr;
    std::byte* from = nullptr;
    std::size_t bytes = 0;  ///< of one half
    bool is_change = false; ///< true if each process changes a whole block instead of the copy
    alignas(128) std::atomic<std::uint64_t> asked{0};
    alignas(128) std::atomic<std::uint64_t> copied{0};
  };

  class host_side {
   public:
    explicit host_side(memory& at) : at_(at) {}

    void set(std::byte* to, std::byte* from, std::size_t bytes, bool is_change) {
      at_.to = to;
      at_.from = from;
      at_.bytes = bytes / 2;
      at_.is_change = is_change;
    }

    /// Asks for a copy of the second half, and copies the first one. Or asks for a change of the
    /// block at `to`, and changes the block at `from`.
    void ask(bool /*is_last*/) {
      at_.asked.store(++asked_, std::memory_order_release); // partner: the load in reply()
      if (at_.is_change) return change_all_lines(at_.from, 2 * at_.bytes);
      std::memcpy(at_.to, at_.from, at_.bytes);
    }
    [[nodiscard]] bool take() const {
      return at_.copied.load(std::memory_order_acquire) == asked_; // partner: the store in reply()
    }

   private:
    memory& at_;
    std::uint64_t asked_ = 0;
  };

  class echo_side {
   public:
    explicit echo_side(memory& at) : at_(at) {}

    [[nodiscard]] bool reply() {
      // Acquire; partner: the store in ask().
      const std::uint64_t asked = at_.asked.load(std::memory_order_acquire);
      if (asked == copied_) return false;
      if (at_.is_change)
        change_all_lines(at_.to, 2 * at_.bytes);
      else
        std::memcpy(at_.to + at_.bytes, at_.from + at_.bytes, at_.bytes);
      copied_ = asked;
      at_.copied.store(asked, std::memory_order_release); // partner: the load in take()
      return true;
    }

   private:
    memory& at_;
    std::uint64_t copied_ = 0;
  };
};

} // namespace

/// Two blocks of shared memory.
class mapped_copies::mapping {
 public:
  explicit mapping(std::size_t bytes_of_block) : bytes_(bytes_of_block) {
    void* const data = mmap(nullptr, 2 * bytes_, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED)
      throw failed_run("cannot map memory for bare copies: " + reason_text(errno));
    data_ = static_cast<std::byte*>(data);
  }
  ~mapping() { munmap(data_, 2 * bytes_); }
  mapping(const mapping&) = delete;
  mapping& operator=(const mapping&) = delete;
  mapping(mapping&&) = delete;
  mapping& operator=(mapping&&) = delete;

  [[nodiscard]] std::byte* first() const { return data_; }
  [[nodiscard]] std::byte* second() const { return data_ + bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

struct mapped_copies::process : echo<halves> {
  explicit process(core_pair cores) : echo(cores, "bare copies") {}
};

// The second process inherits the mapping, so that its addresses are the same.
mapped_copies::mapped_copies(core_pair cores, std::size_t max_bytes)
    : blocks_(std::make_unique<mapping>(max_bytes)), process_(std::make_unique<process>(cores)) {}

mapped_copies::~mapped_copies() = default;

void mapped_copies::begin(std::size_t bytes) {
  bytes_ = bytes;
  process_->tell(echo_state::echoing);
  copy_there_and_back();
}

void mapped_copies::copy_there_and_back() {
  copy_there();
  copy_back();
}

void mapped_copies::copy_there() { run(blocks_->second(), blocks_->first(), false); }
void mapped_copies::copy_back() { run(blocks_->first(), blocks_->second(), false); }
void mapped_copies::change() { run(blocks_->second(), blocks_->first(), true); }

void mapped_copies::run(std::byte* to, std::byte* from, bool is_change) {
  process_->side().set(to, from, bytes_, is_change);
  process_->round_trips(1);
}

void mapped_copies::end() { process_->tell(echo_state::asleep); }

void connection_copies::begin(std::size_t bytes) {
  block_.resize(bytes);
  peer_.connect();
  peer_.reserve(bytes);
  copy_there_and_back();
}

void connection_copies::copy_there_and_back() {
  peer_.send(block_);
  peer_.fetch(block_);
}

} // namespace farcall::tool
