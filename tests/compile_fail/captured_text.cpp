// SPDX-License-Identifier: Apache-2.0

// expect: this lambda or functor cannot be sent
// names: lambda
#include <farcall/farcall.hpp>

std::size_t f(const farcall::node& where, const std::string& text) {
  return farcall::sync(where, [text] { return text.size(); });
}
