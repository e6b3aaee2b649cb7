// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/call/callable.hpp>
#include <farcall/farcall.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::c {

/// Returns the number by which messages name a function: the 64-bit FNV-1a hash of the name, or 1
/// if this hash is 0.
[[nodiscard]] constexpr fc_function hash_of(std::string_view name) noexcept {
  fc_function hash = 0xcbf29ce484222325;
  for (const char c : name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash == 0 ? 1 : hash;
}

/// Returns the function handle that the header of a request contains, namely the lower half of the
/// hash. Timelines and `farcall top` find the function's name by this handle.
[[nodiscard]] constexpr function_handle handle_of(fc_function function) noexcept {
  return {static_cast<std::uint32_t>(function)};
}

/// The function names that a process knows, with the handler that is registered under each, if
/// there is one. Any thread may use the table. Finding a handler by the hash of its name takes no
/// lock. Names are never removed, so that the table can detect two names with the same hash.
class function_table {
 public:
  /// A registered handler. The object stays valid after remove().
  struct registration {
    fc_handler run; ///< null if fc_take() returns the calls
    void* user;
  };

  function_table();
  function_table(const function_table&) = delete;
  function_table& operator=(const function_table&) = delete;
  ~function_table();

  /// Returns the table of the process.
  [[nodiscard]] static function_table& instance();

  /// Adds a name to the table, and returns its hash. `hash` is hash_of(name); only tests pass
  /// another number. Throws invalid_argument for an empty name, and if another name has the same
  /// hash.
  fc_function know(std::string_view name, fc_function hash);

  /// Registers a handler under a name. Returns true if the name has never had a handler before.
  /// Throws what know() throws, and invalid_argument if the name has a handler now.
  bool add(std::string_view name, fc_function hash, registration what);
  /// Unregisters the handler of the name with this hash. Returns false if the name has no handler.
  bool remove(fc_function hash);

  /// Returns the handler of the name with this hash, or null if there is none.
  [[nodiscard]] const registration* find(fc_function hash) const noexcept {
    const row* const found = row_of(hash);
    // Acquire, paired with the release store in add(), so that the registration is visible.
    return found == nullptr ? nullptr : found->now.load(std::memory_order_acquire);
  }

  /// Returns the name that has this hash, or null if this process does not know it.
  [[nodiscard]] const std::string* name_of(fc_function hash) const noexcept {
    const row* const found = row_of(hash);
    return found == nullptr ? nullptr : &found->name;
  }

  /// Returns the name whose hash gives this function handle. Returns an empty name if this process
  /// knows no such name, or several.
  [[nodiscard]] std::string name_by_handle(function_handle handle);

 private:
  struct row {
    row(std::string_view called, fc_function number) : hash(number), name(called) {}
    fc_function hash;
    std::string name;
    bool had_handler = false;
    std::atomic<const registration*> now{nullptr};
  };
  /// Hash table that resolves collisions by linear probing. The number of its places is a power of
  /// two, of which at most half are used.
  struct index {
    explicit index(std::size_t places) : mask(places - 1), rows(places) {}
    std::size_t mask;
    std::vector<std::atomic<row*>> rows;
  };

  [[nodiscard]] row* row_of(fc_function hash) const noexcept {
    // Acquire, paired with the release store in grow(), so that the larger table is visible.
    const index& all = *index_.load(std::memory_order_acquire);
    for (std::size_t at = hash & all.mask;; at = (at + 1) & all.mask) {
      // Acquire, paired with the release store in place(), so that the row is visible.
      row* const r = all.rows[at].load(std::memory_order_acquire);
      if (r == nullptr || r->hash == hash) return r;
    }
  }

  [[nodiscard]] row& known(std::string_view name, fc_function hash);
  static void place(index& all, row* r) noexcept;
  void grow(std::size_t places);

  std::mutex mutex_; ///< held for changes, and while name_by_handle() runs
  std::atomic<const index*> index_{nullptr};
  /// The last element is the current table. Older, smaller tables are kept, because other threads
  /// may still search in them.
  std::vector<std::unique_ptr<index>> indices_;
  std::vector<std::unique_ptr<row>> rows_;
  std::vector<std::unique_ptr<registration>> registrations_;
};

} // namespace farcall::c
