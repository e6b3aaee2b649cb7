// SPDX-License-Identifier: Apache-2.0
#include "tests/different_builds/program.hpp"

#include <farcall/call/program_image.hpp>

#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>

#include <unistd.h>

namespace different {

int triple(int v) { return 3 * v; }
int triple_noexcept(int v) noexcept { return 3 * v; }
int overloaded(int v) { return v + 1; }
double overloaded(double v) { return v / 2; }

double inner_product(fc::remote_span<const double> a, fc::remote_span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string all;
  for (const std::string& p : parts)
    all.append(all.empty() ? "" : separator).append(p);
  return all;
}

void throw_out_of_range(int v) { throw std::out_of_range("no " + std::to_string(v)); }

static std::size_t size_of(const std::vector<char>& v) { return v.size(); }

static std::map<std::string, std::optional<int>> made_of(const std::string& key) {
  return {{key, 7}, {"none", std::nullopt}};
}

static std::unique_ptr<int> incremented(std::unique_ptr<int> p) {
  *p += 1;
  return p;
}

int call_lambda_of_one_file(const fc::node& there) {
  return fc::sync(there, [](int v) { return v + 40; }, 2);
}

std::vector<std::string> call_lambdas_here(const fc::node& there) {
  std::vector<std::string> results;
  call_lambdas(there, results);
  return results;
}

std::string build_of(const fc::node& there) { return fc::sync(there, fc::fn<&build>); }
int pid_of(const fc::node& there) { return fc::sync(there, ::getpid); }

std::string build() { return fc::program_image::instance().build(); }

static int hidden(int v) { return v - 1; }

std::vector<std::string> expected_results() {
  return {"21", "21", "8",       "3.5", "32",   "a-b-c", "std::out_of_range: no 4", "14", "xx",
          "30", "6",  "1000000", "k=7", "none", "8"};
}

std::vector<std::string> call_everything(const fc::node& there) {
  std::vector<std::string> all;
  const auto add = [&](auto v) { all.push_back(std::to_string(v)); };

  add(fc::sync(there, triple, 7));
  add(fc::sync(there, fc::fn<&triple_noexcept>, 7));
  add(fc::sync(there, static_cast<int (*)(int)>(overloaded), 7));
  all.push_back(std::to_string(fc::sync(there, static_cast<double (*)(double)>(overloaded), 7.0))
                    .substr(0, 3));
  {
    const auto a = there.allocate<double>(3);
    const auto b = there.allocate<double>(3);
    fc::put_sync(std::vector<double>{1, 2, 3}, a);
    fc::put_sync(std::vector<double>{4, 5, 6}, b);
    add(static_cast<int>(fc::async(there, inner_product, a.span(), b.span()).get()));
  }
  all.push_back(fc::sync(there, joined, std::vector<std::string>{"a", "b", "c"}, "-"));
  try {
    fc::sync(there, throw_out_of_range, 4);
  } catch (const fc::remote_error& e) {
    all.push_back(e.type_name() + ": " + e.text());
  }
  add(fc::sync(there, doubled<int>, 7));
  all.push_back(fc::sync(there, fc::fn<&doubled<std::string>>, "x"));
  add(fc::sync(there, scale{5}, 6));
  add(fc::sync(there, hidden, 7));
  add(fc::sync(there, size_of, std::vector<char>(1'000'000)));
  const auto made = fc::sync(there, made_of, "k");
  all.push_back("k=" + std::to_string(made.at("k").value()));
  all.emplace_back(made.at("none") ? "some" : "none");
  add(*fc::sync(there, incremented, std::make_unique<int>(7)));
  return all;
}

int ping_pong(int depth, const fc::node& other) {
  return depth == 0 ? 0 : 1 + fc::sync(other, ping_pong, depth - 1, fc::this_node());
}

int start_ping_pong(const fc::node& at, int depth, const fc::node& other) {
  return fc::sync(at, ping_pong, depth, other);
}

std::vector<std::string> ask_everything_of(const fc::node& asked, const fc::node& there) {
  return fc::sync(asked, fc::fn<&call_everything>, there);
}

#ifdef DIFFERENT_TARGET
long changed_parameter(long v) { return v; }
long changed_result(int v) { return v; }
#else
int changed_parameter(int v) { return v; }
int changed_result(int v) { return v; }
#endif

int takes_changed_struct(const changed_struct& s) { return s.x + s.y; }

int call_changed_parameter(const fc::node& there, bool at_compile_time) {
  return static_cast<int>(at_compile_time ? fc::sync(there, fc::fn<&changed_parameter>, 1)
                                          : fc::sync(there, changed_parameter, 1));
}

int call_changed_result(const fc::node& there) {
  return static_cast<int>(fc::sync(there, fc::fn<&changed_result>, 1));
}

int call_changed_struct(const fc::node& there, bool at_compile_time) {
  return at_compile_time ? fc::sync(there, fc::fn<&takes_changed_struct>, changed_struct{})
                         : fc::sync(there, takes_changed_struct, changed_struct{});
}

} // namespace different
