// SPDX-License-Identifier: Apache-2.0
#include "tests/different_builds/values.hpp"

#include "tests/different_builds/program.hpp"

#include <farcall/transport/process.hpp>

#include <algorithm>
#include <array>
#include <bitset>
#include <chrono>
#include <complex>
#include <concepts>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <ranges>
#include <set>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <variant>

namespace different {

// ---- types of the tests -------------------------------------------------------------------------

enum class colour : std::int16_t { red = -3, blue = 700 };
enum class on_off : bool { off, on };

struct mixed {
  char letter;
  double number;
  std::int16_t small;
  float fraction;
  std::uint8_t bytes[3];
  bool operator==(const mixed&) const = default;
};

struct packed_bits {
  unsigned low : 3;
  unsigned middle : 13;
  int high : 20;
  bool operator==(const packed_bits&) const = default;
};

union either {
  std::int32_t integer;
  float fraction;
};

struct nothing {
  bool operator==(const nothing&) const = default;
};

struct person {
  std::string name;
  unsigned age = 0;
  std::vector<person> children;
  bool operator==(const person&) const = default;
};

// ---- descriptions of values, equal on every machine ---------------------------------------------

namespace {

std::string text_of(const auto& v);

std::string number_text(double v) {
  char text[64];
  std::snprintf(text, sizeof text, "%a", v);
  return text;
}

template <class... T>
std::string list_of(const T&... parts) {
  std::string text = "(";
  ((text += text_of(parts) + ";"), ...);
  return text + ")";
}

template <class T>
concept container = std::ranges::range<T>;

/// True for hash containers: the order of their elements is not part of the value.
template <class T>
concept unordered = container<T> && requires { typename T::hasher; };

std::string text_of(const auto& v) {
  using type = std::remove_cvref_t<decltype(v)>;
  if constexpr (std::same_as<type, mixed>) {
    return list_of(v.letter, v.number, v.small, v.fraction, v.bytes[0], v.bytes[1], v.bytes[2]);
  } else if constexpr (std::same_as<type, packed_bits>) {
    return list_of(unsigned{v.low}, unsigned{v.middle}, int{v.high});
  } else if constexpr (std::same_as<type, either>) {
    return list_of(v.integer);
  } else if constexpr (std::same_as<type, person>) {
    return list_of(v.name, v.age, v.children);
  } else if constexpr (std::same_as<type, nothing> || std::is_null_pointer_v<type> ||
                       std::same_as<type, std::monostate>) {
    return "nothing";
  } else if constexpr (std::same_as<type, char>) {
    // char is signed on some machines, so compare the bits that are sent.
    return std::to_string(static_cast<unsigned char>(v));
  } else if constexpr (std::floating_point<type>) {
    return number_text(v);
  } else if constexpr (std::integral<type>) {
    return std::to_string(v);
  } else if constexpr (std::is_enum_v<type>) {
    return std::to_string(static_cast<long>(v));
  } else if constexpr (requires {
                         v.has_value();
                         *v;
                       }) {
    return v ? "some " + text_of(*v) : "none";
  } else if constexpr (requires {
                         v.get();
                         *v;
                       }) {
    return v ? "owned " + text_of(*v) : "null";
  } else if constexpr (requires { v.index(); }) {
    return std::to_string(v.index()) + ":" +
           std::visit([](const auto& alternative) { return text_of(alternative); }, v);
  } else if constexpr (requires { v.real(); }) {
    return list_of(v.real(), v.imag());
  } else if constexpr (requires { v.to_string(); }) {
    return v.to_string();
  } else if constexpr (requires { v.time_since_epoch(); }) {
    return text_of(v.time_since_epoch());
  } else if constexpr (requires { v.count(); }) {
    return text_of(v.count());
  } else if constexpr (requires { v.native(); }) {
    return v.native();
  } else if constexpr (container<type>) {
    std::vector<std::string> parts;
    for (auto&& part : v)
      parts.push_back(text_of(std::ranges::range_value_t<type>(part)));
    if constexpr (unordered<type>) std::ranges::sort(parts);
    std::string text = std::to_string(parts.size()) + "[";
    for (const std::string& part : parts)
      text += part + ";";
    return text + "]";
  } else {
    return std::apply([](const auto&... parts) { return list_of(parts...); }, v);
  }
}

} // namespace
} // namespace different

template <>
struct farcall::packer<different::person> {
  static void pack(writer& w, const different::person& p) { w(p.name, p.age, p.children); }
  static different::person unpack(reader& r) {
    auto name = r.read<std::string>();
    const auto age = r.read<unsigned>();
    return {std::move(name), age, r.read<std::vector<different::person>>()};
  }
};

