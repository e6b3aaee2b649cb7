// SPDX-License-Identifier: Apache-2.0
#include "debug_info.hpp"

#include "rust_name.hpp"

#include <algorithm>
#include <memory>
#include <ranges>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <dwarf.h>
#include <elfutils/libdw.h>

namespace farcall::tool {

namespace {

/// Maximum number of levels of nested entries. Compilers nest less deeply, but damaged files may
/// contain cycles.
constexpr int max_nested = 200;

struct elf_end_call {
  void operator()(Elf* elf) const { elf_end(elf); }
};
struct dwarf_end_call {
  void operator()(Dwarf* dwarf) const { dwarf_end(dwarf); }
};

/// Calls `visit` for each address range of a debug information entry (DIE).
template <class Visit>
void for_each_range(Dwarf_Die& die, Visit visit) {
  Dwarf_Addr base = 0;
  Dwarf_Addr start = 0;
  Dwarf_Addr end = 0;
  for (std::ptrdiff_t at = 0; (at = dwarf_ranges(&die, at, &base, &start, &end)) > 0;) {
    // Skip a range that starts at zero, because linkers leave it for functions that they have
    // dropped.
    if (start != 0 && start < end) visit(start, end);
  }
}

template <class Visit>
void for_each_child(Dwarf_Die& die, Visit visit) {
  Dwarf_Die child{};
  if (dwarf_child(&die, &child) != 0) return;
  do {
    visit(child);
  } while (dwarf_siblingof(&child, &child) == 0);
}

std::uint32_t number_of(Dwarf_Die& die, unsigned name) {
  Dwarf_Attribute attribute{};
  Dwarf_Word value = 0;
  if (dwarf_attr(&die, name, &attribute) == nullptr) return 0;
  return dwarf_formudata(&attribute, &value) == 0 ? static_cast<std::uint32_t>(value) : 0;
}

/// Cache of the names of a file's functions, so that each name is composed only once.
class die_names {
 public:
  const std::string& of(Dwarf_Die function) {
    // Follow the references from an inlined, cloned or separately defined function to the entry
    // that has its name.
    for (int step = 0; step < max_nested; ++step) {
      Dwarf_Attribute attribute{};
      Dwarf_Die origin{};
      if (dwarf_attr(&function, DW_AT_abstract_origin, &attribute) == nullptr &&
          dwarf_attr(&function, DW_AT_specification, &attribute) == nullptr)
        break;
      if (dwarf_hasattr(&function, DW_AT_linkage_name) != 0) break;
      if (dwarf_formref_die(&attribute, &origin) == nullptr) break;
      function = origin;
    }
    const auto [at, is_new] = names_.try_emplace(function.addr);
    if (is_new) at->second = name_of(function);
    return at->second;
  }

 private:
  std::string name_of(Dwarf_Die& function) {
    Dwarf_Attribute attribute{};
    for (const unsigned which : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
      if (dwarf_attr(&function, which, &attribute) == nullptr) continue;
      if (const char* const text = dwarf_formstring(&attribute)) return readable_function(text);
    }
    const char* const name = dwarf_diename(&function);
    return name == nullptr ? std::string{} : prefix_of(function) + name;
  }

  /// Returns the namespaces and classes around a function, as a prefix such as "space::type::". It
  /// is needed for functions without a linkage name, whose plain name lacks the prefix.
  const std::string& prefix_of(Dwarf_Die& function) {
    Dwarf_Die unit{};
    if (dwarf_diecu(&function, &unit, nullptr, nullptr) != nullptr &&
        units_.try_emplace(unit.addr).second)
      note_prefixes(unit, {}, 0);
    return prefixes_[function.addr];
  }

