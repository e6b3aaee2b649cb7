// SPDX-License-Identifier: Apache-2.0

// expect: this type refers to memory of this node
// names: not_packable<__gnu_cxx::__normal_iterator<int ?\*.*>
#include <farcall/call/pack.hpp>

std::size_t f(std::vector<int>::iterator value) { return farcall::packed_size(value); }