namespace different {

template <class T>
T echo(T v) {
  return v;
}

template <class T>
std::string told(const T& v) {
  return text_of(v);
}

/// Returns the description and the value in one call: each function called costs compile time.
template <class T>
std::pair<std::string, T> told_and_back(T v) {
  std::string text = text_of(v);
  return {std::move(text), std::move(v)};
}

namespace {

class checker {
 public:
  explicit checker(const fc::node& there) : there_(there) {}

  template <class T>
  void operator()(const T& v) {
    const auto [there, back] = fc::sync(there_, fc::fn<&told_and_back<T>>, v);
    const std::string right = text_of(v);
    expect<T>(right, there);
    expect<T>(right, text_of(back));
    ++checked_;
  }
  template <class T, class... More>
  void all(const T& first, const More&... more) {
    (*this)(first);
    (((*this)(static_cast<T>(more))), ...);
  }
  template <class Number>
  void number() {
    using limits = std::numeric_limits<Number>;
    all<Number>(limits::min(), limits::max(), limits::lowest(), Number{0}, Number{1});
  }
  /// Checks a view, which cannot be sent back.
  template <class View>
  void view(View v) {
    expect<View>(text_of(v), fc::sync(there_, fc::fn<&told<View>>, v));
    ++checked_;
  }
  void owned() {
    auto v = fc::sync(there_, fc::fn<&echo<std::unique_ptr<person>>>,
                      std::make_unique<person>(person{"owned", 1, {}}));
    expect<person>(text_of(person{"owned", 1, {}}), text_of(*v));
    if (fc::sync(there_, fc::fn<&echo<std::unique_ptr<int>>>, std::unique_ptr<int>()) != nullptr) {
      wrong_.emplace_back("a null pointer came back as something");
    }
  }
  template <class R>
  void result(R got, R right) {
    expect<R>(text_of(right), text_of(got));
    ++checked_;
  }

  /// Returns a line for each wrong value, and one if hardly any value was checked.
  std::vector<std::string> wrong() && {
    if (checked_ < 100) wrong_.push_back("only " + std::to_string(checked_) + " values");
    return std::move(wrong_);
  }

 private:
  template <class T>
  void expect(const std::string& right, const std::string& got) {
    if (got != right) wrong_.push_back(typeid(T).name() + (" " + right) + " was taken for " + got);
  }

