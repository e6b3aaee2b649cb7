// SPDX-License-Identifier: Apache-2.0

// Kernels in C++.
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct counted_in_constructor {
  std::vector<int> numbers{1, 2, 3};
};
const counted_in_constructor made_when_loaded;

} // namespace

extern "C" {

std::uint64_t made_at_load() { return made_when_loaded.numbers.size(); }

std::uint64_t catch_own_exception(std::int64_t value) {
  try {
    if (value < 0) throw std::out_of_range("negative");
    return static_cast<std::uint64_t>(value);
  } catch (const std::exception& e) {
    return std::string(e.what()).size();
  }
}

std::uint64_t throw_exception() { throw std::runtime_error("a kernel throws"); }

double sum_doubles(const double* p, std::uint64_t n) {
  const std::vector<double> copy(p, p + n);
  double sum = 0;
  for (const double v : copy)
    sum += v;
  return sum;
}
}

// Users look up the mangled names.
namespace veo_test_kernels {
std::int64_t twice(std::int64_t v) { return 2 * v; }
} // namespace veo_test_kernels
