#pragma once

#include <farcall/farcall.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// A program that is built several times: by other compilers, at other optimisation levels, and,
/// where DIFFERENT_TARGET is defined, with changes such as an older version of the program would
/// have.
namespace different {

namespace fc = farcall;

// ---- the same in all programs -------------------------------------------------------------------

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

/// What came back, or "refused".
template <class F, class A>
std::string ask(const fc::node& there, F f, A argument) {
  try {
    return std::to_string(fc::sync(there, f, argument));
  } catch (const fc::unknown_function&) {
    return "refused";
  }
}

/// Lambdas of a function that several files may hold; those of one shape differ by nothing but
/// their number in it. The result is no return value, which would be part of their names.
inline void call_lambdas(const fc::node& there, std::vector<std::string>& results) {
  const auto size = [](auto v) { return v.size(); };
  const auto plus_three = [](int v) { return v + 3; };
  const auto plus_four = [](int v) { return v + 4; };
  const auto plus_five = [](int v) { return v + 5; };
  const auto plus_captured = [captured = 6](int v) { return v + captured; };
  results = {ask(there, size, std::string("ab")), ask(there, plus_three, 7),
             ask(there, plus_four, 7), ask(there, plus_five, 7), ask(there, plus_captured, 7)};
}

/// Other lambdas have names that compilers make up each in its own way.
int call_lambda_of_one_file(const fc::node& there);

/// From a file that is part of all programs.
std::vector<std::string> call_lambdas_here(const fc::node& there);

std::string build_of(const fc::node& there);
int pid_of(const fc::node& there);

/// Every kind of call once, to `there`; what came back, as text.
std::vector<std::string> call_everything(const fc::node& there);

/// What call_everything() has to return.
std::vector<std::string> expected_results();

/// Goes back and forth between the node that runs it and `other`.
int ping_pong(int depth, const fc::node& other);
int start_ping_pong(const fc::node& at, int depth, const fc::node& other);

/// The same, the function known at compile time.
std::vector<std::string> ask_everything_of(const fc::node& asked, const fc::node& there);

/// Two functions called `twin` that are static in two files.
int call_twin_of_a(const fc::node& there);
int call_twin_of_b(const fc::node& there);
int call_pointer_to_twin_of_a(const fc::node& there);

/// A static function of which one program has kept only the first file's, the other only the second
/// file's: compilers do that to functions whose calls they have all inlined.
int call_pointer_to_lone_twin(const fc::node& there);
int call_lone_twin(const fc::node& there);

// ---- different ones -----------------------------------------------------------------------------

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

/// Calls to those, in both programs, so that both have them in their tables.
int call_changed_parameter(const fc::node& there, bool at_compile_time);
int call_changed_result(const fc::node& there);
int call_changed_struct(const fc::node& there, bool at_compile_time);

} // namespace different
