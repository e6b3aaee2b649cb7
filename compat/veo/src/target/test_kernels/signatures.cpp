// SPDX-License-Identifier: Apache-2.0

// C++ functions whose signatures are hard to read from debug information. Their names are easy to
// mangle by hand.

#include <cstddef>
#include <cstdint>

enum class level : unsigned char { low, high };
enum class offset : long { none };
enum plain : std::int16_t { one };

using text = const char*;
using link = const std::int32_t;
using chain = link;

namespace space {

class object {
 public:
  double method(int factor, float value) const;
  static short of_class(level first, bool second);
  [[gnu::used]] inline int in_class(std::uint16_t value) { return state + value; }

  int state = 3;
};

double object::method(int factor, float value) const {
  return state + factor * static_cast<double>(value);
}

short object::of_class(level first, bool second) {
  return static_cast<short>(second ? static_cast<int>(first) : -1);
}

} // namespace space

template <class... Values>
[[gnu::noinline, gnu::used]] double sum(Values... values) {
  return (static_cast<double>(values) + ...);
}

const double& first_of(const double& first, double&& second, std::nullptr_t, offset, plain,
                       char16_t, chain, text) {
  return second > 0 ? first : second;
}

extern "C" {

// Also inlined, so that debug information of the function itself refers to an abstract instance.
unsigned char small_or(double value, unsigned char otherwise) {
  return value < 100 ? static_cast<unsigned char>(value) : otherwise;
}

unsigned char calls_small_or(double value) { return small_or(value, 7); }

double calls_sum(char a, double b, long c) { return sum(a, b, c); }

int calls_in_class(space::object& it) { return it.in_class(5); }
}
