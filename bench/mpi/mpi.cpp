// SPDX-License-Identifier: Apache-2.0
#include <bench/commands.hpp>
#include <bench/rivals/helper_program.hpp>
#include <bench/rivals/rivals.hpp>
#include <bench/runner/comparison.hpp>
#include <bench/runner/options.hpp>
#include <bench/runner/progress.hpp>
#include <tools/common/environment.hpp>
#include <tools/common/forked_process.hpp>
#include <tools/common/outcome.hpp>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

constexpr std::chrono::minutes time_for_network{5};
/// Calls of a turn with --quick, because on a busy machine each of them may wait for a processor.
constexpr std::size_t quick_calls = 20;

/// Network of MPI in one measurement.
struct mpi_network {
  const char* key;
  const char* what;
  double goal;
  bool is_tcp;
};
constexpr std::array networks_of_mpi{
    mpi_network{"call_memory", "sync, empty, over MPI, shared memory", mpi_memory_goal, false},
    mpi_network{"call_tcp", "sync, empty, over MPI, TCP on loopback", mpi_tcp_goal, true}};

/// Reads the lines "farcall-bench-mpi: call NS PING_PONG_NS" of farcall-bench-mpi.
turn_samples parse_turns(const std::string& output) {
  turn_samples samples;
  std::istringstream lines{output};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words{line};
    std::string prefix;
    std::string kind;
    double ours = 0;
    double bare = 0;
    if (words >> prefix >> kind >> ours >> bare && prefix == "farcall-bench-mpi:" &&
        kind == "call") {
      samples.ours.push_back(ours);
      samples.bare.push_back(bare);
    }
  }
  return samples;
}

/// Measures one network, and returns the first line of MPI's version.
std::string measure_network(comparison& figure, const mpi_network& over, core_pair cores,
                            std::size_t turns, bool quick) {
  const std::filesystem::path helper = program_beside("farcall-bench-mpi");
  figure.absent = why_missing(helper, "MPI, for example libopenmpi-dev,");
  if (!figure.absent.empty()) return {};
  std::string version;
  std::vector<std::string> words;
  try {
    words = words_of_mpirun(2, version);
  } catch (const failed_run& e) {
    figure.absent = e.what();
    return {};
  }
  if (over.is_tcp) {
    if (version.find("Open MPI") == std::string::npos) {
      figure.absent = "only Open MPI can be told to use TCP; this is " + version;
      return version;
    }
    words.insert(words.end(), {"--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca",
                               "btl_tcp_if_include", "lo"});
  }
  const std::size_t calls = quick ? quick_calls : over.is_tcp ? 200 : 1000;
  words.push_back(helper.string());
  for (const std::size_t number :
       {calls, turns, static_cast<std::size_t>(cores.host), static_cast<std::size_t>(cores.target)})
    words.push_back(fmt::format("{}", number));
  const program_result done = run_program(words, time_for_network);
  turn_samples samples = parse_turns(done.standard_output);
  if (done.timed_out || done.exit_status != 0 || samples.ours.size() != turns) {
    figure.absent = fmt::format("{} turns of {}; exit status {}: {}", samples.ours.size(), turns,
                                done.exit_status, first_line(done.standard_error));
    return version;
  }
  figure.take(std::move(samples));
  return version;
}

int run_mpi(const bench_options& options) {
  const core_pair cores = options.cores();
  const environment env = read_environment();
  ::setenv("FARCALL_TRANSPORT_MODULES", "mpi", 1);
  progress bar{"mpi", networks_of_mpi.size()};
  std::vector<comparison> figures;
  std::string version;
  for (const mpi_network& over : networks_of_mpi) {
    bar.begin_step(over.what);
    figures.push_back(
        {over.key, over.what, "MPI_Send and MPI_Recv, 8 bytes there and back", over.goal});
    version = measure_network(figures.back(), over, cores, options.batches_or(100, min_batches),
                              options.quick);
  }
  bar.finish();
  if (options.json) {
    print_json({{"figures", comparisons_json(figures)},
                {"mpi", version},
                {"env", environment_json(env, cores)}});
  } else {
    print(environment_text(env, cores) + version + "\n\n" + comparisons_table("over MPI", figures));
  }
  options.draw([&] {
    return report{"farcall bench mpi",
                  "Empty calls over MPI, beside MPI's own ping-pong, by turns.",
                  environment_text(env, cores) + version + '\n',
                  {comparisons_chart("Over MPI", figures)},
                  {}};
  });
  return 0;
}

} // namespace

command command_mpi() {
  auto options = std::make_shared<bench_options>();
  return benchmark("mpi",
                   "Calls over MPI, beside MPI's own ping-pong, by turns between the same two "
                   "processes",
                   shared_options(*options), options, run_mpi);
}

} // namespace farcall::tool
