// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/request_context.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace farcall {

namespace detail {
/// Object whose address identifies the library, or the program, that includes this header. Each of
/// them has its own object.
[[gnu::visibility("hidden")]] inline constinit char own_place = 0;

/// True if a mangled name may belong to an entity of a single source file: a static function
/// (marked by L and the length of its name), a type in an unnamed namespace, or a lambda. Also true
/// for some names that are visible to all files.
[[nodiscard]] bool may_be_local(std::string_view name) noexcept;
} // namespace detail

/// Name of the compiler of the file that includes this header.
#ifdef __clang__
static constexpr const char* entry_compiler = "clang";
#else
static constexpr const char* entry_compiler = "gcc";
#endif

/// One callable that the program names: its name for peers, and the code that runs it on this node.
/// There is a static object for each callable. All objects are linked in a list before main(), or
/// when their library is loaded.
///
/// The list is the only part of farcall that exists before main(). A target needs it that early,
/// because it must know each function that is called anywhere in the program before the first such
/// call arrives.
///
/// A library with entries stays loaded until the process ends, even after dlclose(), because peers
/// may call its functions at any time, and because the function registry refers to them.
class entry {
 public:
  using signature_function = std::string (*)();
  /// Function that returns the name of the function which a request calls. `extra` is the number in
  /// the request's header that tells the function. Returns an empty string if the name is unknown.
  using name_function = std::string (*)(std::uint32_t extra);

  /// Makes an entry and adds it to the list. `compiler` is the compiler of the file that names the
  /// callable. `name_of_request` is needed only if one entry serves several functions, and the
  /// request tells which of them to call.
  entry(const char* name, signature_function signature_of, am::handler_function code,
        const char* compiler, name_function name_of_request = nullptr) noexcept
      : name_(name), signature_(signature_of), run_(code), compiler_(compiler),
        name_of_(name_of_request), next_(first_.load(std::memory_order_relaxed)) {
    // Release, paired with the acquire loads in entry.cpp, so that a thread that finds the entry
    // sees its members. A loop is needed because any thread may load a library.
    while (!first_.compare_exchange_weak(next_, this, std::memory_order_release,
                                         std::memory_order_relaxed)) {
    }
    keep_loaded(&detail::own_place);
  }
  entry(const entry&) = delete;
  entry& operator=(const entry&) = delete;

  /// Returns the entry's row in the function registry, or 0 if the registry does not (yet) have
  /// this entry.
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
  /// Returns the mangled name of the callable's type. All compilers of the Itanium ABI produce the
  /// same name.
  [[nodiscard]] const char* name() const noexcept;
  /// Returns the signature. For a lambda, the signature includes the compiler, because compilers
  /// number lambdas differently.
  [[nodiscard]] std::string signature() const;
  /// Returns the name by which peers find the callable. If only one source file or library knows
  /// the callable, the name includes this file or library; in a stripped program, it includes the
  /// build. Reads the program's symbols.
  [[nodiscard]] std::string name_for_peers() const;
  [[nodiscard]] am::handler_function run() const noexcept { return run_; }
  /// Returns the name of the function that a request runs if its header has the number `extra`.
  /// Returns an empty name if the callable's own name suffices.
  [[nodiscard]] std::string name_of(std::uint32_t extra) const {
    return name_of_ == nullptr ? std::string() : name_of_(extra);
  }

 private:
  friend class function_registry;

  /// Keeps the library that contains the address `part` loaded until the process ends.
  static void keep_loaded(const void* part) noexcept;

  static constinit std::atomic<entry*> first_;

  const char* name_;
  signature_function signature_;
  am::handler_function run_;
  const char* compiler_;
  name_function name_of_;
  entry* next_;
  std::uint32_t index_ = 0;
};

/// All entries of the program, sorted by name and signature, so that two programs with the same
/// entries number them alike. The registry is made once per process. Entries of libraries that are
/// loaded later are not in it (late_callables.hpp).
class function_registry {
 public:
  /// Index of the first row with an entry. Row 0 means "not in the registry".
  static constexpr std::uint32_t first_index = 1;

  /// A row of the registry: an entry, and the texts by which peers match it.
  struct row {
    entry* code = nullptr;
    std::string name;
    std::string signature;
    bool twice = false;    ///< true if another entry has the same name and signature
    bool is_local = false; ///< true if only the callable's source file or library may know it
  };

  [[nodiscard]] static const function_registry& instance();

  /// Returns the rows, by index. Row 0 is empty.
  [[nodiscard]] const std::vector<row>& rows() const noexcept { return rows_; }

  /// Returns the names and signatures of all rows in order, for a peer with a different function
  /// registry. If only one source file knows a callable, the callable's name includes the file. Row
  /// 0 names the standard library. Reads the program's symbols.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> names() const;

  /// Returns a number that is equal on two nodes if their function registries are equal, row by
  /// row.
  [[nodiscard]] std::uint64_t digest() const noexcept { return digest_; }

  /// Returns the row with this name_for_peers() and signature. Returns 0 if there is none, or more
  /// than one.
  [[nodiscard]] std::uint32_t row_of(const std::string& name, const std::string& signature) const;

  /// Returns the entry with this name_for_peers() and signature among the entries that are not in
  /// the registry. Returns null if there is none, or if several entries with a local name match.
  [[nodiscard]] static const entry* find_late(const std::string& name,
                                              const std::string& signature);

 private:
  function_registry();

  std::vector<row> rows_;
  std::uint64_t digest_ = 0;
};

/// Returns, for each row of `own`, the row of a peer's function registry with the same name and
/// signature, or 0. Rows that exist twice on either side match no row, because the match would be
/// ambiguous.
[[nodiscard]] std::vector<std::uint32_t>
match_tables(const std::vector<std::pair<std::string, std::string>>& own,
             const std::vector<std::pair<std::string, std::string>>& peer);

} // namespace farcall
