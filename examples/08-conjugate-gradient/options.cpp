#include "options.hpp"

#include "matrix_market.hpp"

#include <charconv>
#include <string_view>

namespace cg {
namespace {

template <typename Number>
Number number(std::string_view name, std::string_view text) {
  Number value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc{} || end != text.data() + text.size()) {
    throw usage_error(std::string{name} + ": '" + printable(text, 80) + "' is not a number" +
                      (status == std::errc::result_out_of_range ? " that fits" : ""));
  }
  return value;
}

/// False for NaN.
bool within(double value, double low, double high) { return low <= value && value < high; }

} // namespace

const char* const usage_text =
    R"(usage: example-08-conjugate-gradient [--matrix FILE | --poisson N] [options]

Solves A x = b by preconditioned conjugate gradients. The rows of A are spread over all targets,
which compute the matrix-vector products; the rest runs on the host. The same solver then runs
without offload, and the two answers must agree. b is A x for a known x.

  --matrix FILE        symmetric positive definite matrix, Matrix Market coordinate format
  --poisson N          7-point Poisson problem on N x N x N points (default: N = 32)
  --tolerance R        stop at |b - Ax| <= R |b| (default: 1e-10)
  --max-iterations N   give up after N iterations (default: ten per row)
  --precondition P     jacobi (default) or none
  --targets URLS       targets to start, e.g. shm:2; the same as --farcall-targets=URLS
  --json               print one JSON object
  --help               print this

Exit code: 0 solved, 1 a target failed or the answers differ, 2 bad usage or input,
3 not converged.
)";

options parse_options(int argc, const char* const* argv) {
  options result;
  bool poisson = false;
  for (int i = 1; i < argc; ++i) {
    std::string_view name = argv[i];
    if (name.starts_with("--farcall-")) {
      // The job takes these; their value may be an argument of its own.
      if (name != "--farcall-help" && name.find('=') == std::string_view::npos) ++i;
      continue;
    }
    std::optional<std::string_view> attached;
    if (const auto sign = name.find('=');
        name.starts_with("--") && sign != std::string_view::npos) {
      attached = name.substr(sign + 1);
      name = name.substr(0, sign);
    }
    const auto value = [&]() -> std::string_view {
      if (attached) return *attached;
      if (i + 1 == argc) throw usage_error(std::string{name} + " needs a value; see --help");
      return argv[++i];
    };
    const auto flag = [&] {
      if (attached) throw usage_error(std::string{name} + " takes no value; see --help");
      return true;
    };

    if (name == "--matrix") {
      result.matrix = value();
      if (result.matrix.empty()) throw usage_error("--matrix needs the name of a file");
    } else if (name == "--poisson") {
      result.edge = number<std::uint64_t>(name, value());
      poisson = true;
      if (result.edge < 1 || result.edge > max_poisson_edge) {
        throw usage_error("--poisson: N must be 1 to " + std::to_string(max_poisson_edge) +
                          ", not " + std::to_string(result.edge));
      }
    } else if (name == "--tolerance") {
      result.tolerance = number<double>(name, value());
      // A double resolves no residual below this one.
      if (!within(result.tolerance, 1e-16, 1)) {
        throw usage_error("--tolerance must lie between 1e-16 and 1, for example 1e-10");
      }
    } else if (name == "--max-iterations") {
      result.max_iterations = number<std::uint64_t>(name, value());
    } else if (name == "--precondition") {
      const std::string_view how = value();
      if (how != "jacobi" && how != "none") {
        throw usage_error("--precondition must be jacobi or none, not '" + printable(how, 80) +
                          "'");
      }
      result.precondition = how == "none" ? preconditioner::none : preconditioner::jacobi;
    } else if (name == "--targets") {
      result.targets = value();
    } else if (name == "--json") {
      result.json = flag();
    } else if (name == "--help" || name == "-h") {
      result.help = flag();
    } else {
      throw usage_error("unknown argument '" + printable(name, 80) + "'; see --help");
    }
  }
  if (poisson && !result.matrix.empty()) {
    throw usage_error("--matrix and --poisson exclude each other; give one of them");
  }
  return result;
}

} // namespace cg
