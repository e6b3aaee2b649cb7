// SPDX-License-Identifier: Apache-2.0

// Uses the templates of packing, dispatch and rings that a target needs, so that the compiler
// generates their code.
#include <farcall/farcall.hpp>

#include <map>
#include <string>
#include <vector>

namespace fc = farcall;

namespace {

double sum(fc::remote_span<const double> values) {
  double all = 0;
  for (const double v : values)
    all += v;
  return all;
}

std::map<std::string, std::vector<float>> sorted(const std::vector<std::string>& names, bool b) {
  return {{names.front(), {b ? 1.0F : 2.0F}}};
}

} // namespace

double use(const fc::node& there) {
  const auto all = fc::sync(there, fc::fn<&sorted>, std::vector<std::string>{"a"}, true);
  return fc::async(there, sum, fc::remote_span<const double>()).get() +
         fc::sync(there, [](int v) { return v; }, static_cast<int>(all.size()));
}
