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

/// The number by which nodes speak of a name: FNV-1a of its bytes, 64 bits, and never 0.
[[nodiscard]] constexpr fc_function hash_of(std::string_view name) noexcept {
  fc_function hash = 0xcbf29ce484222325;
  for (const char c : name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash == 0 ? 1 : hash;
}

/// Makes the number that the header of a request has for a function, for timelines.
[[nodiscard]] constexpr function_handle handle_of(fc_function function) noexcept {
  return {static_cast<std::uint32_t>(function)};
}

/// The names that a process knows, by hash, and what is registered under them. Any thread may use
/// it; looking up takes no lock. Names are never forgotten, so that two with one hash are noticed.
class function_table {
 public:
  /// A handler as it was registered. Stays valid when it is taken back.
  struct registration {
    fc_handler run;
    void* user;
  };

  function_table();
  function_table(const function_table&) = delete;
  function_table& operator=(const function_table&) = delete;
  ~function_table();

  /// That of the process.
  [[nodiscard]] static function_table& instance();

  /// Gets to know a name; `hash` is its hash_of(), except in tests. Throws invalid_argument for an
  /// empty name and when another name has that hash.
  fc_function know(std::string_view name, fc_function hash);

  /// Throws invalid_argument as know() does, and for a name that is registered already.
  void add(std::string_view name, fc_function hash, registration what);
  /// False when the name is not registered.
  bool remove(fc_function hash);

  /// What is registered, or null.
  [[nodiscard]] const registration* find(fc_function hash) const noexcept {
    const row* const found = row_of(hash);
    // Acquire; partner: the release store in add().
    return found == nullptr ? nullptr : found->now.load(std::memory_order_acquire);
  }

  /// The name with that hash; null when this process does not know it.
  [[nodiscard]] const std::string* name_of(fc_function hash) const noexcept {
    const row* const found = row_of(hash);
    return found == nullptr ? nullptr : &found->name;
  }

  /// The name whose hash has that handle_of(); empty if this process knows none, or several.
  [[nodiscard]] std::string name_by_handle(function_handle handle);

 private:
  struct row {
    row(std::string_view called, fc_function number) : hash(number), name(called) {}
    fc_function hash;
    std::string name;
    std::atomic<const registration*> now{nullptr};
  };
  /// Open addressing with steps of one; a power of two places, of which at most half are taken.
  struct index {
    explicit index(std::size_t places) : mask(places - 1), rows(places) {}
    std::size_t mask;
    std::vector<std::atomic<row*>> rows;
  };

  [[nodiscard]] row* row_of(fc_function hash) const noexcept {
    // Acquire; partner: the release store in grow().
    const index& all = *index_.load(std::memory_order_acquire);
    for (std::size_t at = hash & all.mask;; at = (at + 1) & all.mask) {
      // Acquire; partner: the release store in place().
      row* const r = all.rows[at].load(std::memory_order_acquire);
      if (r == nullptr || r->hash == hash) return r;
    }
  }

  [[nodiscard]] row& known(std::string_view name, fc_function hash);
  static void place(index& all, row* r) noexcept;
  void grow(std::size_t places);

  std::mutex mutex_; ///< of those who change something
  std::atomic<const index*> index_{nullptr};
  std::vector<std::unique_ptr<index>> indices_; ///< the last is in use; readers may be in others
  std::vector<std::unique_ptr<row>> rows_;
  std::vector<std::unique_ptr<registration>> registrations_;
};

} // namespace farcall::c
