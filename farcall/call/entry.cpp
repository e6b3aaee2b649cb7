// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/call/entry.hpp>
#include <farcall/call/program_image.hpp>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include <dlfcn.h>
#include <link.h>

namespace farcall {
namespace {

#ifdef _LIBCPP_VERSION
constexpr const char* library = "libc++";
#else
constexpr const char* library = "libstdc++";
#endif

/// FNV-1a hash with 64 bits. The digest distinguishes programs; it does not protect against
/// attacks.
class digest_of {
 public:
  void add(std::string_view text) noexcept {
    for (const char c : text)
      step(static_cast<unsigned char>(c));
    step(0);
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

 private:
  void step(std::uint8_t byte) noexcept { value_ = (value_ ^ byte) * 0x100000001b3; }
  std::uint64_t value_ = 0xcbf29ce484222325;
};

} // namespace

bool detail::may_be_local(std::string_view name) noexcept {
  for (std::size_t i = 0; i + 1 < name.size(); ++i) {
    if (name[i] == 'L' && name[i + 1] >= '0' && name[i + 1] <= '9') return true;
  }
  return name.find("_GLOBAL__N_") != std::string_view::npos ||
         name.find("Ul") != std::string_view::npos || name.find('$') != std::string_view::npos;
}

constinit std::atomic<entry*> entry::first_{nullptr};

void entry::keep_loaded(const void* part) noexcept {
  // Return if the last call was for the same library, so that each library is handled once. A
  // comparison with the last call is enough, because the loader initialises one library at a time,
  // and the constructors of the library's entries then run one after the other.
  static constinit const void* last = nullptr;
  if (std::exchange(last, part) == part) return;
  Dl_info info{};
  void* known = nullptr;
  if (::dladdr1(part, &info, &known, RTLD_DL_LINKMAP) == 0 || known == nullptr) return;
  const char* const file = static_cast<const link_map*>(known)->l_name;
  // An empty name in the link_map means the program itself, which always stays loaded.
  if (file == nullptr || *file == '\0') return;
  void* const library = ::dlopen(file, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  if (library != nullptr) ::dlclose(library);
}

const char* entry::name() const noexcept {
  // Skip the '*' by which g++ marks types of internal linkage; clang++ writes none.
  return *name_ == '*' ? name_ + 1 : name_;
}

std::string entry::signature() const {
  const std::string readable = demangle(name());
  // If the demangler has failed because the name is too long, look for "Ul", which marks a lambda
  // in a mangled name.
  const bool is_lambda =
      readable.find(readable == name() ? "Ul" : "{lambda(") != std::string::npos ||
      std::string_view(name()).find("$_") != std::string_view::npos;
  return is_lambda ? signature_() + "|" + compiler_ : signature_();
}

std::string entry::name_for_peers() const {
  std::string text = name();
  if (!detail::may_be_local(text)) return text;
  // In a stripped program, the source file is unknown. Use the build in its place, so that the name
  // matches in no other build.
  const program_image& image = program_image::instance();
  const auto home = image.defining_file_of(reinterpret_cast<any_function>(run()));
  return text + (home ? (home->empty() ? "" : "@" + *home) : "@" + image.build());
}

const function_registry& function_registry::instance() {
  // The registry is never destroyed, because destructors of static objects may make calls.
  static const auto* const table = new function_registry;
  return *table;
}

function_registry::function_registry() {
  for (entry* e = entry::first_.load(std::memory_order_acquire); e != nullptr; e = e->next_) {
    rows_.push_back({e, e->name(), e->signature(), false, detail::may_be_local(e->name())});
  }
  // Order functions of equal name, which are static in two files, by the addresses of their code.
  // Identical builds have the same order of addresses.
  std::sort(rows_.begin(), rows_.end(), [](const row& a, const row& b) {
    return std::tie(a.name, a.signature) < std::tie(b.name, b.signature) ||
           (a.name == b.name && a.signature == b.signature &&
            reinterpret_cast<std::uintptr_t>(a.code->run()) <
                reinterpret_cast<std::uintptr_t>(b.code->run()));
  });
  rows_.insert(rows_.begin(), first_index, row{});
  digest_of digest;
  bool any_local = false;
  for (std::uint32_t i = first_index; i < rows_.size(); ++i) {
    rows_[i].code->index_ = i;
    digest.add(rows_[i].name);
    digest.add(rows_[i].signature);
    if (i > first_index && rows_[i].name == rows_[i - 1].name &&
        rows_[i].signature == rows_[i - 1].signature) {
      rows_[i].twice = rows_[i - 1].twice = true;
    }
    any_local |= rows_[i].is_local || rows_[i].twice;
  }
  // If a name may be local to a file, or exists more than once, add the build to the digest. Equal
  // names then need not mean the same callable, because another build may have a local callable of
  // the same name, and may have its rows of equal name in another order.
  if (any_local) digest.add(program_image::instance().build());
  digest_ = digest.value();
}

std::vector<std::pair<std::string, std::string>> function_registry::names() const {
  std::vector<std::pair<std::string, std::string>> all;
  for (const row& r : rows_) {
    all.emplace_back(r.code == nullptr ? library : r.code->name_for_peers(), r.signature);
  }
  return all;
}

std::uint32_t function_registry::row_of(const std::string& name,
                                        const std::string& signature) const {
  std::uint32_t found = 0;
  for (std::uint32_t i = first_index; i < rows_.size(); ++i) {
    // Compare the row's name first. The name for peers begins with it, and needs the program's
    // symbols, which are slow to read.
    if (!name.starts_with(rows_[i].name) || rows_[i].signature != signature) continue;
    if (rows_[i].code->name_for_peers() != name) continue;
    if (found != 0) return 0;
    found = i;
  }
  return found;
}

const entry* function_registry::find_late(const std::string& name, const std::string& signature) {
  const entry* found = nullptr;
  for (const entry* e = entry::first_.load(std::memory_order_acquire); e != nullptr; e = e->next_) {
    if (e->index() != 0 || !name.starts_with(e->name()) || e->signature() != signature) continue;
    if (e->name_for_peers() != name) continue;
    // Two libraries may contain the same function from a header, but a local function must be
    // unique.
    if (found != nullptr && detail::may_be_local(e->name())) return nullptr;
    found = e;
  }
  return found;
}

std::vector<std::uint32_t>
match_tables(const std::vector<std::pair<std::string, std::string>>& own,
             const std::vector<std::pair<std::string, std::string>>& peer) {
  using name = std::pair<std::string_view, std::string_view>;
  constexpr std::uint32_t ambiguous = 0;
  const auto index = [](const std::vector<std::pair<std::string, std::string>>& table) {
    std::map<name, std::uint32_t> rows;
    for (std::uint32_t i = function_registry::first_index; i < table.size(); ++i) {
      const auto [at, is_new] = rows.emplace(name(table[i].first, table[i].second), i);
      if (!is_new) at->second = ambiguous;
    }
    return rows;
  };
  const auto own_rows = index(own);
  const auto peer_rows = index(peer);
  std::vector<std::uint32_t> matches(
      std::max<std::size_t>(own.size(), function_registry::first_index));
  for (const auto& [key, row] : own_rows) {
    const auto at = peer_rows.find(key);
    // Skip lambdas that clang++ numbers by file, because equal numbers in two programs need not
    // mean the same lambda.
    if (key.first.find("$_") != std::string_view::npos) continue;
    if (row != ambiguous && at != peer_rows.end()) matches[row] = at->second;
  }
  return matches;
}

} // namespace farcall
