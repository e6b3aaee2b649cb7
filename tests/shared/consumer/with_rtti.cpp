// SPDX-License-Identifier: Apache-2.0
#include "with_rtti.hpp"

#include <farcall/farcall.hpp>

farcall::future<double> sum_on(const farcall::node& where, farcall::remote_span<const double> all) {
  return farcall::async(
      where,
      [](farcall::remote_span<const double> here) {
        double sum = 0;
        for (const double v : here)
          sum += v;
        return sum;
      },
      all);
}
