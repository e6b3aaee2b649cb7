// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "perf_events.hpp"
#include "recorded_samples.hpp"
#include "sampler.hpp"

#include <farcall/farcall.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

/// Functions of the process "farcall-prof sampler", which `farcall prof` calls. A server starts
/// this process on its machine, in order to sample the server's targets.
namespace farcall::tool::server_sampler {

/// Numbers of recorded items, of each kind, that the caller has already received.
struct recorded_counts {
  std::uint64_t runs = 0;
  std::uint64_t threads = 0;
  std::uint64_t places = 0;
  std::uint64_t stacks = 0;
  std::uint64_t samples = 0;
  std::uint64_t files = 0;
};

/// A file with code on the server's machine.
struct code_file {
  std::string path;
  std::string build_id; ///< build id in hexadecimal; empty if the file has none
};

/// Recorded items that the caller has not received yet.
struct recorded_part {
  recorded_samples samples;
  std::vector<code_file> files;
  bool is_last = false;
};

/// Starts sampling a process and its descendants. This process's parent, the server, must have
/// started the sampled process. The options of the first call apply to all calls. Returns the
/// reason why the process is sampled with ptrace, or an empty text if perf_event_open is used.
/// Throws failed_run if there is no such process, if the options are invalid, or if the system
/// forbids the sampling.
[[nodiscard]] std::string sample(std::int64_t process, const sampler_options& options);

/// Returns the items that are new since `has`, without waiting for further samples. If `is_over`,
/// the call first ends all sampling. The result then has all threads and programs again, because
/// their names may have changed since they were sent.
[[nodiscard]] recorded_part take(const recorded_counts& has, bool is_over);

/// Looks up names for offsets in a file of the server's machine, with a result as from symbolize().
[[nodiscard]] std::vector<symbol> symbols(std::uint32_t file,
                                          std::span<const std::uint64_t> offsets);

/// Returns the current time of the clock by which the samples have their times.
[[nodiscard]] std::uint64_t time();

} // namespace farcall::tool::server_sampler

// The members are packed one by one, because a message may hold any byte in the place of a bool.
// Reading a bool by itself checks that it is valid.
template <>
struct farcall::packer<farcall::tool::sampler_options> {
  using options = tool::sampler_options;
  static void pack(writer& w, const options& o) { w(o.samples_per_second, o.stacks, o.by_ptrace); }
  static options unpack(reader& r) {
    options made;
    made.samples_per_second = r.read<unsigned>();
    made.stacks = r.read<tool::call_graph>();
    made.by_ptrace = r.read<bool>();
    return made;
  }
};

template <>
struct farcall::packer<farcall::tool::process_part> {
  using part = tool::process_part;
  static void pack(writer& w, const part& p) { w(p.is_target, p.is_server, p.rank); }
  static part unpack(reader& r) {
    part made;
    made.is_target = r.read<bool>();
    made.is_server = r.read<bool>();
    made.rank = r.read<node_id>();
    return made;
  }
};

template <>
struct farcall::packer<farcall::tool::recorded_samples::program_run> {
  using run = tool::recorded_samples::program_run;
  static void pack(writer& w, const run& r) {
    w(std::int64_t{r.process}, r.parent, r.part, r.program, r.node);
  }
  static run unpack(reader& r) {
    run made;
    made.process = static_cast<pid_t>(r.read<std::int64_t>());
    made.parent = r.read<std::optional<std::size_t>>();
    made.part = r.read<tool::process_part>();
    made.program = r.read<std::string>();
    made.node = r.read<node_id>();
    return made;
  }
};

template <>
struct farcall::packer<farcall::tool::recorded_samples::thread> {
  using thread = tool::recorded_samples::thread;
  static void pack(writer& w, const thread& t) { w(t.run, std::int64_t{t.number}, t.name); }
  static thread unpack(reader& r) {
    thread made;
    made.run = r.read<std::size_t>();
    made.number = static_cast<pid_t>(r.read<std::int64_t>());
    made.name = r.read<std::string>();
    return made;
  }
};

template <>
struct farcall::packer<farcall::tool::recorded_samples> {
  using samples = tool::recorded_samples;
  static void pack(writer& w, const samples& s) {
    w(s.runs, s.threads, s.places, s.stacks, s.samples, s.lost, s.was_throttled);
  }
  static samples unpack(reader& r) {
    samples made;
    made.runs = r.read<std::vector<samples::program_run>>();
    made.threads = r.read<std::vector<samples::thread>>();
    made.places = r.read<std::vector<samples::place>>();
    made.stacks = r.read<std::vector<samples::stack>>();
    made.samples = r.read<std::vector<samples::sample>>();
    made.lost = r.read<std::uint64_t>();
    made.was_throttled = r.read<bool>();
    return made;
  }
};

template <>
struct farcall::packer<farcall::tool::server_sampler::code_file> {
  using file = tool::server_sampler::code_file;
  static void pack(writer& w, const file& f) { w(f.path, f.build_id); }
  static file unpack(reader& r) {
    auto path = r.read<std::string>();
    return {std::move(path), r.read<std::string>()};
  }
};

template <>
struct farcall::packer<farcall::tool::server_sampler::recorded_part> {
  using part = tool::server_sampler::recorded_part;
  static void pack(writer& w, const part& p) { w(p.samples, p.files, p.is_last); }
  static part unpack(reader& r) {
    part made;
    made.samples = r.read<tool::recorded_samples>();
    made.files = r.read<std::vector<tool::server_sampler::code_file>>();
    made.is_last = r.read<bool>();
    return made;
  }
};

template <>
struct farcall::packer<farcall::tool::source_frame> {
  using frame = tool::source_frame;
  static void pack(writer& w, const frame& f) { w(f.function, f.file, f.line); }
  static frame unpack(reader& r) {
    frame made;
    made.function = r.read<std::string>();
    made.file = r.read<std::string>();
    made.line = r.read<std::uint32_t>();
    return made;
  }
};

template <>
struct farcall::packer<farcall::tool::symbol> {
  static void pack(writer& w, const tool::symbol& s) { w(s.address, s.frames); }
  static tool::symbol unpack(reader& r) {
    const auto address = r.read<std::uint64_t>();
    return {address, r.read<std::vector<tool::source_frame>>()};
  }
};
