// SPDX-License-Identifier: Apache-2.0
#include "debug_info.hpp"

#include "dwarf_types.hpp"

#include <cstddef>
#include <cstdlib>
#include <utility>

#include <dwarf.h>
#include <unistd.h>

namespace farcall::veo {
namespace {

// Limit of the nesting depth of debug entries. Files from compilers do not reach it; damaged files
// may.
constexpr int deepest = 64;

/// Calls `visit(child)` for each child entry until a call returns true; returns true if one did.
/// Stops if the offset does not increase from child to child, because damaged information may link
/// a child to an earlier one.
template <class Visit>
bool any_child(Dwarf_Die& parent, Visit visit) {
  Dwarf_Die child;
  if (::dwarf_child(&parent, &child) != 0) return false;
  Dwarf_Off last = ::dwarf_dieoffset(&parent);
  do {
    const Dwarf_Off offset = ::dwarf_dieoffset(&child);
    if (offset <= last) return false;
    last = offset;
    if (visit(child)) return true;
  } while (::dwarf_siblingof(&child, &child) == 0);
  return false;
}

bool starts_at(Dwarf_Die& function, Dwarf_Addr address) {
  Dwarf_Addr entry = 0;
  if (::dwarf_entrypc(&function, &entry) == 0) return entry == address;
  // A function in several ranges has no single entry address. Compare the address with the
  // beginning of each range, because one of the ranges begins at the function's entry.
  Dwarf_Addr base = 0;
  Dwarf_Addr begin = 0;
  Dwarf_Addr end = 0;
  std::ptrdiff_t next = 0;
  while ((next = ::dwarf_ranges(&function, next, &base, &begin, &end)) > 0) {
    if (begin == address) return true;
  }
  return false;
}

bool is_fortran(int language) {
  switch (language) {
  case DW_LANG_Fortran77:
  case DW_LANG_Fortran90:
  case DW_LANG_Fortran95:
  case DW_LANG_Fortran03:
  case DW_LANG_Fortran08:
  case 0x2d: // DW_LANG_Fortran18, missing in some <dwarf.h>
    return true;
  default:
    return false;
  }
}

bool find_function(Dwarf_Die& scope, Dwarf_Addr address, int depth, Dwarf_Die& found) {
  if (depth > deepest) return false;
  return any_child(scope, [&](Dwarf_Die& child) {
    switch (::dwarf_tag(&child)) {
    case DW_TAG_subprogram:
      if (starts_at(child, address)) {
        found = child;
        return true;
      }
      [[fallthrough]]; // Fortran nests functions
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
    case DW_TAG_lexical_block:
      return find_function(child, address, depth + 1, found);
    default:
      return false;
    }
  });
}

/// True if any function in this scope has types. Without any, the unit may have been compiled with
/// `-g1`, which records names of functions but not their types.
bool tells_types(Dwarf_Die& scope, int depth) {
  if (depth > deepest) return false;
  return any_child(scope, [depth](Dwarf_Die& child) {
    switch (::dwarf_tag(&child)) {
    case DW_TAG_formal_parameter:
      return true;
    case DW_TAG_subprogram:
      return ::dwarf_hasattr(&child, DW_AT_type) != 0 || tells_types(child, depth + 1);
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
      return tells_types(child, depth + 1);
    default:
      return false;
    }
  });
}

class signature_reader {
 public:
  signature_reader(Dwarf_Die& unit, Dwarf_Addr entry)
      : is_fortran_(is_fortran(::dwarf_srclang(&unit))), entry_(entry) {}

  signature read(Dwarf_Die& function) {
    signature read;
    Dwarf_Attribute type;
    read.result = ::dwarf_attr_integrate(&function, DW_AT_type, &type) == nullptr
                      ? value_class::none
                      : class_of_type(type);
    read_parameters(function, 0, read);
    return read;
  }

 private:
  void read_parameters(Dwarf_Die& function, int depth, signature& read) {
    if (depth > deepest) return;
    any_child(function, [&](Dwarf_Die& child) {
      switch (::dwarf_tag(&child)) {
      case DW_TAG_formal_parameter:
        read.parameters.push_back(class_of_parameter(child));
        break;
      case DW_TAG_GNU_formal_parameter_pack:
        read_parameters(child, depth + 1, read);
        break;
      case DW_TAG_unspecified_parameters:
        read.is_variadic = true;
        break;
      default:
        break;
      }
      return false;
    });
  }

