// SPDX-License-Identifier: Apache-2.0
#include "helper_program.hpp"
#include "rivals.hpp"

#include <tools/common/outcome.hpp>

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <unistd.h>

namespace farcall::tool {

std::filesystem::path mpi_program() { return program_beside("farcall-rival-mpi"); }

namespace {

bool is_open_mpi(const std::string& version) {
  return version.find("Open MPI") != std::string::npos;
}

} // namespace

std::vector<std::string> words_of_mpirun(std::size_t processes, std::string& version) {
  std::string text;
  try {
    text = run_program({"mpirun", "--version"}, std::chrono::seconds{20}).standard_output;
  } catch (const failed_run& e) {
    throw failed_run(fmt::format("not installed: {}", e.what()));
  }
  version = first_line(text);
  std::vector<std::string> words{"mpirun", "-n", fmt::format("{}", processes)};
  if (is_open_mpi(text)) {
    // The ranks bind themselves, and all run here even if Open MPI counts one slot. Running as root
    // is allowed, since a refusal would only keep the figure from users of containers.
    words.insert(words.end(), {"--bind-to", "none", "--oversubscribe", "--mca",
                               "btl_base_warn_component_unused", "0"});
    if (geteuid() == 0) words.emplace_back("--allow-run-as-root");
  }
  return words;
}

namespace {

measured ping_pong(const rival_settings& settings, bool over_tcp) {
  const std::filesystem::path helper = mpi_program();
  if (std::string why = why_missing(helper, "MPI, for example libopenmpi-dev,"); !why.empty())
    return {{}, std::move(why)};
  std::string version;
  std::vector<std::string> words;
  try {
    words = words_of_mpirun(2, version);
  } catch (const failed_run& e) {
    return {{}, e.what()};
  }
  if (over_tcp && !is_open_mpi(version))
    return {{}, "only Open MPI can be told to use TCP; this is " + version};
  if (over_tcp) {
    // Without these options Open MPI sends no messages over loopback.
    words.insert(words.end(), {"--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca",
                               "btl_tcp_if_include", "lo"});
  }
  words.push_back(helper.string());
  for (std::string& word : words_of(settings, settings.calls))
    words.push_back(std::move(word));
  measured result = run_helper(words, settings);
  if (result.failure.empty()) result.remark = version;
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
