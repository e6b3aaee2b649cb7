// SPDX-License-Identifier: Apache-2.0

// expect: this type can be neither copied nor moved, so it cannot be sent
// names: not_packable<guarded>
#include <farcall/farcall.hpp>

#include <mutex>

struct guarded {
  std::mutex lock;
};

int look(const guarded& g);

void f(const farcall::node& where, const guarded& g) { farcall::post(where, look, g); }
