// SPDX-License-Identifier: Apache-2.0
#include "rivals.hpp"

#include <tools/common/outcome.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include <unistd.h>

namespace farcall::tool {

std::filesystem::path mpi_program() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return self.parent_path() / "farcall-rival-mpi";
}

namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Returns the line that explains a failure best: skips lines that only frame others.
std::string first_meaningful_line(const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (line.find_first_not_of("-= \t") != std::string::npos) return line;
    at = end + 1;
  }
  return {};
}

measured parse(const std::string& output, std::size_t expected) {
  measured result;
  // The first line is the library's name; some versions print further lines of text, which are
  // skipped.
  for (std::size_t at = output.find('\n'); at != std::string::npos && at + 1 < output.size();) {
    const char* begin = output.data() + at + 1;
    const std::size_t next = output.find('\n', at + 1);
    const char* end = output.data() + std::min(next, output.size());
    double value = 0;
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error == std::errc{} && stop == end) result.samples.push_back(value);
    at = next;
  }
  if (result.samples.size() != expected) {
    result.failure = fmt::format("its program printed {} figures instead of {}",
                                 result.samples.size(), expected);
    result.samples.clear();
  }
  return result;
}

measured ping_pong(const rival_settings& settings, bool over_tcp) {
  const std::filesystem::path helper = mpi_program();
  if (::access(helper.c_str(), X_OK) != 0) {
    return {{},
            fmt::format(
                "not built in: no {} (MPI, for example libopenmpi-dev, was not found when this was "
                "configured)",
                helper.string())};
  }
  program_result version;
  try {
    version = run_program({"mpirun", "--version"}, std::chrono::seconds{20});
  } catch (const failed_run& e) {
    return {{}, fmt::format("not installed: {}", e.what())};
  }
  std::vector<std::string> words{"mpirun", "-n", "2"};
  const bool is_open_mpi = version.standard_output.find("Open MPI") != std::string::npos;
  if (over_tcp && !is_open_mpi) {
    return {{},
            "only Open MPI can be told to use TCP; this is " + first_line(version.standard_output)};
  }
  if (is_open_mpi) {
    // The ranks bind themselves, and both run here even if Open MPI counts one slot. Running as
    // root is allowed, since a refusal would only keep the figure from users of containers.
    words.insert(words.end(), {"--bind-to", "none", "--oversubscribe", "--mca",
                               "btl_base_warn_component_unused", "0"});
    if (geteuid() == 0) words.emplace_back("--allow-run-as-root");
  }
  if (over_tcp) {
    // Without these options Open MPI sends no messages over loopback.
    words.insert(words.end(), {"--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca",
                               "btl_tcp_if_include", "lo"});
  }
  words.push_back(helper.string());
  for (const auto number : {static_cast<std::size_t>(settings.cores.host),
                            static_cast<std::size_t>(settings.cores.target), settings.batches,
                            settings.warm_up(), settings.calls}) {
    words.push_back(fmt::format("{}", number));
  }
  const program_result run = run_program(words, settings.limit());
  if (run.timed_out) return {{}, fmt::format("no result within {} s", settings.limit().count())};
  if (run.exit_status != 0) {
    return {{},
            fmt::format("mpirun ended with exit status {}: {}", run.exit_status,
                        first_meaningful_line(run.standard_error))};
  }
  measured result = parse(run.standard_output, settings.batches);
  result.remark = first_line(version.standard_output);
  return result;
}

} // namespace

rival mpi_rival() {
  return {"mpi", "MPI ping-pong (MPI_Send, MPI_Recv)",
          [](const rival_settings& settings) { return ping_pong(settings, false); }};
}

rival mpi_tcp_rival() {
  return {"mpi_tcp", "MPI ping-pong over TCP (Open MPI, btl tcp, loopback)",
          [](const rival_settings& settings) { return ping_pong(settings, true); }};
}

} // namespace farcall::tool
