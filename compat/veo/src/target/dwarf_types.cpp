// SPDX-License-Identifier: Apache-2.0
#include "dwarf_types.hpp"

#include <cstddef>

#include <dwarf.h>

namespace farcall::veo {
namespace {

// Limit of the number of typedefs and qualifiers around a type, because damaged information may
// link them in a circle.
constexpr int max_steps = 64;
// Limit of the nesting depth of structures that fit into one word.
constexpr int deepest = 8;
constexpr int word = 8;

value_class signed_integer(int bytes) {
  switch (bytes) {
  case 1:
    return value_class::sint8;
  case 2:
    return value_class::sint16;
  case 4:
    return value_class::sint32;
  case 8:
    return value_class::integer64;
  case 16:
    return value_class::wide;
  default:
    return value_class::unknown;
  }
}

value_class unsigned_integer(int bytes) {
  switch (bytes) {
  case 1:
    return value_class::uint8;
  case 2:
    return value_class::uint16;
  case 4:
    return value_class::uint32;
  case 8:
    return value_class::integer64;
  case 16:
    return value_class::wide;
  default:
    return value_class::unknown;
  }
}

value_class of_encoding(Dwarf_Word encoding, int bytes) {
  switch (encoding) {
  case DW_ATE_float:
    if (bytes == 4) return value_class::real32;
    if (bytes == 8) return value_class::real64;
    return bytes > 8 ? value_class::wide : value_class::unknown;
  case DW_ATE_complex_float:
    return value_class::wide;
  case DW_ATE_boolean:
    // Fortran's logicals of more than one byte are passed as integers.
    return bytes == 1 ? value_class::boolean : signed_integer(bytes);
  case DW_ATE_signed:
  case DW_ATE_signed_char:
    return signed_integer(bytes);
  case DW_ATE_unsigned:
  case DW_ATE_unsigned_char:
  case DW_ATE_UTF:
  case DW_ATE_address:
    return unsigned_integer(bytes);
  default:
    return value_class::unknown;
  }
}

value_class of_plain_type(Dwarf_Die& type) {
  Dwarf_Word encoding = 0;
  Dwarf_Attribute attribute;
  if (::dwarf_attr(&type, DW_AT_encoding, &attribute) == nullptr ||
      ::dwarf_formudata(&attribute, &encoding) != 0) {
    return value_class::unknown;
  }
  return of_encoding(encoding, ::dwarf_bytesize(&type));
}

/// Summary of the members of a structure that fits into one word. It contains what the calling
/// conventions distinguish.
struct members {
  int reals = 0;
  bool has_others = false;
  bool is_unaligned = false;
  int looked_at = 0;
};

/// Finds the type behind typedefs and qualifiers. Returns false if there is none.
bool find_plain_type(Dwarf_Die& of, Dwarf_Die& found) {
  Dwarf_Die at = of;
  for (int step = 0; step < max_steps; ++step) {
    Dwarf_Attribute link;
    if (::dwarf_attr(&at, DW_AT_type, &link) == nullptr ||
        ::dwarf_formref_die(&link, &found) == nullptr) {
      return false;
    }
    switch (::dwarf_tag(&found)) {
    case DW_TAG_typedef:
    case DW_TAG_const_type:
    case DW_TAG_volatile_type:
    case DW_TAG_atomic_type:
      at = found;
      break;
    default:
      return true;
    }
  }
  return false;
}

bool is_part(Dwarf_Die& child) {
  const int tag = ::dwarf_tag(&child);
  // Static members appear as declarations and occupy no space in the object.
  return tag == DW_TAG_inheritance ||
         (tag == DW_TAG_member && ::dwarf_hasattr(&child, DW_AT_declaration) == 0 &&
          ::dwarf_hasattr(&child, DW_AT_external) == 0);
}

void add_members(Dwarf_Die& structure, Dwarf_Word offset, int depth, members& all);

void add_type(Dwarf_Die& type, Dwarf_Word offset, int depth, members& all) {
  Dwarf_Die element;
  Dwarf_Word bytes = 0;
  switch (::dwarf_tag(&type)) {
  case DW_TAG_structure_type:
  case DW_TAG_class_type:
  case DW_TAG_union_type:
    add_members(type, offset, depth + 1, all);
    return;
  case DW_TAG_array_type: {
    if (depth > deepest || !find_plain_type(type, element) ||
        ::dwarf_aggregate_size(&type, &bytes) != 0) {
      all.has_others = true;
      return;
    }
    Dwarf_Word each = 0;
    if (::dwarf_aggregate_size(&element, &each) != 0 || each == 0) return;
    for (Dwarf_Word at = 0; at < bytes && at <= word; at += each)
      add_type(element, offset + at, depth + 1, all);
    return;
  }
  default:
    break;
  }
  Dwarf_Word encoding = 0;
  Dwarf_Attribute attribute;
  const bool is_real = ::dwarf_tag(&type) == DW_TAG_base_type &&
                       ::dwarf_attr(&type, DW_AT_encoding, &attribute) != nullptr &&
                       ::dwarf_formudata(&attribute, &encoding) == 0 &&
                       (encoding == DW_ATE_float || encoding == DW_ATE_complex_float);
  if (!is_real) {
    all.has_others = true;
    return;
  }
  const int parts = encoding == DW_ATE_complex_float ? 2 : 1;
  all.reals += parts;
  const int size = ::dwarf_bytesize(&type) / parts;
  if (size <= 0 || offset % static_cast<Dwarf_Word>(size) != 0) all.is_unaligned = true;
}

void add_members(Dwarf_Die& structure, Dwarf_Word offset, int depth, members& all) {
  Dwarf_Die child;
  if (depth > deepest || ::dwarf_child(&structure, &child) != 0) return;
  Dwarf_Off last = ::dwarf_dieoffset(&structure);
  do {
    // Stop if the next entry is not behind the last one, because damaged information may link
    // entries in a circle.
    const Dwarf_Off here = ::dwarf_dieoffset(&child);
    if (here <= last || ++all.looked_at > max_steps) return;
    last = here;
    if (!is_part(child)) continue;
    Dwarf_Die type;
    Dwarf_Word from = 0;
    Dwarf_Attribute place;
    // Use offset 0 if the member has no location, as in a union.
    if (::dwarf_attr(&child, DW_AT_data_member_location, &place) != nullptr)
      (void)::dwarf_formudata(&place, &from);
    if (find_plain_type(child, type)) {
      add_type(type, offset + from, depth, all);
    } else {
      all.has_others = true;
    }
  } while (::dwarf_siblingof(&child, &child) == 0);
}

/// Returns the class of a structure that has at most one word. The register in which such a
/// structure is passed has the same layout as the structure in memory. Returns `wide` for a
/// structure that is not passed in one register.
value_class of_word(Dwarf_Die& structure, int bytes) {
  members all;
  add_members(structure, 0, 0, all);
  // Refuse structures that are not passed in one register: empty structures are not passed at all,
  // and structures with unaligned members are passed in memory.
  if (all.is_unaligned || (all.reals == 0 && !all.has_others)) return value_class::wide;
  if (all.has_others) return value_class::integer64;
  // A structure that contains only one floating-point number is passed like the number itself.
  if (all.reals == 1 && bytes == 4) return value_class::real32;
  if (all.reals == 1 && bytes == word) return value_class::real64;
#if defined(__x86_64__)
  return value_class::real64;
#else
  return value_class::wide; // aarch64 passes each member in its own register
#endif
}

value_class of_structure(Dwarf_Die& type) {
  Dwarf_Word convention = 0;
  Dwarf_Attribute attribute;
  if (::dwarf_attr(&type, DW_AT_calling_convention, &attribute) != nullptr &&
      ::dwarf_formudata(&attribute, &convention) == 0 && convention == DW_CC_pass_by_reference) {
    return value_class::integer64;
  }
  const int bytes = ::dwarf_bytesize(&type);
  if (bytes > word) return value_class::wide;
  return bytes < 0 ? value_class::unknown : of_word(type, bytes);
}

bool is_frame_register(Dwarf_Word number) {
#if defined(__x86_64__)
  return number == 6 || number == 7; // rbp, rsp
#else
  return number == 29 || number == 31; // x29, sp
#endif
}

} // namespace

value_class class_of_type(Dwarf_Attribute& type) {
  Dwarf_Attribute link = type;
  for (int step = 0; step < max_steps; ++step) {
    Dwarf_Die die;
    if (::dwarf_formref_die(&link, &die) == nullptr) return value_class::unknown;
    switch (::dwarf_tag(&die)) {
    case DW_TAG_base_type:
      return of_plain_type(die);
    case DW_TAG_pointer_type:
    case DW_TAG_reference_type:
    case DW_TAG_rvalue_reference_type:
    case DW_TAG_unspecified_type: // std::nullptr_t
      return value_class::integer64;
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
      return of_structure(die);
    case DW_TAG_enumeration_type:
      // An enumeration has the class of its underlying type, to which DW_AT_type refers. If
      // DW_AT_type is missing, DW_AT_signature may refer to the complete description of the
      // enumeration.
      if (::dwarf_attr(&die, DW_AT_type, &link) == nullptr &&
          ::dwarf_attr(&die, DW_AT_signature, &link) == nullptr) {
        return of_plain_type(die);
      }
      break;
    case DW_TAG_typedef:
    case DW_TAG_const_type:
    case DW_TAG_volatile_type:
    case DW_TAG_restrict_type:
    case DW_TAG_atomic_type:
      // A typedef or qualifier without DW_AT_type stands for void.
      if (::dwarf_attr(&die, DW_AT_type, &link) == nullptr) return value_class::none;
      break;
    default:
      return value_class::unknown;
    }
  }
  return value_class::unknown;
}

passing passing_of(Dwarf_Die& parameter, Dwarf_Addr entry) {
  Dwarf_Attribute location;
  Dwarf_Op* operations = nullptr;
  std::size_t count = 0;
  if (::dwarf_attr(&parameter, DW_AT_location, &location) == nullptr ||
      ::dwarf_getlocation_addr(&location, entry, &operations, &count, 1) != 1 || count == 0) {
    return passing::unknown;
  }
  if (count > 1) {
    return operations[count - 1].atom == DW_OP_deref ? passing::by_reference : passing::unknown;
  }
  const Dwarf_Op& only = *operations;
  if (only.atom == DW_OP_fbreg) return passing::by_value;
  if (only.atom == DW_OP_regx || (only.atom >= DW_OP_reg0 && only.atom <= DW_OP_reg31)) {
    return passing::by_value;
  }
  // The parameter is in memory relative to a register. If this register is the frame register, the
  // parameter was passed by value and then stored in the frame. Otherwise its address was passed.
  if (only.atom >= DW_OP_breg0 && only.atom <= DW_OP_breg31) {
    return is_frame_register(only.atom - DW_OP_breg0) ? passing::by_value : passing::by_reference;
  }
  return passing::unknown;
}

} // namespace farcall::veo
