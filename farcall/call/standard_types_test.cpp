// SPDX-License-Identifier: Apache-2.0
#include <farcall/call/standard_types.hpp>

#include <gtest/gtest.h>

#include <complex>
#include <deque>
#include <filesystem>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <system_error>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace farcall::detail::standard_types_test {
namespace {

using alias = std::map<int, std::string>;
struct derived : std::map<int, int> {
  int more = 0;
};
template <class T>
struct derived_template : std::list<T> {
  int more = 0;
};
struct deleter {
  void operator()(int* p) const noexcept { delete p; }
};
struct incomplete;

template <class T>
constexpr bool a_local_class_is_not_standard() {
  struct local : std::list<T> {};
  return !standard_class<local> && !sequence_container<local>;
}

static_assert(map_container<alias> && map_container<std::unordered_multimap<int, int>>);
static_assert(map_container<std::map<std::string, std::unique_ptr<int>>>);
static_assert(associative_container<std::set<int>> && !map_container<std::set<int>>);
static_assert(associative_container<std::unordered_multiset<int>>);
static_assert(!associative_container<std::vector<int>> && !associative_container<derived>);

static_assert(sequence_container<std::list<int>> && sequence_container<std::deque<std::string>>);
static_assert(!sequence_container<std::forward_list<int>>);
static_assert(!sequence_container<std::queue<int>>);
static_assert(!sequence_container<derived_template<int>>);
static_assert(a_local_class_is_not_standard<std::string>());

static_assert(path_class<std::filesystem::path> && !path_class<std::string>);

static_assert(plain_unique_owner<std::unique_ptr<const double>>);
static_assert(plain_unique_owner<std::unique_ptr<incomplete>>);
static_assert(unique_owner<std::unique_ptr<int[]>> && !plain_unique_owner<std::unique_ptr<int[]>>);
static_assert(unique_owner<std::unique_ptr<int, deleter>>);
static_assert(!plain_unique_owner<std::unique_ptr<int, deleter>>);
static_assert(shared_owner<std::shared_ptr<int>> && shared_owner<std::weak_ptr<int>>);
static_assert(!shared_owner<std::unique_ptr<int>>);

static_assert(complex_number<std::complex<double>> && !complex_number<double>);
static_assert(wrapped_reference<std::reference_wrapper<const derived>>);
static_assert(!wrapped_reference<std::unique_ptr<int>>);
static_assert(categorised_error<std::error_code> && categorised_error<std::error_condition>);

// The concepts recognise the types of the standard's headers in any language mode.
TEST(standard_types, are_recognised_by_name_and_shape) {
  EXPECT_TRUE(standard_class<std::string>);
  EXPECT_FALSE(standard_class<derived>);
  EXPECT_FALSE(standard_class<int>);
}

} // namespace
} // namespace farcall::detail::standard_types_test
