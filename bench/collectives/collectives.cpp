// SPDX-License-Identifier: Apache-2.0
#include "cases.hpp"

#include <bench/commands.hpp>
#include <bench/report/model.hpp>
#include <bench/rivals/rivals.hpp>
#include <bench/runner/floor.hpp>
#include <bench/runner/options.hpp>
#include <bench/runner/progress.hpp>
#include <bench/runner/session.hpp>
#include <tools/common/environment.hpp>
#include <tools/common/json.hpp>
#include <tools/common/outcome.hpp>
#include <tools/common/table.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

/// Times of one case, of farcall and of MPI.
struct combined_times {
  std::vector<double> here;
  std::vector<double> mpi;
};

struct collective_results {
  std::vector<combined_times> cases{collective_cases.size()};
  std::string mpi;        ///< the library that mpirun belongs to
  std::string mpi_absent; ///< reason why there are no times of MPI
};

/// Runs the program, and returns the figures that it prints, one a line.
std::vector<double> figures_of(const std::vector<std::string>& words, std::size_t expected) {
  constexpr std::chrono::seconds limit{300};
  const program_result run = run_program(words, limit);
  if (run.timed_out) throw failed_run(fmt::format("no result within {} s", limit.count()));
  if (run.exit_status != 0) {
    throw failed_run(fmt::format("{} ended with exit status {}: {}", words.front(), run.exit_status,
                                 run.standard_error.substr(0, run.standard_error.find('\n'))));
  }
  std::vector<double> figures;
  const std::string& text = run.standard_output;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    double value = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, value);
    // Some MPI libraries print lines of text.
    if (error == std::errc{} && stop == text.data() + end) figures.push_back(value);
    at = end + 1;
  }
  if (figures.size() != expected) {
    throw failed_run(fmt::format("{} printed {} figures instead of {}", words.front(),
                                 figures.size(), expected));
  }
  return figures;
}

/// Measures all cases in several rounds of farcall and MPI, so that both meet the same
/// circumstances.
class collectives_run {
 public:
  collectives_run(std::size_t batches, std::size_t rounds)
      : batches_(batches), rounds_(rounds), bar_("collectives", 2 * rounds) {}

  [[nodiscard]] collective_results measure() {
    collective_results r;
    std::vector<std::string> mpi;
    try {
      mpi = words_of_mpi(r);
    } catch (const failed_run& e) {
      r.mpi_absent = e.what();
    }
    std::error_code error;
    const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
    const std::vector<std::string> here{
        (self.parent_path() / "farcall-bench-collectives").string(), fmt::format("{}", batches_),
        fmt::format("--farcall-targets=shm:{}", collective_nodes - 1)};
    for (std::size_t round = 0; round < rounds_; ++round) {
      bar_.begin_step("farcall");
      add(r, &combined_times::here, here);
      bar_.begin_step("MPI");
      if (!r.mpi_absent.empty()) continue;
      try {
        add(r, &combined_times::mpi, mpi);
      } catch (const failed_run& e) {
        r.mpi_absent = e.what();
      }
    }
    bar_.finish();
    return r;
  }

 private:
  /// Returns the command of MPI's processes. Throws failed_run if there is none.
  [[nodiscard]] std::vector<std::string> words_of_mpi(collective_results& r) const {
    const std::filesystem::path helper = mpi_program();
    if (!std::filesystem::exists(helper))
      throw failed_run("not built in: MPI was not found when this was configured");
    std::vector<std::string> words = words_of_mpirun(collective_nodes, r.mpi);
    words.push_back(helper.string());
    words.emplace_back("collectives");
    words.push_back(fmt::format("{}", batches_));
    return words;
  }

  void add(collective_results& r, std::vector<double> combined_times::* to,
           const std::vector<std::string>& words) const {
    const std::vector<double> all = figures_of(words, batches_ * collective_cases.size());
    for (std::size_t i = 0; i < all.size(); ++i)
      (r.cases[i / batches_].*to).push_back(all[i]);
  }

  std::size_t batches_;
  std::size_t rounds_;
  progress bar_;
};

/// Figures of one case.
struct collective_row {
  const collective_case& of;
  summary here;
  summary mpi;
  [[nodiscard]] double ratio() const { return here.p50 / mpi.p50; }
};

std::vector<collective_row> rows_of(const collective_results& r) {
  std::vector<collective_row> rows;
  for (std::size_t i = 0; i < collective_cases.size(); ++i)
    rows.push_back({collective_cases[i], summarize(r.cases[i].here), summarize(r.cases[i].mpi)});
  return rows;
}

int run_collectives(const bench_options& options) {
  const core_pair cores = options.cores();
  const environment env = read_environment();
  const std::size_t batches = options.quick ? 3 : 20;
  const std::size_t rounds = options.quick ? 1 : 3;
  const collective_results r = collectives_run(batches, rounds).measure();
  const bool has_mpi = r.mpi_absent.empty();
  const std::vector<collective_row> rows = rows_of(r);
  if (options.json) {
    json list = json::array();
    for (const collective_row& row : rows) {
      json document{
          {"name", row.of.key}, {"what", row.of.what}, {"ns", percentiles_json(row.here)}};
      if (has_mpi) {
        document["mpi_ns"] = percentiles_json(row.mpi);
        document["ratio"] = rounded(row.ratio());
      }
      list.push_back(std::move(document));
    }
    json document{{"nodes", collective_nodes}, {"collectives", std::move(list)}};
    document[has_mpi ? "mpi" : "mpi_absent"] = has_mpi ? r.mpi : r.mpi_absent;
    document["env"] = environment_json(env, cores);
    print_json(document);
  } else {
    table out{{{fmt::format("on {} nodes", collective_nodes), table::align::left},
               {"p1"},
               {"p50"},
               {"p99"},
               {"MPI p50"},
               {"to MPI"}}};
    for (const collective_row& row : rows) {
      std::vector<std::string> cells{row.of.what};
      for (std::string& cell : percentile_cells(row.here, format_time))
        cells.push_back(std::move(cell));
      cells.push_back(has_mpi ? format_time(row.mpi.p50) : "-");
      cells.push_back(has_mpi ? format_ratio(row.ratio()) : "-");
      out.add_row(std::move(cells));
    }
    print(environment_text(env, cores) + '\n' + out.text() +
          "MPI: " + (has_mpi ? r.mpi : "absent: " + r.mpi_absent) + '\n');
  }
  options.draw([&] {
    row_chart c{"Values of four nodes, combined", "Baseline: MPI, in the same run.", {"time"}, {}};
    for (const collective_row& row : rows)
      c.rows.push_back({row.of.what, row.here, row.mpi, r.mpi_absent});
    return report{"farcall bench collectives",
                  "Reductions of a job of equals, beside MPI's.",
                  environment_text(env, cores),
                  {std::move(c)},
                  {}};
  });
  return 0;
}

} // namespace

command command_collectives() {
  auto options = std::make_shared<bench_options>();
  return benchmark("collectives", "Reductions of a job of equals, beside MPI's in the same run",
                   shared_options(*options), options, run_collectives);
}

} // namespace farcall::tool
