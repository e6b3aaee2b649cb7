// Conjugate gradients with the matrix-vector products on the targets of a job.
// Everything that knows about farcall is here and in distributed.cpp.
#include "distributed.hpp"
#include "matrix_market.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "solver.hpp"

#include <farcall/farcall.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <new>
#include <string>
#include <vector>

namespace fc = farcall;

namespace {

enum exit_code { solved = 0, failed = 1, bad_input = 2, not_converged = 3 };

using seconds = std::chrono::duration<double>;

cg::csr_matrix load(const cg::options& options) {
  if (!options.matrix.empty()) return cg::read_matrix_market(options.matrix);
  // The host and the targets hold the matrix once each.
  const double needed = 2 * cg::poisson_bytes(options.edge);
  const double present =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (needed > present) {
    throw cg::usage_error("--poisson " + std::to_string(options.edge) + " needs " +
                          std::to_string(static_cast<long>(needed / 1e9)) +
                          " GB of memory, more than this machine has");
  }
  return cg::poisson(options.edge);
}

int run(int argc, char** argv) {
  const cg::options options = cg::parse_options(argc, argv);
  if (options.help) {
    std::fputs(cg::usage_text, stdout);
    return solved;
  }
  // Input first: a bad file then starts no process.
  const cg::csr_matrix matrix = load(options);
  const std::size_t n = matrix.rows();
  const std::vector<double> diagonal = cg::diagonal(matrix);
  std::vector<double> wanted(n);
  for (std::size_t i = 0; i < n; ++i)
    wanted[i] = 1 + static_cast<double>(i % 10) / 10;
  std::vector<double> b(n);
  cg::multiply(matrix, wanted, b);

  fc::job_options job_options;
  if (!options.targets.empty()) job_options.targets = options.targets;
  const fc::job job{argc, argv, job_options};
  cg::distributed_matrix remote{matrix, job.targets()};

  const cg::solver_options how{.tolerance = options.tolerance,
                               .max_iterations = options.max_iterations.value_or(10 * n),
                               .precondition = options.precondition};
  const auto solve = [&](const char* what, const cg::product& apply, double& elapsed) {
    cg::progress_line line{what};
    const auto start = std::chrono::steady_clock::now();
    auto answer = cg::conjugate_gradient(apply, b, diagonal, how, std::ref(line));
    elapsed = seconds{std::chrono::steady_clock::now() - start}.count();
    return answer;
  };

  cg::report r;
  const auto x = solve("offloaded", [&](auto p, auto q) { remote.multiply(p, q); }, r.seconds);
  const auto y = solve("host", [&](auto p, auto q) { cg::multiply(matrix, p, q); }, r.host_seconds);

  r.problem = options.matrix.empty() ? "poisson " + std::to_string(options.edge) : options.matrix;
  r.rows = n;
  r.nonzeros = matrix.nonzeros();
  r.preconditioner = how.precondition == cg::preconditioner::none ? "none" : "jacobi";
  r.tolerance = how.tolerance;
  for (std::size_t i = 0; i < remote.targets(); ++i) {
    r.targets.push_back(std::to_string(remote.target(i).id()) + " " + remote.target(i).name() +
                        ": " + std::to_string(remote.rows(i).size()) + " rows, " +
                        std::to_string(remote.nonzeros(i)) + " nonzeros");
  }
  r.outcome = x.how;
  r.iterations = x.iterations;
  r.residual = cg::true_residual(matrix, x.x, b);
  r.times = remote.times();
  r.difference = cg::relative_difference(x.x, y.x);
  // Targets of the same build give the same bits. Another compiler or processor rounds otherwise,
  // and an ill-conditioned matrix magnifies that within what the tolerance leaves open.
  r.limit = std::max(1e-10, 1000 * how.tolerance);

  const auto say = [](const std::string& what) {
    std::fprintf(stderr, "conjugate-gradient: %s\n", what.c_str());
  };
  // A matrix that turns out unfit is a bad input: one line, no report.
  if (x.how == cg::outcome::not_positive_definite) {
    say(cg::printable(r.problem) + ": the matrix is not positive definite, found in iteration " +
        std::to_string(x.iterations));
    return bad_input;
  }
  if (x.how == cg::outcome::not_finite) {
    say(cg::printable(r.problem) + ": numbers left the range of a double in iteration " +
        std::to_string(x.iterations) + "; scale the matrix");
    return bad_input;
  }
  if (options.json) {
    cg::print_json(r);
  } else {
    cg::print_text(r);
  }
  if (x.how == cg::outcome::too_many_iterations) {
    say("not converged after " + std::to_string(x.iterations) +
        " iterations; raise --max-iterations or --tolerance");
    return not_converged;
  }
  if (!(r.residual <= 10 * how.tolerance)) {
    say("rounding errors stop the residual short of the tolerance; raise --tolerance");
    return not_converged;
  }
  if (r.times.offloads != x.iterations * remote.targets()) {
    say("offloads were not one per target and iteration");
    return failed;
  }
  if (!(r.difference <= r.limit)) {
    say("the answers with and without offload differ by more than the limit");
    return failed;
  }
  return solved;
}

} // namespace

int main(int argc, char** argv) {
  fc::serve_if_target();
  const auto complain = [](const char* what, exit_code code) {
    std::fprintf(stderr, "conjugate-gradient: %s\n", what);
    return code;
  };
  try {
    return run(argc, argv);
  } catch (const cg::usage_error& e) {
    return complain(e.what(), bad_input);
  } catch (const cg::input_error& e) {
    return complain(e.what(), bad_input);
  } catch (const fc::setting_error& e) {
    return complain(e.what(), bad_input);
  } catch (const std::bad_alloc&) {
    return complain("not enough memory for this matrix", bad_input);
  } catch (const std::exception& e) {
    return complain(e.what(), failed);
  }
}
