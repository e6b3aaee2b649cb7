// SPDX-License-Identifier: Apache-2.0

// expect: this type cannot be sent: it is not trivially copyable and has no packer
// names: person
// first: not_packable<person>|is_free_of<person
#include <farcall/farcall.hpp>

#include <map>

struct person {
  std::string name;
};

int count(const std::map<std::string, std::vector<person>>& people);

int f(const farcall::node& where, const std::map<std::string, std::vector<person>>& people) {
  return farcall::sync(where, count, people);
}
