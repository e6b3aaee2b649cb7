// SPDX-License-Identifier: Apache-2.0

// Conjugate gradients with the matrix-vector products on the targets of a job.
// All code that uses farcall is here and in distributed.cpp.
#include "distributed.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>

namespace fc = farcall;

namespace {

enum exit_code { solved = 0, failed = 1, bad_input = 2, not_converged = 3 };

using steady_clock = std::chrono::steady_clock;
using cg::join;

constexpr const char* usage_text =
    R"(usage: example-08-conjugate-gradient [--matrix FILE | --poisson N] [options]

Solves A x = b by preconditioned conjugate gradients. The rows of A are spread over all targets,
which compute the matrix-vector products; the rest runs on the host. The same solver then runs
without offload, and the two solutions must agree. b is A x for a known x.

  --matrix FILE        symmetric positive definite matrix, Matrix Market coordinate format
  --poisson N          7-point Poisson problem on N x N x N points (default: N = 32)
  --tolerance R        stop at |b - Ax| <= R |b| (default: 1e-10)
  --max-iterations N   give up after N iterations (default: ten per row)
  --precondition P     jacobi (default) or none
  --targets URLS       targets to start, e.g. shm:2; the same as --farcall-targets=URLS
  --json               print one JSON object
  --help               print this

Exit code: 0 solved, 1 a target failed or the solutions differ, 2 bad usage or input,
3 not converged.
)";

[[noreturn]] void refuse(const auto&... why) { throw cg::input_error(join(why...)); }

constexpr std::string_view with_value[] = {"--matrix",         "--poisson",      "--tolerance",
                                           "--max-iterations", "--precondition", "--targets"};

/// The command line, without the job's options.
struct options {
  std::map<std::string_view, std::string_view> given;

  options(int argc, const char* const* argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string_view word = argv[i];
      const auto sign = word.starts_with("--") ? word.find('=') : word.npos;
      const std::string_view name = word.substr(0, sign);
      const bool has_value = sign != word.npos;
      const bool is_flag = name == "--json" || name == "--help" || name == "-h";
      if (name.starts_with("--farcall-")) {
        if (name != "--farcall-help" && !has_value) ++i;
        continue;
      }
      if (!is_flag && std::ranges::find(with_value, name) == std::end(with_value))
        refuse("unknown argument ", cg::in_quotes(name), "; see --help");
      if (is_flag && has_value) refuse(name, " takes no value; see --help");
      if (!is_flag && !has_value && ++i == argc) refuse(name, " needs a value; see --help");
      given[name] = has_value ? word.substr(sign + 1) : argv[i];
    }
    if (given.contains("--matrix") && given["--matrix"].empty())
      refuse("--matrix needs the name of a file");
    const auto edge = number<std::uint64_t>("--poisson", 32);
    if (edge < 1 || edge > cg::max_poisson_edge)
      refuse("--poisson: N must be 1 to ", cg::max_poisson_edge, ", not ", edge);
    // Smaller tolerances are beyond a double's precision.
    if (const double r = number("--tolerance", 1e-10); !(r >= 1e-16 && r < 1))
      refuse("--tolerance must lie between 1e-16 and 1, for example 1e-10");
    (void)number<std::uint64_t>("--max-iterations", 0);
    if (const auto p = text("--precondition", "none"); p != "jacobi" && p != "none")
      refuse("--precondition must be jacobi or none, not ", cg::in_quotes(p));
    if (has("--poisson") && has("--matrix"))
      refuse("--matrix and --poisson exclude each other; give one of them");
  }

  [[nodiscard]] bool has(std::string_view name) const { return given.contains(name); }
  [[nodiscard]] std::string text(std::string_view name, std::string_view otherwise) const {
    return std::string{has(name) ? given.at(name) : otherwise};
  }
  template <class Number>
  [[nodiscard]] Number number(std::string_view name, Number otherwise) const {
    const std::errc status = has(name) ? cg::read_number(given.at(name), otherwise) : std::errc{};
    if (status != std::errc{})
      refuse(name, ": ", cg::in_quotes(given.at(name)), " is not a number",
             status == std::errc::result_out_of_range ? " that fits" : "");
    return otherwise;
  }
};

