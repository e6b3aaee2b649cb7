// SPDX-License-Identifier: Apache-2.0

// Conjugate gradients on the targets of a job.
// All code that uses farcall is here, in resident.cpp and in distributed.cpp.
#include "distributed.hpp"
#include "resident.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

namespace fc = farcall;

namespace {

enum exit_code { solved = 0, failed = 1, bad_input = 2, not_converged = 3 };

using steady_clock = std::chrono::steady_clock;
using cg::join;

constexpr const char* usage_text =
    R"(usage: example-08-conjugate-gradient [--matrix FILE | --poisson N] [options]

Solves A x = b by preconditioned conjugate gradients. The rows of A and of the vectors are spread
over all targets, which send each other what they share, while the host waits. If a target is a GPU,
the targets compute the matrix-vector products only. The same solver then runs on the host, in one
thread and in as many threads of OpenMP as there are targets, and the solutions must agree. b is A x
for a known x.

  --matrix FILE        symmetric positive definite matrix, Matrix Market coordinate format
  --poisson N          7-point Poisson problem on N x N x N points (default: N = 32)
  --tolerance R        stop at |b - Ax| <= R |b| (default: 1e-10)
  --max-iterations N   give up after N iterations (default: ten per row)
  --precondition P     jacobi (default) or none
  --repeat N           take the best time of N runs of each (default: 1)
  --fail-in N          kill the last target in iteration N; another one goes on from a checkpoint
  --checkpoint N       iterations between two checkpoints (default: 100)
  --targets URLS       targets to start, e.g. shm:2; the same as --farcall-targets=URLS
  --json               print one JSON object
  --help               print this

Exit code: 0 solved, 1 a target failed or the solutions differ, 2 bad usage or input,
3 not converged.
)";

[[noreturn]] void refuse(const auto&... why) { throw cg::input_error(join(why...)); }

constexpr std::string_view with_value[] = {"--matrix",         "--poisson",      "--tolerance",
                                           "--max-iterations", "--precondition", "--targets",
                                           "--repeat",         "--fail-in",      "--checkpoint"};

/// The command line, without the job's options.
struct options {
  std::map<std::string_view, std::string_view> given;

