// SPDX-License-Identifier: Apache-2.0
#include <farcall/async/message.hpp>

#include <cstdint>

namespace farcall::test {
namespace {

// A second type of this name is in message_test.cpp, whose tests use this file.
struct in_two_files {
  std::uint64_t number;
};

std::uint64_t last = 0; ///< each node has its own

} // namespace

void set_handler_in_other_file() {
  set_message_handler<in_two_files>(
      this_node(), {[](void*, in_two_files p, message&) { last = p.number; }, nullptr});
}
void post_from_other_file(const node& to, std::uint64_t number) {
  post_message(to, in_two_files{number});
}
std::uint64_t number_in_other_file() { return last; }

} // namespace farcall::test
