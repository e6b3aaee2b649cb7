// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/farcall.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// A program that is built several times: by different compilers and at different optimisation
/// levels. DIFFERENT_TARGET selects changes like those between two versions of a program.
namespace different {

namespace fc = farcall;

// ---- functions that are the same in all builds --------------------------------------------------

int triple(int v);
int triple_noexcept(int v) noexcept;
int overloaded(int v);
double overloaded(double v);
double inner_product(fc::remote_span<const double> a, fc::remote_span<const double> b);
std::string joined(const std::vector<std::string>& parts, std::string_view separator);
[[noreturn]] void throw_out_of_range(int v);
std::string build();

template <class T>
T doubled(T v) {
  return v + v;
}

struct scale {
  int factor;
  int operator()(int v) const { return factor * v; }
};

/// Returns the result of the call as text, or "refused" if `there` has no such function.
template <class F, class A>
std::string ask(const fc::node& there, F f, A argument) {
  try {
    return std::to_string(fc::sync(there, f, argument));
  } catch (const fc::unknown_function&) {
    return "refused";
  }
}

/// Calls lambdas of an inline function, which several files may contain. Lambdas of one signature
/// differ only by their number in the function. Results go to a parameter, because a return type
/// would be part of the lambdas' names.
inline void call_lambdas(const fc::node& there, std::vector<std::string>& results) {
  const auto size = [](auto v) { return v.size(); };
  const auto plus_three = [](int v) { return v + 3; };
  const auto plus_four = [](int v) { return v + 4; };
  const auto plus_five = [](int v) { return v + 5; };
  const auto plus_captured = [captured = 6](int v) { return v + captured; };
  results = {ask(there, size, std::string("ab")), ask(there, plus_three, 7),
             ask(there, plus_four, 7), ask(there, plus_five, 7), ask(there, plus_captured, 7)};
}

/// Calls a lambda of a function that is not inline; compilers differ in the names of such lambdas.
int call_lambda_of_one_file(const fc::node& there);

/// Returns the results of call_lambdas(), called from a file that all builds have.
std::vector<std::string> call_lambdas_here(const fc::node& there);

std::string build_of(const fc::node& there);
int pid_of(const fc::node& there);

/// Makes every kind of call to `there`, and returns the results as text.
std::vector<std::string> call_everything(const fc::node& there);

/// Returns the right results of call_everything().
std::vector<std::string> expected_results();

/// Calls `other`, which calls this node, and so on to `depth` nested calls; returns their number.
int ping_pong(int depth, const fc::node& other);
int start_ping_pong(const fc::node& at, int depth, const fc::node& other);

/// Has `asked` run call_everything(there), and returns the results.
std::vector<std::string> ask_everything_of(const fc::node& asked, const fc::node& there);

/// Call static functions named `twin` of two files.
int call_twin_of_a(const fc::node& there);
int call_twin_of_b(const fc::node& there);
int call_pointer_to_twin_of_a(const fc::node& there);

/// Call a static function that one build has only in the first file, and the other build only in
/// the second, as if compilers had removed it after inlining all its calls.
int call_pointer_to_lone_twin(const fc::node& there);
int call_lone_twin(const fc::node& there);

// ---- functions that differ between builds -------------------------------------------------------

#ifdef DIFFERENT_TARGET
struct changed_struct {
  std::int32_t x;
  std::int32_t y;
  std::int32_t added;
};
long changed_parameter(long v);
long changed_result(int v);
#else
struct changed_struct {
  std::int32_t x;
  std::int32_t y;
};
int changed_parameter(int v);
int changed_result(int v);
int only_on_the_host(int v);
#endif
int takes_changed_struct(const changed_struct& s);

/// Call these functions. All builds contain the calls, so that their registries have the functions.
int call_changed_parameter(const fc::node& there, bool at_compile_time);
int call_changed_result(const fc::node& there);
int call_changed_struct(const fc::node& there, bool at_compile_time);

} // namespace different
