// SPDX-License-Identifier: Apache-2.0
#include <tests/model/mutants.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>

namespace farcall::check {
namespace {

/// Returns the rank of the site's line among lines with such an operation, from 1 on; 0 if there is
/// only one.
std::size_t number_among(const std::vector<mutant>& all, const site& s) {
  std::set<std::uint_least32_t> lines;
  for (const mutant& m : all) {
    if (m.at.text() == s.text()) lines.insert(m.at.where.line());
  }
  if (lines.size() == 1) return 0;
  return static_cast<std::size_t>(std::distance(lines.begin(), lines.find(s.where.line()))) + 1;
}

std::string name_among(const std::vector<mutant>& all, const mutant& m) {
  const std::size_t number = number_among(all, m.at);
  return m.at.text() + (number == 0 ? "" : ' ' + std::to_string(number)) + ", " + word_of(m.what);
}

} // namespace

std::vector<std::string> survivors(const std::vector<scenario>& scenarios, const bounds& limits) {
  std::vector<mutant> all;
  for (const scenario& s : scenarios) {
    const outcome correct = explore(s, {}, limits);
    if (!correct.is_complete) return {"not right, or not explored: " + correct.wrong};
    for (const mutant& m : mutants_of(correct)) {
      if (std::none_of(all.begin(), all.end(), [&](const mutant& known) {
            return known.what == m.what && known.at == m.at;
          })) {
        all.push_back(m);
      }
    }
  }
  std::set<std::string> left;
  for (const mutant& m : all) {
    if (std::none_of(scenarios.begin(), scenarios.end(),
                     [&](const scenario& s) { return !explore(s, m, limits).wrong.empty(); })) {
      left.insert(name_among(all, m));
    }
  }
  return {left.begin(), left.end()};
}

} // namespace farcall::check
