// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/error.hpp>
#include <farcall/native/signature.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace farcall::native {

/// A call, or another use, of a library that is not loaded, or not any more.
class unknown_library : public error {
 public:
  using error::error;
};

/// A function of a library of this process. It exists as long as the library is in the table.
struct function {
  std::string name;
  const signature* type = nullptr;
  const void* code = nullptr;
};

/// The functions of one library that were looked up. One thread at a time may add a function; other
/// threads may read at the same time.
class function_list {
 public:
  /// Returns the function with this number, or null if there is none.
  [[nodiscard]] const function* at(std::uint32_t number) const noexcept {
    // Acquire, paired with the release store in add(), so that the function is visible.
    if (number >= size_.load(std::memory_order_acquire)) return nullptr;
    const place p = place_of(number);
    return &chunks_[p.chunk][p.offset];
  }
  /// Adds the function, and returns its number. Returns the number that it has if it is in the list
  /// already. Throws std::bad_alloc.
  std::uint32_t add(function added);

 private:
  /// Chunk k has first_chunk << k functions, so that functions need not be moved for more of them.
  static constexpr std::uint32_t first_chunk = 16;
  static constexpr std::size_t chunk_count = 28;
  struct place {
    std::size_t chunk;
    std::size_t offset;
  };
  [[nodiscard]] static place place_of(std::uint32_t number) noexcept;

  std::array<std::unique_ptr<function[]>, chunk_count> chunks_;
  std::atomic<std::uint32_t> size_{0};
};

/// The libraries that this process has loaded for calls from other nodes. Each has an id, which no
/// other library gets later, in this process or, most likely, in another one. Any thread may use
/// the table.
class library_table {
 public:
  library_table();
  library_table(const library_table&) = delete;
  library_table& operator=(const library_table&) = delete;
  ~library_table();

  /// Returns the table of the process, which is never destroyed.
  [[nodiscard]] static library_table& instance();

  /// Loads a library, and returns its id. An empty path stands for the program itself. Throws error
  /// with the loader's text, also if too many libraries are loaded.
  std::uint64_t load(const std::string& path);
  /// Removes a library from the table, and unloads it after the last of its calls that have begun.
  /// Throws unknown_library, and error if the loader cannot unload it now.
  void unload(std::uint64_t id);
  /// Looks a function up, and returns its number in the library. Throws unknown_library, and error
  /// if the library lacks the symbol, or if this processor has no code for calls.
  std::uint32_t find(std::uint64_t id, const std::string& symbol,
                     const std::string& signature_text);

  class use;

 private:
  struct library {
    std::string path;
    void* handle = nullptr;
    function_list functions;
  };
  /// Place of a library. The upper half of `state` is its generation, which changes when a library
  /// is put there and when it is removed; it is odd in between. The lower half is the number of
  /// uses.
  struct alignas(64) slot {
    std::atomic<std::uint64_t> state{0};
    std::unique_ptr<library> content;
    bool is_closing = false; ///< true from unload() until the library was unloaded
  };

  static constexpr std::size_t slot_count = 1024;
  static constexpr std::uint64_t one_generation = std::uint64_t{1} << 32;
  static constexpr std::uint32_t uses_of(std::uint64_t state) noexcept {
    return static_cast<std::uint32_t>(state);
  }

  /// Returns the slot of the library with this id. Returns null if no library can have the id.
  [[nodiscard]] slot* slot_of(std::uint64_t id) const noexcept;
  /// Returns true if a slot with this state contains the library with this id.
  [[nodiscard]] bool is_loaded(std::uint64_t state, std::uint64_t id) const noexcept;
  /// Unloads the library of a slot if the library was removed and has no use. Returns the loader's
  /// text if it cannot; else an empty text.
  std::string close_if_unused(slot& s) noexcept;
  void leave(slot& s) noexcept;

  const std::uint64_t salt_; ///< difference between the upper halves of a slot's state and of an id
  std::mutex mutex_;         ///< held for all changes except of the number of uses
  std::unique_ptr<slot[]> slots_;
};

/// Keeps a library loaded as long as this object exists.
class library_table::use {
 public:
  /// Begins a use of the library with this id, if there is one.
  use(library_table& table, std::uint64_t id) noexcept;
  ~use() {
    if (slot_ != nullptr) table_.leave(*slot_);
  }
  use(const use&) = delete;
  use& operator=(const use&) = delete;

  /// Returns the function with this number. Throws unknown_library if the library or the function
  /// does not exist.
  [[nodiscard]] const function& at(std::uint32_t number) const;

 private:
  friend class library_table;

  [[nodiscard]] library& get() const;

  library_table& table_;
  slot* slot_;
  library* library_ = nullptr;
};

} // namespace farcall::native
