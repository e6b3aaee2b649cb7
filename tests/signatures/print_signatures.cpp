// SPDX-License-Identifier: Apache-2.0

// Prints the signature text of many function types, one a line, to compare compilers.

#include <farcall/call/signature.hpp>

#include <array>
#include <bitset>
#include <chrono>
#include <complex>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

enum class colour : short { red };
enum plain { one };

struct point {
  double x;
  float y;
};

namespace outer::inner {
struct nested {
  struct deeper {
    char c;
  };
};
template <class T, auto Value>
struct fixed {
  T value[4];
};
} // namespace outer::inner

namespace {
struct hidden {
  int i;
};
} // namespace

struct person {
  std::string name;
};

template <>
struct farcall::packer<person> {
  static void pack(writer& w, const person& p) { w(p.name); }
  static person unpack(reader& r) { return {r.read<std::string>()}; }
};

struct functor {
  int operator()(int i) const { return i; }
};

inline auto lambda() {
  return [i = 1](int j) { return i + j; };
}

int function(double) noexcept;

template <class... Signatures>
void print() {
  (std::puts(farcall::signature_text<Signatures>().c_str()), ...);
}

int main() {
  print<void(), double(double), double(double) noexcept, void(int, const int, const int&, int&&)>();
  print<bool(char, signed char, unsigned char, short, unsigned short, int, unsigned, long,
             unsigned long, long long, unsigned long long)>();
  print<long double(float, long double, wchar_t, char8_t, char16_t, char32_t, std::byte)>();
  print<void(std::nullptr_t, std::complex<long double>, std::array<std::complex<float>, 2>)>();
  print<colour(plain, point, hidden, person, functor)>();
  print<outer::inner::nested(outer::inner::nested::deeper, outer::inner::fixed<int, 7>,
                             outer::inner::fixed<char, 'c'>, outer::inner::fixed<long, true>,
                             outer::inner::fixed<point, colour::red>,
                             outer::inner::fixed<point, &function>)>();
  print<std::string(std::string_view, std::u16string, std::wstring_view, std::filesystem::path)>();
  print<std::vector<double>(std::span<const double>, std::span<const point, 3>, std::deque<int>,
                            std::list<char>, std::vector<bool>, std::array<std::string, 2>)>();
  print<std::map<std::string, std::vector<point>>(std::set<int>, std::multimap<int, std::string>,
                                                  std::unordered_map<std::string, int>,
                                                  std::unordered_set<colour>)>();
  print<std::tuple<int, std::string>(std::tuple<>, std::pair<const int, person>,
                                     std::optional<double>, std::variant<std::monostate, person>,
                                     std::unique_ptr<point>)>();
  print<std::chrono::nanoseconds(std::chrono::system_clock::time_point, std::bitset<9>,
                                 std::chrono::duration<double>)>();
  print<void(decltype(lambda()), std::integral_constant<unsigned, 3>, const person&)>();
  return 0;
}