  void note_prefixes(Dwarf_Die& scope, const std::string& prefix, int depth) {
    if (depth > max_nested) return;
    for_each_child(scope, [&](Dwarf_Die& child) {
      switch (dwarf_tag(&child)) {
      case DW_TAG_subprogram:
        if (!prefix.empty()) prefixes_.emplace(child.addr, prefix);
        break;
      case DW_TAG_namespace:
      case DW_TAG_class_type:
      case DW_TAG_structure_type:
      case DW_TAG_union_type: {
        const char* const name = dwarf_diename(&child);
        const bool is_nameless_space = name == nullptr && dwarf_tag(&child) == DW_TAG_namespace;
        const std::string own = is_nameless_space ? "(anonymous namespace)::"
                                : name == nullptr ? ""
                                                  : name + std::string("::");
        note_prefixes(child, prefix + own, depth + 1);
        break;
      }
      default:
        break;
      }
    });
  }

  std::unordered_map<void*, std::string> names_;
  std::unordered_map<void*, std::string> prefixes_;
  std::unordered_map<void*, bool> units_;
};

/// Looks up addresses in one compilation unit.
class unit_reader {
 public:
  unit_reader(Dwarf_Die& unit, std::span<const std::uint64_t> all,
              std::span<const std::size_t> indices, die_names& names)
      : unit_(unit), all_(all), indices_(indices), names_(names), scopes_of_(indices.size()) {}

  template <class Take>
  void read(Dwarf_Die& scopes, const Take& take) {
    has_nested_functions_ = may_nest_functions(scopes);
    walk(scopes, 0);
    Dwarf_Files* files = nullptr;
    std::size_t file_count = 0;
    if (dwarf_getsrcfiles(&unit_, &files, &file_count) != 0) files = nullptr;
    for (std::size_t i = 0; i < indices_.size(); ++i)
      take(indices_[i], frames_of(i, files, file_count));
  }

 private:
  /// Records for each address the functions that hold it. A function is recorded before the
  /// functions that were inlined into it.
  void walk(Dwarf_Die& scope, int depth) {
    if (depth > max_nested) return;
    for_each_child(scope, [&](Dwarf_Die& child) {
      switch (dwarf_tag(&child)) {
      case DW_TAG_subprogram:
        // In some languages a function may contain nested functions. Search them even if the outer
        // function holds none of the addresses, because a nested function's code is outside of the
        // outer function's ranges.
        if (note(child) || has_nested_functions_) walk(child, depth + 1);
        break;
      case DW_TAG_inlined_subroutine:
        if (note(child)) walk(child, depth + 1);
        break;
      case DW_TAG_lexical_block:
      case DW_TAG_namespace:
      case DW_TAG_class_type:
      case DW_TAG_structure_type:
      case DW_TAG_module:
        walk(child, depth + 1);
        break;
      default:
        break;
      }
    });
  }

  /// True for languages in which functions may be defined inside functions, such as Fortran, Ada
  /// and GNU C, and for unknown languages. In other languages, a function that holds none of the
  /// addresses can be skipped with all entries inside it.
  static bool may_nest_functions(Dwarf_Die& scopes) {
    switch (dwarf_srclang(&scopes)) {
    case DW_LANG_C_plus_plus:
    case DW_LANG_C_plus_plus_03:
    case DW_LANG_C_plus_plus_11:
    case DW_LANG_C_plus_plus_14:
    case DW_LANG_Rust:
      return false;
    default:
      return true;
    }
  }

  /// Records a function for all addresses that lie in its ranges. Returns false if there is no such
  /// address.
  bool note(Dwarf_Die& function) {
    bool is_used = false;
    for_each_range(function, [&](Dwarf_Addr start, Dwarf_Addr end) {
      const auto address_of = [this](std::size_t index) { return all_[index]; };
      const auto from = std::ranges::lower_bound(indices_, start, {}, address_of);
      const auto to = std::ranges::lower_bound(from, indices_.end(), end, {}, address_of);
      for (auto at = from; at != to; ++at)
        scopes_of_[static_cast<std::size_t>(at - indices_.begin())].push_back(scopes_.size());
      is_used = is_used || from != to;
    });
    if (is_used) scopes_.push_back(function);
    return is_used;
  }

