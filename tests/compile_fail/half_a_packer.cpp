// SPDX-License-Identifier: Apache-2.0

// expect: the farcall::packer of this type does not fit: it needs `static void pack
// names: not_packable<person>
#include <farcall/call/pack.hpp>

struct person {
  std::string name;
};

template <>
struct farcall::packer<person> {
  static void pack(writer& w, const person& p) { w(p.name); }
};

std::size_t f(const person& value) { return farcall::packed_size(value); }
