// SPDX-License-Identifier: Apache-2.0

// expect: a std::unique_ptr to a polymorphic class cannot be sent.*std::variant
// names: not_packable<std::unique_ptr<shape.*> ?>
#include <farcall/call/pack.hpp>

#include <memory>

struct shape {
  virtual ~shape() = default;
};

std::unique_ptr<shape> f(farcall::reader& r) { return r.read<std::unique_ptr<shape>>(); }
