// SPDX-License-Identifier: Apache-2.0

// expect: Specialise farcall::packer for it, with `static void pack.*`static T unpack
// names: not_packable<person>
// first: not_packable<person>|is_free_of<person
#include <farcall/call/pack.hpp>

struct person {
  std::string name;
  int age;
};

std::size_t f(const person& value) { return farcall::packed_size(value); }