  options(int argc, const char* const* argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string_view word = argv[i];
      const auto sign = word.starts_with("--") ? word.find('=') : std::string_view::npos;
      const std::string_view name = word.substr(0, sign);
      const bool has_value = sign != std::string_view::npos;
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
    // NOLINTNEXTLINE(readability-simplify-boolean-expr): a number that is none is refused, too
    if (const double r = number("--tolerance", 1e-10); !(r >= 1e-16 && r < 1))
      refuse("--tolerance must lie between 1e-16 and 1, for example 1e-10");
    (void)number<std::uint64_t>("--max-iterations", 0);
    (void)number<std::uint64_t>("--fail-in", 0);
    if (number<std::uint64_t>("--checkpoint", 1) == 0) refuse("--checkpoint must be at least 1");
    if (const auto n = number<std::uint64_t>("--repeat", 1); n < 1 || n > 100)
      refuse("--repeat must lie between 1 and 100, not ", n);
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

/// A way to solve the system, with its best time.
struct attempt {
  const char* name; ///< in JSON
  std::string what;
  std::function<std::pair<cg::solution, double>()> run;
  cg::solution found{};
  double seconds = std::numeric_limits<double>::infinity();
};

/// Everything that is printed.
struct results {
  std::string problem;
  std::size_t rows;
  std::size_t nonzeros;
  std::string preconditioner;
  double tolerance;
  std::vector<std::string> targets;
  std::vector<attempt> attempts{}; ///< on targets, on one thread, and perhaps on several threads
  double residual = 0;
  double difference = 0;
  double limit = 0;
  std::uint64_t offloads = 0; ///< products on targets; 0 if the vectors are there
  double overhead = 0;        ///< of the products, in seconds
};

/// Returns the time on targets as a multiple of another one.
double ratio_to(const results& r, std::size_t other) {
  return r.attempts[0].seconds / r.attempts[other].seconds;
}

void print_as_json(const results& r) {
  const auto json = [](const std::string& name, double value) {
    // JSON has no infinities and NaN.
    return join(",\"", name, "\":", std::isfinite(value) ? cg::number_text(value) : "null");
  };
  std::string targets;
  for (const std::string& one : r.targets)
    targets += (targets.empty() ? "" : ",") + json_text(one);
  const cg::solution& x = r.attempts[0].found;
  std::string text =
      join("{\"problem\":", json_text(r.problem), ",\"rows\":", r.rows,
           ",\"nonzeros\":", r.nonzeros, ",\"targets\":[", targets, "],\"preconditioner\":\"",
           r.preconditioner, '"', json("tolerance", r.tolerance), ",\"outcome\":\"",
           x.how == cg::outcome::converged ? "converged" : "too many iterations",
           "\",\"iterations\":", x.iterations, json("residual", r.residual));
  for (const attempt& one : r.attempts)
    text += json(one.name, one.seconds);
  if (r.offloads != 0) {
    text += join(",\"offloads\":", r.offloads,
                 json("offload_overhead_share", r.overhead / r.attempts[0].seconds));
  }
  std::puts(
      join(text, json("difference", r.difference), json("difference_limit", r.limit), '}').c_str());
}

void print_as_text(const results& r) {
  const cg::solution& x = r.attempts[0].found;
  std::printf("problem     %s: %zu rows, %zu nonzeros\n", r.problem.c_str(), r.rows, r.nonzeros);
  for (const std::string& one : r.targets)
    std::printf("target      %s\n", one.c_str());
  std::printf("solver      %s preconditioner, %ju iterations%s, residual %.1e\n",
              r.preconditioner.c_str(), std::uintmax_t{x.iterations},
              x.how == cg::outcome::converged ? "" : " (not converged)", r.residual);
  for (const attempt& one : r.attempts)
    std::printf("%-11s %.4f s\n", one.what.c_str(), one.seconds);
  if (r.offloads != 0) {
    std::printf("offloads    %ju, %.0f %% of the time is not their arithmetic\n",
                std::uintmax_t{r.offloads}, 100 * r.overhead / r.attempts[0].seconds);
  }
  std::printf("ratios      targets to one thread %.2f", ratio_to(r, 1));
  if (r.attempts.size() > 2)
    std::printf(", to %s %.2f", r.attempts[2].what.c_str(), ratio_to(r, 2));
  std::printf("\nagreement   %.1e, at most %.0e is allowed\n", r.difference, r.limit);
  const std::string note = cg::missing_gain(r.targets.size(), r.attempts[0].seconds,
                                            r.attempts[1].seconds, r.attempts[1].found.iterations);
  if (!note.empty()) std::printf("note        %s\n", note.c_str());
}

int run(int argc, char** argv) {
  const options o{argc, argv};
  if (o.has("--help") || o.has("-h")) return std::fputs(usage_text, stdout), solved;
  const std::string file = o.text("--matrix", "");
  const auto edge = o.number<std::uint64_t>("--poisson", 32);
  const double tolerance = o.number("--tolerance", 1e-10);
  const auto fails_in = o.number<std::uint64_t>("--fail-in", 0);
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

  // The environment, because it takes precedence over job_options.
  if (o.has("--targets")) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no threads yet
    ::setenv("FARCALL_TARGETS", o.text("--targets", "").c_str(), 1);
  }
  fc::job job{argc, argv};
  const bool has_devices = std::ranges::any_of(job.targets(), [](const fc::node& target) {
    return target.description().transport.starts_with("cuda");
  });
  if (has_devices && fails_in != 0) refuse("--fail-in needs targets that are processes");
  std::optional<cg::distributed_matrix> products;
  std::optional<cg::resident_solver> resident;
  if (has_devices) {
    products.emplace(matrix, job.targets());
  } else {
    resident.emplace(job, matrix, b);
  }
  results r{.problem = cg::printable(file.empty() ? join("poisson ", edge) : file),
            .rows = n,
            .nonzeros = matrix.nonzeros(),
            .preconditioner = preconditioner,
            .tolerance = tolerance,
            .targets = has_devices ? products->descriptions() : resident->descriptions()};
  const cg::solver_options how{tolerance, o.number<std::uint64_t>("--max-iterations", 10 * n),
                               preconditioner == "none" ? cg::preconditioner::none
                                                        : cg::preconditioner::jacobi,
                               o.number<std::uint64_t>("--checkpoint", 100)};
  const auto solve_here = [&](const char* what, const cg::product& apply) {
    progress_line line{.what = what};
    const auto start = steady_clock::now();
    auto found =
        cg::conjugate_gradient(apply, b, diagonal, how, [&](auto i, double x) { line.show(i, x); });
    const std::chrono::duration<double> elapsed = steady_clock::now() - start;
    return std::pair{std::move(found), elapsed.count()};
  };
  const auto note = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); };
  r.attempts.push_back({"seconds", "targets", [&] {
                          if (has_devices)
                            return solve_here("targets",
                                              [&](auto p, auto q) { products->multiply(p, q); });
                          cg::solution found = resident->solve(how, fails_in, note);
                          return std::pair{std::move(found), resident->seconds()};
                        }});
  r.attempts.push_back({"host_seconds", "one thread", [&] {
                          return solve_here("one thread",
                                            [&](auto p, auto q) { cg::multiply(matrix, p, q); });
                        }});
  const std::size_t threads = r.targets.size();
  if (threads > 1 && cg::has_threads()) {
    r.attempts.push_back({"threads_seconds", join(threads, " threads"), [&] {
                            double seconds = 0;
                            auto found = cg::solve_by_threads(matrix, b, how, threads, seconds);
                            return std::pair{std::move(found), seconds};
                          }});
  }
  for (std::uint64_t turn = 0; turn < o.number<std::uint64_t>("--repeat", 1); ++turn) {
    for (attempt& one : r.attempts) {
      double seconds = 0;
      std::tie(one.found, seconds) = one.run();
      one.seconds = std::min(one.seconds, seconds);
    }
  }
  const cg::solution& x = r.attempts[0].found;
  if (has_devices) {
    r.offloads = products->offloads();
    r.overhead = products->overhead().count();
  }

  // An unsuitable matrix is bad input: one line, no report.
  const std::string where = join(" in iteration ", x.iterations);
  if (x.how == cg::outcome::not_positive_definite)
    return complain(bad_input, r.problem + ": the matrix is not positive definite, found" + where);
  if (x.how == cg::outcome::not_finite)
    return complain(bad_input, r.problem + ": numbers left the range of a double" + where +
                                   "; scale the matrix");
  r.residual = cg::true_residual(matrix, x.x, b);
  for (const attempt& one : r.attempts)
    r.difference = std::max(r.difference, cg::relative_difference(one.found.x, x.x));
  // Sums of other parts, another compiler or another processor round differently, and an
  // ill-conditioned matrix magnifies the difference, within the tolerance's limits.
  r.limit = std::max(1e-10, 1000 * tolerance);
  if (o.has("--json")) {
    print_as_json(r);
  } else {
    print_as_text(r);
  }
  if (x.how != cg::outcome::converged)
    return complain(not_converged, join("not converged after ", x.iterations,
                                        " iterations; raise --max-iterations or --tolerance"));
  if (!(r.residual <= 10 * tolerance))
    return complain(not_converged,
                    "rounding errors stop the residual short of the tolerance; raise --tolerance");
  if (!(r.difference <= r.limit))
    return complain(failed,
                    "the solutions on targets and on the host differ by more than the limit");
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
