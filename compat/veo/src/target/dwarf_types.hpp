#pragma once

#include "signature.hpp"

#include <elfutils/libdw.h>

namespace farcall::veo {

/// Of the type that a DW_AT_type refers to; `unknown` for what is damaged.
value_class class_of_type(Dwarf_Attribute& type);

enum class passing { unknown, by_value, by_reference };

/// Whether a parameter of a function, or its address, is passed: from where it is at the entry.
passing passing_of(Dwarf_Die& parameter, Dwarf_Addr entry);

} // namespace farcall::veo
