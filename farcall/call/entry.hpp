#pragma once

#include <farcall/am/request_context.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace farcall {

namespace detail {
/// Every library has its own, and so has the program: a place inside it.
[[gnu::visibility("hidden")]] inline constinit char own_place = 0;
} // namespace detail

/// What built the file that includes this.
#ifdef __clang__
static constexpr const char* entry_compiler = "clang";
#else
static constexpr const char* entry_compiler = "gcc";
#endif

/// One callable that the program names: how peers know it, and the code that runs it here. One
/// static object per callable; they find together in a list before main(), or when the library that
/// they are in is loaded. Such a library must stay loaded.
///
/// The list is the only thing in farcall that exists before main(): a function call anywhere in the
/// program must be known on the other side before it is made.
///
/// A library that has one stays loaded until the process ends, dlclose() or not: peers may call
/// what it names at any time, and the function registry refers to it.
class entry {
 public:
  using signature_function = std::string (*)();
  /// Returns the name of what a request with that `extra` runs; empty if it is unknown.
  using name_function = std::string (*)(std::uint32_t extra);

  /// `compiler` has compiled the file that names the callable. `name_of_request` is for a callable
  /// that finds functions by what requests say.
  entry(const char* name, signature_function signature_of, am::handler_function code,
        const char* compiler, name_function name_of_request = nullptr) noexcept
      : name_(name), signature_(signature_of), run_(code), compiler_(compiler),
        name_of_(name_of_request), next_(first_.load(std::memory_order_relaxed)) {
    // Release; partner: the acquire loads in entry.cpp. Libraries may be loaded by any thread.
    while (!first_.compare_exchange_weak(next_, this, std::memory_order_release,
                                         std::memory_order_relaxed)) {
    }
    keep_loaded(&detail::own_place);
  }
  entry(const entry&) = delete;
  entry& operator=(const entry&) = delete;

  /// Place in the function registry; 0 before that was made, and when it was made without this one.
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
  /// Mangled name of the callable's type, the same for all compilers of the Itanium ABI.
  [[nodiscard]] const char* name() const noexcept;
  /// Lambdas are numbered differently by different compilers, so theirs names the compiler.
  [[nodiscard]] std::string signature() const;
  /// The name, and for a callable that only one source file or library knows also that one's name.
  /// Reads the program's symbols.
  [[nodiscard]] std::string name_for_peers() const;
  [[nodiscard]] am::handler_function run() const noexcept { return run_; }
  /// The name of what a request with that `extra` runs; empty if the callable's own name says it.
  [[nodiscard]] std::string name_of(std::uint32_t extra) const {
    return name_of_ == nullptr ? std::string() : name_of_(extra);
  }

 private:
  friend class function_registry;

  /// The library that `part` lies in.
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
/// entries number them alike. Made once per process; entries of libraries that are loaded later
/// stay outside (late_callables.hpp).
class function_registry {
 public:
  /// Rows before this one are no entries, so that row 0 can mean "not in the registry".
  static constexpr std::uint32_t first_index = 1;

  /// One entry, and what peers must know to match it.
  struct row {
    entry* code = nullptr;
    std::string name;
    std::string signature;
    bool twice = false;    ///< another entry bears the same name and signature
    bool is_local = false; ///< may be one that only its source file, or library, knows
  };

  [[nodiscard]] static const function_registry& instance();

  /// By index; row 0 is empty.
  [[nodiscard]] const std::vector<row>& rows() const noexcept { return rows_; }

  /// Names and signatures in order, for a peer whose function registry differs. A callable that
  /// only one source file knows bears that file's name too. Row 0 names the standard library. Reads
  /// the program's symbols.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> names() const;

  /// Equal on two nodes whose function registries are equal, row by row.
  [[nodiscard]] std::uint64_t digest() const noexcept { return digest_; }

  /// The row with that name_for_peers() and signature; 0 when there is none, or several.
  [[nodiscard]] std::uint32_t row_of(const std::string& name, const std::string& signature) const;

  /// The entry outside with that name_for_peers() and signature; null when there is none, or which
  /// is meant cannot be told.
  [[nodiscard]] static const entry* find_late(const std::string& name,
                                              const std::string& signature);

 private:
  function_registry();

  std::vector<row> rows_;
  std::uint64_t digest_ = 0;
};

/// For each row of `own`, the row of a peer's function registry with the same name and signature,
/// or 0. Rows that exist twice on either side match nothing: which is meant cannot be told.
[[nodiscard]] std::vector<std::uint32_t>
match_tables(const std::vector<std::pair<std::string, std::string>>& own,
             const std::vector<std::pair<std::string, std::string>>& peer);

} // namespace farcall
