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

/// FNV-1a, 64 bits: the digest tells differing programs apart, it does not defend against anybody.
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

/// Whether a mangled type name can be that of something that only one source file knows: a static
/// function (L and the length of its name), a type in an unnamed namespace, a lambda. Says yes too
/// often.
bool may_be_local(std::string_view name) {
  for (std::size_t i = 0; i + 1 < name.size(); ++i) {
    if (name[i] == 'L' && name[i + 1] >= '0' && name[i + 1] <= '9') return true;
  }
  return name.find("_GLOBAL__N_") != std::string_view::npos ||
         name.find("Ul") != std::string_view::npos || name.find('$') != std::string_view::npos;
}

} // namespace

constinit std::atomic<entry*> entry::first_{nullptr};

void entry::keep_loaded(const void* part) noexcept {
  // The entries of a library come one after the other; the loader starts one library at a time.
  static constinit const void* last = nullptr;
  if (std::exchange(last, part) == part) return;
  Dl_info info{};
  void* known = nullptr;
  if (::dladdr1(part, &info, &known, RTLD_DL_LINKMAP) == 0 || known == nullptr) return;
  const char* const file = static_cast<const link_map*>(known)->l_name;
  // The program itself has no name there.
  if (file == nullptr || *file == '\0') return;
  void* const library = ::dlopen(file, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  if (library != nullptr) ::dlclose(library);
}

const char* entry::name() const noexcept {
  // g++ marks types of internal linkage so; clang++ does not.
  return *name_ == '*' ? name_ + 1 : name_;
}

std::string entry::signature() const {
  const std::string readable = demangle(name());
  // "Ul" stands for a lambda in a name that is too long to be demangled.
  const bool is_lambda =
      readable.find(readable == name() ? "Ul" : "{lambda(") != std::string::npos ||
      std::string_view(name()).find("$_") != std::string_view::npos;
  return is_lambda ? signature_() + "|" + compiler_ : signature_();
}

std::string entry::name_for_peers() const {
  std::string text = name();
  if (!may_be_local(text)) return text;
  // The source file of a stripped program's function is unknown; then no other build may match it.
  const program_image& image = program_image::instance();
  const auto home = image.defining_file_of(reinterpret_cast<any_function>(run()));
  return text + (home ? (home->empty() ? "" : "@" + *home) : "@" + image.build());
}

const function_registry& function_registry::instance() {
  // Never destroyed: destructors of static objects may call.
  static const auto* const table = new function_registry;
  return *table;
}

function_registry::function_registry() {
  for (entry* e = entry::first_.load(std::memory_order_acquire); e != nullptr; e = e->next_) {
    rows_.push_back({e, e->name(), e->signature(), false, may_be_local(e->name())});
  }
  // Two functions of one name, static in two files, are told apart by where their code lies: in
  // identical builds that is the same place.
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
  // Equal names mean the same callable only if no file of another build can have a namesake, and
  // where a name is there twice the order depends on the image.
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
    // A row's name for peers begins with its name, which costs no look at the symbols.
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
    // Two libraries may bring one function of a header; but not two of one file's own.
    if (found != nullptr && may_be_local(e->name())) return nullptr;
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
    // clang numbers some lambdas by file: the number says nothing about another program's.
    if (key.first.find("$_") != std::string_view::npos) continue;
    if (row != ambiguous && at != peer_rows.end()) matches[row] = at->second;
  }
  return matches;
}

} // namespace farcall
