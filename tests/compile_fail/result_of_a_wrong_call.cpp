// SPDX-License-Identifier: Apache-2.0

// expect: this type cannot be sent: it is not trivially copyable and has no packer
// names: person
// first: not_packable<person>|is_free_of<person
#include <farcall/farcall.hpp>

struct person {
  std::string name;
};

int age(person who);

// The call's argument is wrong, and not its result.
int f(const farcall::node& where) {
  const int now = farcall::sync(where, age, person{"Ada"});
  farcall::future<int> later = farcall::async(where.within(std::chrono::seconds(1)), age, person{});
  return now + later.get();
}
