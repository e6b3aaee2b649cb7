// SPDX-License-Identifier: Apache-2.0

// expect: success
// Most other files of this folder differ from this one in the type only.
#include <farcall/call/pack.hpp>

std::size_t f(const std::vector<std::string>& value) { return farcall::packed_size(value); }

std::vector<std::string> g(farcall::reader& r) { return r.read<std::vector<std::string>>(); }