  std::vector<source_frame> frames_of(std::size_t i, Dwarf_Files* files, std::size_t file_count) {
    source_frame place;
    if (Dwarf_Line* const line = dwarf_getsrc_die(&unit_, all_[indices_[i]])) {
      int number = 0;
      if (dwarf_lineno(line, &number) == 0 && number > 0)
        place.line = static_cast<std::uint32_t>(number);
      if (const char* const file = dwarf_linesrc(line, nullptr, nullptr)) place.file = file;
    }
    std::vector<source_frame> frames;
    const auto& scopes = scopes_of_[i];
    for (const std::size_t scope : std::views::reverse(scopes)) {
      Dwarf_Die& function = scopes_[scope];
      place.function = names_.of(function);
      frames.push_back(std::move(place));
      place = {};
      if (dwarf_tag(&function) != DW_TAG_inlined_subroutine) break;
      place.line = number_of(function, DW_AT_call_line);
      const std::uint32_t file = number_of(function, DW_AT_call_file);
      const char* const path = files != nullptr && file < file_count
                                   ? dwarf_filesrc(files, file, nullptr, nullptr)
                                   : nullptr;
      if (path != nullptr) place.file = path;
    }
    if (frames.empty()) frames.push_back(std::move(place));
    return frames;
  }

  Dwarf_Die& unit_;
  std::span<const std::uint64_t> all_;
  std::span<const std::size_t> indices_;
  die_names& names_;
  bool has_nested_functions_ = false;
  std::vector<Dwarf_Die> scopes_;
  std::vector<std::vector<std::size_t>> scopes_of_; ///< for each address, the indices in scopes_ of
                                                    ///< the functions that hold it
};

} // namespace

bool reads_debug_information() { return true; }

void read_source_frames(int file, std::span<const std::uint64_t> addresses,
                        const std::function<void(std::size_t, std::vector<source_frame>)>& take) {
  if (addresses.empty() || elf_version(EV_CURRENT) == EV_NONE) return;
  // Read the file by ELF_C_READ instead of mapping it: the file may shrink while it is read, and
  // reading a mapping would raise SIGBUS.
  const std::unique_ptr<Elf, elf_end_call> elf(elf_begin(file, ELF_C_READ, nullptr));
  if (!elf) return;
  const std::unique_ptr<Dwarf, dwarf_end_call> dwarf(
      dwarf_begin_elf(elf.get(), DWARF_C_READ, nullptr));
  if (!dwarf) return;
  die_names names;
  Dwarf_CU* unit = nullptr;
  Dwarf_CU* next = nullptr;
  Dwarf_Half version = 0;
  std::uint8_t type = 0;
  Dwarf_Die die{};
  Dwarf_Die split{};
  std::vector<std::size_t> indices;
  while (dwarf_get_units(dwarf.get(), unit, &next, &version, &type, &die, &split) == 0) {
    unit = next;
    indices.clear();
    for_each_range(die, [&](Dwarf_Addr start, Dwarf_Addr end) {
      const auto from = std::ranges::lower_bound(addresses, start);
      const auto to = std::lower_bound(from, addresses.end(), end);
      for (auto at = from; at != to; ++at)
        indices.push_back(static_cast<std::size_t>(at - addresses.begin()));
    });
    if (indices.empty()) continue;
    std::ranges::sort(indices);
    const auto repeated = std::ranges::unique(indices);
    indices.erase(repeated.begin(), repeated.end());
    // With split DWARF, the entry in this file (the skeleton unit) has the ranges and lines, but
    // the functions are in a unit of another file.
    Dwarf_Die& scopes = split.addr != nullptr ? split : die;
    unit_reader(die, addresses, indices, names).read(scopes, take);
  }
}

} // namespace farcall::tool