cg::csr_matrix load(const std::string& file, std::uint64_t edge) {
  if (!file.empty()) return cg::read_matrix_market(file);
  // The host and the targets hold the matrix once each.
  const double needed = 2 * cg::poisson_bytes(edge);
  if (needed >
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE)))
    refuse("--poisson ", edge, " needs ", static_cast<long>(needed / 1e9),
           " GB of memory, more than this machine has");
  return cg::poisson(edge);
}

/// A line on a terminal with the progress of a long run.
struct progress_line {
  const char* what;
  steady_clock::time_point next = steady_clock::now() + std::chrono::milliseconds{500};
  bool is_terminal = ::isatty(STDERR_FILENO) == 1;
  bool is_shown = false;

  void show(std::uint64_t iteration, double residual) {
    if (!is_terminal || steady_clock::now() < next) return;
    next = steady_clock::now() + std::chrono::milliseconds{200};
    is_shown = true;
    std::fprintf(stderr, "\r\033[K%s: iteration %ju, residual %.1e", what,
                 std::uintmax_t{iteration}, residual);
  }
  ~progress_line() { (void)(is_shown && std::fputs("\r\033[K", stderr)); }
};

std::string json_text(std::string_view text) {
  std::string result;
  for (const char c : cg::printable(text))
    result += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return '"' + result + '"';
}

int complain(exit_code code, const std::string& what) {
  std::fprintf(stderr, "conjugate-gradient: %s\n", what.c_str());
  return code;
}

