// SPDX-License-Identifier: Apache-2.0

// expect: a raw pointer cannot be sent.*std::string_view
// names: not_packable<const char ?\*>
#include <farcall/call/pack.hpp>

const char* f(farcall::reader& r) { return r.read<const char*>(); }
