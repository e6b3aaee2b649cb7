// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/call/entry.hpp>
#include <farcall/farcall.h>

/// The raw message that calls a function by its name. It begins with the hash of the name. Its
/// payload contains the bytes that the caller passes, and the reply contains the bytes of the
/// result.
namespace farcall::c {

/// Prefix of the message.
struct named_call {
  fc_function function;
};

/// The entry through which peers call functions by name.
extern entry named_entry;

} // namespace farcall::c