int run(int argc, char** argv) {
  const options o{argc, argv};
  if (o.has("--help") || o.has("-h")) return std::fputs(usage_text, stdout), solved;
  const std::string file = o.text("--matrix", "");
  const auto edge = o.number<std::uint64_t>("--poisson", 32);
  const double tolerance = o.number("--tolerance", 1e-10);
  const std::string preconditioner = o.text("--precondition", "jacobi");
  // Read the input first, so that a bad file starts no process.
  const cg::csr_matrix matrix = load(file, edge);
  const std::size_t n = matrix.rows();
  const std::vector<double> diagonal = cg::diagonal(matrix);
  std::vector<double> wanted(n);
  for (std::size_t i = 0; i < n; ++i)
    wanted[i] = 1 + static_cast<double>(i % 10) / 10;
  std::vector<double> b(n);
  cg::multiply(matrix, wanted, b);

  fc::job_options job_options;
  job_options.targets = o.text("--targets", job_options.targets);
  const fc::job job{argc, argv, job_options};
  cg::distributed_matrix remote{matrix, job.targets()};
  const cg::solver_options how{tolerance, o.number<std::uint64_t>("--max-iterations", 10 * n),
                               preconditioner == "none" ? cg::preconditioner::none
                                                        : cg::preconditioner::jacobi};
  const auto solve = [&](const char* what, const cg::product& apply) {
    progress_line line{.what = what};
    const auto start = steady_clock::now();
    auto solution =
        cg::conjugate_gradient(apply, b, diagonal, how, [&](auto i, double r) { line.show(i, r); });
    const std::chrono::duration<double> elapsed = steady_clock::now() - start;
    return std::pair{std::move(solution), elapsed.count()};
  };
  const auto [x, seconds] = solve("offloaded", [&](auto p, auto q) { remote.multiply(p, q); });
  const auto [y, host_seconds] = solve("host", [&](auto p, auto q) { cg::multiply(matrix, p, q); });

  const std::string problem = cg::printable(file.empty() ? join("poisson ", edge) : file);
  // An unsuitable matrix is bad input: one line, no report.
  const std::string where = join(" in iteration ", x.iterations);
  if (x.how == cg::outcome::not_positive_definite)
    return complain(bad_input, problem + ": the matrix is not positive definite, found" + where);
  if (x.how == cg::outcome::not_finite)
    return complain(bad_input, problem + ": numbers left the range of a double" + where +
                                   "; scale the matrix");

  const bool has_converged = x.how == cg::outcome::converged;
  const char* const outcome = has_converged ? "converged" : "too many iterations";
  const double residual = cg::true_residual(matrix, x.x, b);
  const double difference = cg::relative_difference(x.x, y.x);
  // Targets of the same build give the same bits. Another compiler or processor rounds differently,
  // and an ill-conditioned matrix magnifies the difference, within the tolerance's limits.
  const double limit = std::max(1e-10, 1000 * tolerance);
  const std::uint64_t offloads = remote.offloads();
  const double overhead = remote.overhead().count();
  const double rate = static_cast<double>(offloads) / seconds;
  if (o.has("--json")) {
    std::string targets;
    for (const std::string& one : remote.descriptions())
      targets += (targets.empty() ? "" : ",") + json_text(one);
    const auto json = [](const char* name, double value) {
      // JSON has no infinities and NaN.
      return join(",\"", name, "\":", std::isfinite(value) ? cg::number_text(value) : "null");
    };
    std::puts(join("{\"problem\":", json_text(problem), ",\"rows\":", n,
                   ",\"nonzeros\":", matrix.nonzeros(), ",\"targets\":[", targets,
                   "],\"preconditioner\":\"", preconditioner, '"', json("tolerance", tolerance),
                   ",\"outcome\":\"", outcome, "\",\"iterations\":", x.iterations,
                   json("residual", residual), json("seconds", seconds),
                   json("host_seconds", host_seconds), ",\"offloads\":", offloads,
                   json("offloads_per_second", rate), json("offload_overhead_seconds", overhead),
                   json("offload_overhead_share", overhead / seconds),
                   json("difference", difference), json("difference_limit", limit), '}')
                  .c_str());
  } else {
    std::printf("problem     %s: %zu rows, %zu nonzeros\n", problem.c_str(), n, matrix.nonzeros());
    for (const std::string& one : remote.descriptions())
      std::printf("target      %s\n", one.c_str());
    std::printf("solver      conjugate gradients, preconditioner %s, tolerance %g\n"
                "iterations  %ju, %s\n"
                "residual    %.3e = |b - Ax| / |b|, computed afresh on the host\n"
                "time        %.4f s; without offload %.4f s\n"
                "offloads    %ju, one per target and iteration; %.0f per second\n"
                "overhead    %.1f %% of the time: what products took on the host less the slowest "
                "kernel of each\n"
                "agreement   %.3e = |x - y| / |y| with y solved without offload; limit %.0e\n",
                preconditioner.c_str(), tolerance, std::uintmax_t{x.iterations}, outcome, residual,
                seconds, host_seconds, std::uintmax_t{offloads}, rate, 100 * overhead / seconds,
                difference, limit);
  }
  if (!has_converged)
    return complain(not_converged, join("not converged after ", x.iterations,
                                        " iterations; raise --max-iterations or --tolerance"));
  if (!(residual <= 10 * tolerance))
    return complain(not_converged,
                    "rounding errors stop the residual short of the tolerance; raise --tolerance");
  if (offloads != x.iterations * remote.descriptions().size())
    return complain(failed, "offloads were not one per target and iteration");
  if (!(difference <= limit))
    return complain(failed, "the results with and without offload differ by more than the limit");
  return solved;
}

} // namespace

int main(int argc, char** argv) {
  fc::serve_if_target();
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    return complain(bad_input, "not enough memory for this matrix");
  } catch (const std::exception& e) {
    const bool is_input = dynamic_cast<const cg::input_error*>(&e) != nullptr ||
                          dynamic_cast<const fc::setting_error*>(&e) != nullptr;
    return complain(is_input ? bad_input : failed, e.what());
  }
}
