// SPDX-License-Identifier: Apache-2.0

// expect: shared ownership cannot reach across nodes
// names: not_packable<std::shared_ptr<int> ?>
#include <farcall/call/pack.hpp>

#include <map>
#include <memory>

using value_type = std::map<std::string, std::vector<std::tuple<int, std::shared_ptr<int>>>>;

std::size_t f(const value_type& value) { return farcall::packed_size(value); }