  fc::node there_;
  std::vector<std::string> wrong_;
  int checked_ = 0;
};

} // namespace

int add_up(bool a, char b, signed char c, short d, std::uint16_t e, long f, float g, double h,
           const std::string& i, std::int8_t j) {
  return static_cast<int>(a) + b + c + d + e + static_cast<int>(f) + static_cast<int>(g) +
         static_cast<int>(h) + static_cast<int>(i.size()) + j;
}

std::vector<std::string> wrong_values(const fc::node& there) {
  checker check(there);
  check.all(true, false);
  for (int c = 0; c < 256; c += 51)
    check(static_cast<char>(c));
  check.number<signed char>();
  check.number<unsigned char>();
  check.number<short>();
  check.number<unsigned short>();
  check.number<int>();
  check.number<unsigned>();
  check.number<long>();
  check.number<unsigned long>();
  check.number<long long>();
  check.number<unsigned long long>();
  check.number<float>();
  check.number<double>();
  check.all(-0.0, 1.0 / 3, std::numeric_limits<double>::infinity(),
            std::numeric_limits<double>::denorm_min());
  check.all(L'a', L'\U0001F600');
  check(u8'b');
  check.all(u'c', u'\uFFFD');
  check.all(U'd', U'\U0001F600');
  check(std::byte{200});
  check.all(colour::red, colour::blue);
  check.all(on_off::off, on_off::on);
  check(nullptr);

  check(mixed{'m', -1.5, -7, 0.25F, {1, 2, 255}});
  check(packed_bits{5, 8000, -400'000});
  check(either{.integer = 0x12345678});
  check(nothing{});
  check(person{"Ada", 36, {{"Byron", 24, {}}, {"", 0, {{"Anne", 1, {}}}}}});

  check(std::complex<float>(1, -2));
  check(std::complex<double>(-0.5, 4));
  check(std::array<int, 5>{1, -2, 3, -4, 5});
  check(std::array<std::string, 2>{"one", "two"});
  check(std::array<mixed, 2>{mixed{'a', 1, 2, 3, {}}, mixed{'b', 4, 5, 6, {}}});
  check(std::bitset<9>(0x155));
  check(std::bitset<130>("1011") << 126);
  check(std::chrono::nanoseconds(-5));
  check(std::chrono::duration<double>(0.125));
  check(std::chrono::system_clock::time_point(std::chrono::microseconds(1234567)));

  check(std::string());
  check(std::string("a \0 inside, ä and \xff", 20));
  check(std::string(100'000, 'x'));
  check(std::u16string(u"\u00e4\uFFFD"));
  check(std::u32string(U"\U0001F600"));
  check(std::wstring(L"wide \u00e4"));
  check(std::filesystem::path("/a/b c"));
  check.view(std::string_view("a view"));
  const std::vector<double> doubles{1, -2.5, 1e300};
  check.view(std::span<const double>(doubles));
  check.view(std::span<const double, 3>(doubles));

  check(std::vector<int>());
  check(std::vector<char>{'a', '\0', '\xff'});
  check(doubles);
  check(std::vector<mixed>{{'x', 0.5, 1, 2, {3, 4, 5}}, {'y', -0.5, -1, -2, {6, 7, 8}}});
  check(std::vector<bool>{true, false, true, true, false, false, false, true, true, false, true});
  check(std::vector<std::string>{"", "b", std::string(300, 'c')});
  check(std::vector<std::vector<short>>{{1, 2}, {}, {3}});
  check(std::deque<int>{1, 2, 3});
  check(std::list<std::string>{"p", "q"});
  check(std::set<int>{3, 1, 2});
  check(std::multiset<std::string>{"b", "a", "b"});
  check(std::map<std::string, std::vector<int>>{{"k", {1, 2}}, {"", {}}});
  check(std::multimap<int, char>{{1, 'a'}, {1, 'b'}, {0, 'c'}});
  check(std::unordered_map<std::string, double>{{"x", 1}, {"y", 2}, {"z", 3}});
  check(std::unordered_set<colour>{colour::red, colour::blue});
  check(std::pair<int, std::string>(7, "seven"));
  check(std::pair<char, double>('c', 0.5));
  check(std::tuple<>());
  check(std::tuple<std::int8_t, double, std::string, bool>(-1, 2, "three", true));
  check(std::optional<int>());
  check(std::optional<mixed>(mixed{'o', 1, 1, 1, {}}));
  check(std::optional<std::string>("here"));
  check(std::variant<std::monostate, int, std::string>());
  check(std::variant<std::monostate, int, std::string>(-5));
  check(std::variant<std::monostate, int, std::string>("text"));
  check.owned();

  const auto add = [&](auto f) {
    return fc::sync(there, f, true, 'a', static_cast<signed char>(-3), static_cast<short>(-300),
                    static_cast<std::uint16_t>(60000), -70000L, 2.5F, -3.5, std::string("four"),
                    std::int8_t{-128});
  };
  const int right = add_up(true, 'a', -3, -300, 60000, -70000L, 2.5F, -3.5, "four", -128);
  check.result(add(fc::fn<&add_up>), right);
  check.result(add(add_up), right);
  return std::move(check).wrong();
}

std::vector<std::string> wrong_values_between(const fc::node& asked, const fc::node& there) {
  return fc::sync(asked, fc::fn<&wrong_values>, there);
}

// ---- types that differ between machines ---------------------------------------------------------

struct hides_long_double {
  char before;
  long double value;
};

struct alignas(32) aligned_class {
  std::array<float, 8> lanes;
};

struct alignas(32) fixed_class {
  std::array<float, 8> lanes;
};

struct plain_class {
  std::int32_t x;
  std::int32_t y;
};

struct variant_inside {
  std::variant<std::int32_t, float> value;
};

/// A functor whose name and signature do not show that it holds a long double.
struct adds_long_double {
  long double captured;
  int operator()(int v) const { return v + static_cast<int>(captured); }
};

long double half(long double v) { return v / 2; }
int first_of(const hides_long_double& v) { return static_cast<int>(v.value) + v.before; }
int third_of(const std::array<long double, 3>& v) { return static_cast<int>(v[2]); }
int address_of(fc::remote_span<const long double> v) { return static_cast<int>(v.address()); }
int last_of(const aligned_class& v) { return static_cast<int>(v.lanes[7]); }
int last_of_fixed(const fixed_class& v) { return static_cast<int>(v.lanes[7]); }
int sum_of_class(const plain_class& v) { return v.x + v.y; }
int index_in(const variant_inside& v) { return static_cast<int>(v.value.index()); }
int length_of(const std::string& v) { return static_cast<int>(v.size()); }
double scaled(double v, int by, unsigned char plus) { return v * by + plus; }

} // namespace different

template <>
inline constexpr bool farcall::has_fixed_layout<different::fixed_class> = true;

namespace different {
namespace {

template <class F, class... A>
std::string outcome(const fc::node& there, F f, double right, const A&... arguments) {
  try {
    const auto got = static_cast<double>(fc::sync(there, f, arguments...));
    return got == right ? "ok" : "wrong: " + std::to_string(got);
  } catch (const fc::unknown_function& e) {
    return e.what();
  }
}

} // namespace

std::string call_with_long_double(const fc::node& there) {
  return outcome(there, fc::fn<&half>, 4.5, 9.0L);
}
std::string call_with_hidden_long_double(const fc::node& there) {
  return outcome(there, fc::fn<&first_of>, 12, hides_long_double{5, 7});
}
std::string call_with_array_of_long_double(const fc::node& there) {
  return outcome(there, fc::fn<&third_of>, 3, std::array<long double, 3>{1, 2, 3});
}
std::string call_with_view_of_long_double(const fc::node& there) {
  return outcome(there, fc::fn<&address_of>, 64, fc::remote_span<const long double>(0, 64, 1));
}
std::string call_with_captured_long_double(const fc::node& there) {
  return outcome(there, adds_long_double{30}, 42, 12);
}
std::string call_with_aligned_class(const fc::node& there) {
  return outcome(there, fc::fn<&last_of>, 8, aligned_class{{1, 2, 3, 4, 5, 6, 7, 8}});
}
std::string call_with_fixed_class(const fc::node& there) {
  return outcome(there, fc::fn<&last_of_fixed>, 8, fixed_class{{1, 2, 3, 4, 5, 6, 7, 8}});
}
std::string call_with_plain_class(const fc::node& there) {
  return outcome(there, fc::fn<&sum_of_class>, 3, plain_class{1, 2});
}
std::string call_with_variant_inside(const fc::node& there) {
  return outcome(there, fc::fn<&index_in>, 1, variant_inside{2.5F});
}
std::string call_with_string(const fc::node& there) {
  return outcome(there, fc::fn<&length_of>, 4, std::string("four"));
}
std::string call_with_numbers(const fc::node& there) {
  return outcome(there, fc::fn<&scaled>, 10.5, 2.5, 3, static_cast<unsigned char>(3));
}
std::string call_with_numbers_by_pointer(const fc::node& there) {
  return outcome(there, scaled, 10.5, 2.5, 3, static_cast<unsigned char>(3));
}
std::string call_with_memory(const fc::node& there) {
  const auto memory = there.allocate<std::uint64_t>(3);
  fc::put_sync(std::vector<std::uint64_t>{1, 20, 300}, memory);
  return outcome(there, fc::fn<&sum_of>, 321, fc::remote_span<const std::uint64_t>(memory.span()));
}

std::uint32_t refused_by(const fc::node& there) {
  std::uint32_t refused = 0;
  std::uint32_t bit = 1;
  for (const auto call :
       {call_with_numbers, call_with_numbers_by_pointer, call_with_memory, call_with_fixed_class,
        call_with_plain_class, call_with_variant_inside, call_with_string}) {
    if (call(there) != "ok") refused |= bit;
    bit <<= 1;
  }
  return refused;
}

std::uint32_t refused_between(const fc::node& asked, const fc::node& there) {
  return fc::sync(asked, fc::fn<&refused_by>, there);
}

void throw_for(int v) { throw std::out_of_range("no " + std::to_string(v)); }

// ---- memory and nesting -------------------------------------------------------------------------

std::vector<std::uint64_t> counted_up(std::vector<std::uint64_t> values) {
  for (std::uint64_t& v : values)
    ++v;
  return values;
}

std::uint64_t sum_of(fc::remote_span<const std::uint64_t> values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0});
}

void multiply(fc::remote_span<std::uint64_t> values, std::uint64_t factor) {
  for (std::uint64_t& v : values.local())
    v *= factor;
}

fc::remote_span<std::uint64_t> private_memory() {
  static std::array<std::uint64_t, 100'000> memory;
  return fc::remote_span<std::uint64_t>(std::span(memory));
}

std::vector<std::string> arguments() { return farcall::own_arguments(); }

std::string variable(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

int sleep_for_ever(int v) {
  for (;;)
    std::this_thread::sleep_for(std::chrono::seconds(1));
  return v;
}

std::uint64_t factorial_by_turns(std::uint32_t n, const fc::node& back) {
  if (n < 2) return 1;
  return n * fc::sync(back, fc::fn<&factorial_by_turns>, n - 1, fc::this_node());
}

/// Not called: adds functions that only the tests call to the function registry of every build.
void calls_of_the_tests(const fc::node& there) {
  (void)fc::sync(there, fc::fn<&counted_up>, std::vector<std::uint64_t>());
  fc::sync(there, multiply, fc::remote_span<std::uint64_t>(), std::uint64_t{1});
  (void)fc::sync(there, fc::fn<&private_memory>);
  (void)fc::sync(there, fc::fn<&arguments>);
  (void)fc::sync(there, fc::fn<&variable>, "");
  (void)fc::sync(there, fc::fn<&sleep_for_ever>, 1);
  (void)fc::sync(there, fc::fn<&triple>, 1);
  fc::sync(there, fc::fn<&throw_out_of_range>, 1);
  fc::sync(there, fc::fn<&throw_for>, 1);
}

} // namespace different
