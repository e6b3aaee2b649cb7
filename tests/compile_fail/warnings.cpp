// SPDX-License-Identifier: Apache-2.0

// expect: success
// flags: -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror
#include <farcall/async/sender.hpp>
#include <farcall/async/stop_token.hpp>
#include <farcall/farcall.hpp>
#include <farcall/gpu/gpu.hpp>
#include <farcall/offload/node_change.hpp>

#include <string>
#include <vector>

std::vector<std::string> twice(std::vector<std::string> texts) {
  texts.insert(texts.end(), texts.begin(), texts.end());
  return texts;
}

int f(const farcall::node& where) {
  const int calls = farcall::sync(where, [](int run) { return run; }, 1);
  return calls +
         static_cast<int>(farcall::sync(where, twice, std::vector<std::string>{"a"}).size());
}
