// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/call/pack.hpp>

#include <algorithm>
#include <array>
#include <bitset>
#include <chrono>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

/// Support for tests of packing: message bodies, random values, comparison.
namespace farcall::test {

/// A message body: bytes aligned as in a message, in a block of exactly that size, so that
/// AddressSanitizer detects every read past the end.
class body {
 public:
  explicit body(std::size_t size)
      : bytes_(static_cast<std::byte*>(::operator new(size, std::align_val_t{body_alignment}))),
        size_(size) {
    if (size != 0) std::memset(bytes_.get(), 0xa5, size);
  }
  body(const void* from, std::size_t size) : body(size) {
    if (size != 0) std::memcpy(bytes_.get(), from, size);
  }

  [[nodiscard]] std::byte* data() { return bytes_.get(); }
  [[nodiscard]] const std::byte* data() const { return bytes_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] reader read() const { return {data(), size_}; }
  [[nodiscard]] body first(std::size_t n) const { return {data(), n}; }
  [[nodiscard]] std::vector<std::byte> copy() const { return {data(), data() + size_}; }

 private:
  struct release {
    void operator()(std::byte* bytes) const {
      ::operator delete(bytes, std::align_val_t{body_alignment});
    }
  };
  std::unique_ptr<std::byte, release> bytes_;
  std::size_t size_;
};

/// Packs the values in the two passes of a call.
template <class... T>
[[nodiscard]] body packed(const T&... values) {
  body result(packed_size(values...));
  writer w(result.data(), result.size());
  w(values...);
  return result;
}

using random_source = std::mt19937_64;

[[nodiscard]] inline std::size_t below(random_source& random, std::size_t limit) {
  return static_cast<std::size_t>(random() % limit);
}

/// Makes a random value of type T. Views refer to values that live as long as the program.
template <class T>
struct some {
  static_assert(std::is_trivially_copyable_v<T>, "write a `some` for this type");
  static T value(random_source& random) {
    if constexpr (std::is_same_v<T, bool>) {
      return random() % 2 != 0;
    } else if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(static_cast<std::int64_t>(random())) / T(1000);
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      return static_cast<T>(random());
    } else {
      static_assert(std::is_empty_v<T> || std::is_null_pointer_v<T>,
                    "write a `some` for this type");
      return T{};
    }
  }
};

template <class T>
[[nodiscard]] T some_value(random_source& random) {
  return some<std::remove_cv_t<T>>::value(random);
}

/// Makes a container with insert(): mostly short, at times empty, at times longer than a cache
/// line.
template <class Container>
[[nodiscard]] Container some_container(random_source& random) {
  using element = typename detail::sent_element<typename Container::value_type>::type;
  Container values;
  const std::size_t n = below(random, 8) == 0 ? below(random, 40) : below(random, 4);
  for (std::size_t i = 0; i != n; ++i)
    values.insert(values.end(), some_value<element>(random));
  return values;
}

template <class T>
  requires requires(T c) { c.insert(c.end(), std::declval<typename T::value_type>()); }
struct some<T> {
  static T value(random_source& random) { return some_container<T>(random); }
};

template <class T, std::size_t N>
struct some<std::array<T, N>> {
  static std::array<T, N> value(random_source& random) {
    std::array<T, N> values{};
    for (auto& value : values)
      value = some_value<T>(random);
    return values;
  }
};

/// Keeps the value to which a view refers.
template <class T>
[[nodiscard]] const T& kept(T value) {
  static std::vector<std::unique_ptr<const T>> all;
  all.push_back(std::make_unique<const T>(std::move(value)));
  return *all.back();
}

template <class Char>
struct some<std::basic_string_view<Char>> {
  static std::basic_string_view<Char> value(random_source& random) {
    return kept(some_value<std::basic_string<Char>>(random));
  }
};

template <class T>
struct some<std::span<const T>> {
  static std::span<const T> value(random_source& random) {
    return std::span<const T>(kept(some_value<std::array<T, 5>>(random))).first(below(random, 6));
  }
};

template <>
struct some<std::filesystem::path> {
  static std::filesystem::path value(random_source& random) {
    std::string text = "dir/";
    for (std::size_t n = below(random, 20); n != 0; --n) {
      text += static_cast<char>('a' + below(random, 26));
    }
    return text;
  }
};

template <class First, class Second>
struct some<std::pair<First, Second>> {
  static std::pair<First, Second> value(random_source& random) {
    return {some_value<First>(random), some_value<Second>(random)};
  }
};

template <class... T>
struct some<std::tuple<T...>> {
  static std::tuple<T...> value([[maybe_unused]] random_source& random) {
    return std::tuple<T...>{some_value<T>(random)...};
  }
};

template <class T>
struct some<std::optional<T>> {
  static std::optional<T> value(random_source& random) {
    if (random() % 3 == 0) return std::nullopt;
    return some_value<T>(random);
  }
};

template <class T>
struct some<std::unique_ptr<T>> {
  static std::unique_ptr<T> value(random_source& random) {
    if (random() % 3 == 0) return nullptr;
    return std::make_unique<T>(some_value<T>(random));
  }
};

template <class... T>
struct some<std::variant<T...>> {
  static std::variant<T...> value(random_source& random) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      std::variant<T...> (*const makers[])(random_source&) = {[](random_source& r) {
        return std::variant<T...>(std::in_place_index<I>, some_value<T>(r));
      }...};
      return makers[below(random, sizeof...(T))](random);
    }(std::index_sequence_for<T...>{});
  }
};

template <class Rep, class Period>
struct some<std::chrono::duration<Rep, Period>> {
  static std::chrono::duration<Rep, Period> value(random_source& random) {
    return std::chrono::duration<Rep, Period>(some_value<Rep>(random));
  }
};

template <class Clock, class Duration>
struct some<std::chrono::time_point<Clock, Duration>> {
  static std::chrono::time_point<Clock, Duration> value(random_source& random) {
    return std::chrono::time_point<Clock, Duration>(some_value<Duration>(random));
  }
};

template <class T>
struct some<std::complex<T>> {
  static std::complex<T> value(random_source& random) {
    return {some_value<T>(random), some_value<T>(random)};
  }
};

template <std::size_t N>
struct some<std::bitset<N>> {
  static std::bitset<N> value(random_source& random) { return {random()}; }
};

/// True if the values are equal, also behind unique_ptr and span, whose == compares addresses or
/// does not exist.
template <class T>
[[nodiscard]] bool same(const T& a, const T& b) {
  if constexpr (requires { a.index(); }) {
    return a.index() == b.index() &&
           std::visit(
               [](const auto& left, const auto& right) {
                 if constexpr (std::is_same_v<decltype(left), decltype(right)>) {
                   return same(left, right);
                 }
                 return false;
               },
               a, b);
  } else if constexpr (requires { a.get_deleter(); } || requires { a.has_value(); }) {
    return bool(a) == bool(b) && (!a || same(*a, *b));
  } else if constexpr (requires { std::tuple_size<T>::value; } && !requires { a.data(); }) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return (same(std::get<I>(a), std::get<I>(b)) && ...);
    }(std::make_index_sequence<std::tuple_size_v<T>>{});
  } else if constexpr (
      requires { a.hash_function(); } || !requires { a.begin(); } || requires { a.native(); }) {
    return a == b;
  } else {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const auto& left, const auto& right) { return same(left, right); });
  }
}

} // namespace farcall::test
