#include "report.hpp"

#include "matrix_market.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace cg {
namespace {

std::string json_text(const std::string& text) {
  std::string result = "\"";
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

/// JSON has no way to write infinities and NaN.
std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

} // namespace

void print_json(const report& r) {
  std::string targets;
  for (const auto& one : r.targets)
    targets.append(targets.empty() ? "" : ",").append(json_text(one));
  std::string line;
  const auto add = [&](const char* name, const std::string& value) {
    line.append(line.empty() ? "{\"" : ",\"").append(name).append("\":").append(value);
  };
  add("problem", json_text(r.problem));
  add("rows", std::to_string(r.rows));
  add("nonzeros", std::to_string(r.nonzeros));
  add("targets", "[" + targets + "]");
  add("preconditioner", json_text(r.preconditioner));
  add("tolerance", json_number(r.tolerance));
  add("outcome", json_text(std::string{to_string(r.outcome)}));
  add("iterations", std::to_string(r.iterations));
  add("residual", json_number(r.residual));
  add("seconds", json_number(r.seconds));
  add("host_seconds", json_number(r.host_seconds));
  add("offloads", std::to_string(r.times.offloads));
  add("offloads_per_second", json_number(r.offloads_per_second()));
  add("offload_overhead_seconds", json_number(r.overhead_seconds()));
  add("offload_overhead_share", json_number(r.overhead_share()));
  add("difference", json_number(r.difference));
  add("difference_limit", json_number(r.limit));
  std::printf("%s}\n", line.c_str());
}

void print_text(const report& r) {
  std::printf("problem     %s: %zu rows, %zu nonzeros\n", printable(r.problem).c_str(), r.rows,
              r.nonzeros);
  for (const auto& one : r.targets)
    std::printf("target      %s\n", one.c_str());
  std::printf("solver      conjugate gradients, preconditioner %s, tolerance %g\n",
              r.preconditioner.c_str(), r.tolerance);
  std::printf("iterations  %llu, %s\n", static_cast<unsigned long long>(r.iterations),
              std::string{to_string(r.outcome)}.c_str());
  std::printf("residual    %.3e = |b - Ax| / |b|, computed afresh on the host\n", r.residual);
  std::printf("time        %.4f s; without offload %.4f s\n", r.seconds, r.host_seconds);
  std::printf("offloads    %llu, one per target and iteration; %.0f per second\n",
              static_cast<unsigned long long>(r.times.offloads), r.offloads_per_second());
  std::printf("overhead    %.1f %% of the time: what products took on the host less the slowest "
              "kernel of each\n",
              100 * r.overhead_share());
  std::printf("agreement   %.3e = |x - y| / |y| with y solved without offload; limit %.0e\n",
              r.difference, r.limit);
}

} // namespace cg
