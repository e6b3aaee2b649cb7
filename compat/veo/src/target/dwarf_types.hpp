// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "signature.hpp"

#include <elfutils/libdw.h>

namespace farcall::veo {

/// Returns the class of the type to which a DW_AT_type attribute refers; `unknown` if the attribute
/// is damaged.
value_class class_of_type(Dwarf_Attribute& type);

enum class passing { unknown, by_value, by_reference };

/// Returns whether a parameter is passed by value or by its address. The decision is made from the
/// parameter's location at the entry of the function.
passing passing_of(Dwarf_Die& parameter, Dwarf_Addr entry);

} // namespace farcall::veo