  value_class class_of_parameter(Dwarf_Die& parameter) const {
    Dwarf_Attribute type;
    const bool has_type = ::dwarf_attr_integrate(&parameter, DW_AT_type, &type) != nullptr;
    const value_class said = has_type ? class_of_type(type) : value_class::unknown;
    if (!is_fortran_ || said == value_class::integer64) return said;
    // In Fortran, debug information gives the type of the variable even if the parameter is the
    // variable's address. Find out which of the two is passed.
    switch (passing_of(parameter, entry_)) {
    case passing::by_value:
      return said;
    case passing::by_reference:
      return value_class::integer64;
    default:
      return value_class::unknown;
    }
  }

  bool is_fortran_;
  Dwarf_Addr entry_;
};

/// Returns the name of the innermost function at the address, which may be an inlined function.
/// Returns null if the function is unknown.
const char* function_at(Dwarf_Die& unit, Dwarf_Addr address) {
  Dwarf_Die* scopes = nullptr;
  const int count = ::dwarf_getscopes(&unit, address, &scopes);
  const char* name = nullptr;
  for (int i = 0; i < count && name == nullptr; ++i) {
    const int tag = ::dwarf_tag(&scopes[i]);
    if (tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine) {
      name = ::dwarf_diename(&scopes[i]);
    }
  }
  std::free(scopes); // NOLINT(cppcoreguidelines-no-malloc): libdw's
  return name;
}

} // namespace

debug_info::debug_info(int file) noexcept : file_(file) {
  if (file_ < 0) return;
  dwarf_ = ::dwarf_begin(file_, DWARF_C_READ);
  if (dwarf_ == nullptr) {
    ::close(std::exchange(file_, -1));
    return;
  }
  // Make libdw open the other files of the debug information now instead of at first use, because
  // the files may be removed before that.
  (void)::dwarf_getalt(dwarf_);
  Dwarf_CU* unit = nullptr;
  Dwarf_Die split;
  while (::dwarf_get_units(dwarf_, unit, &unit, nullptr, nullptr, nullptr, &split) == 0) {
  }
}

debug_info::~debug_info() {
  if (dwarf_ != nullptr) ::dwarf_end(dwarf_);
  if (file_ >= 0) ::close(file_);
}

std::optional<signature> debug_info::signature_at(std::uint64_t address) const {
  if (dwarf_ == nullptr) return std::nullopt;
  Dwarf_CU* unit = nullptr;
  std::uint8_t kind = 0;
  Dwarf_Die top;
  Dwarf_Die split; // part of the unit that is in a separate file (split DWARF)
  while (::dwarf_get_units(dwarf_, unit, &unit, nullptr, &kind, &top, &split) == 0) {
    if (::dwarf_haspc(&top, address) != 1) continue;
    Dwarf_Die& content = kind == DW_UT_skeleton ? split : top;
    Dwarf_Die function;
    if (content.addr == nullptr || !find_function(content, address, 0, function)) continue;
    signature found = signature_reader(content, address).read(function);
    const bool is_empty = found.result == value_class::none && found.parameters.empty();
    if (is_empty && !tells_types(content, 0)) return std::nullopt;
    return found;
  }
  return std::nullopt;
}

std::string debug_info::line_at(std::uint64_t address) const {
  if (dwarf_ == nullptr) return {};
  Dwarf_CU* unit = nullptr;
  std::uint8_t kind = 0;
  Dwarf_Die top;
  while (::dwarf_get_units(dwarf_, unit, &unit, nullptr, &kind, &top, nullptr) == 0) {
    if (::dwarf_haspc(&top, address) != 1) continue;
    Dwarf_Line* const line = ::dwarf_getsrc_die(&top, address);
    const char* const file = line == nullptr ? nullptr : ::dwarf_linesrc(line, nullptr, nullptr);
    int number = 0;
    if (file == nullptr || ::dwarf_lineno(line, &number) != 0) return {};
    const char* const function = function_at(top, address);
    return std::string(function == nullptr ? "?" : function) + " (" + file + ":" +
           std::to_string(number) + ")";
  }
  return {};
}

} // namespace farcall::veo
