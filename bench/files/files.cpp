// SPDX-License-Identifier: Apache-2.0
#include "figures.hpp"
#include "file_peer.hpp"
#include "file_work.hpp"
#include "fuse_example.hpp"

#include <bench/commands.hpp>
#include <bench/runner/link.hpp>
#include <bench/runner/loopback_peer.hpp>
#include <bench/runner/session.hpp>
#include <tools/common/forked_process.hpp>
#include <tools/common/io_library.hpp>
#include <tools/common/json.hpp>
#include <tools/common/mount_program.hpp>
#include <tools/common/table.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/unique_fd.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

// Measures reads and writes of the host's files by the host itself, and by two targets: one has the
// preloaded library, and one has a mount.

namespace farcall::tool {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t mib = 1024 * kib;
constexpr std::uint64_t gib = 1024 * mib;

struct files_options : bench_options {
  std::string folder = "/dev/shm";
  std::string by = "both";  ///< --host-files-by
  std::string part = "all"; ///< --part
  std::string example;      ///< --fuse-example: path of a program; empty for none
  std::size_t bytes = 0;    ///< of all files together; 0 for the default
  bool descriptors = false;
};

/// A temporary folder that is removed when this process ends, in any way. Forks, so create it
/// before any thread.
class run_folder {
 public:
  explicit run_folder(const std::string& parent) : path_(parent + "/farcall-bench-XXXXXX") {
    int ends[2];
    if (::mkdtemp(path_.data()) == nullptr || ::pipe2(ends, O_CLOEXEC) != 0) {
      throw failed_run(fmt::format("cannot make a folder in {}: {}; name another one by --folder",
                                   parent, reason_text(errno)));
    }
    const unique_fd end(ends[0]);
    held_ = unique_fd(ends[1]);
    remover_.emplace([&] { return remove_when_over(end.get()); }, forked_process::group::own);
  }
  ~run_folder() { remove(); }
  run_folder(const run_folder&) = delete;
  run_folder& operator=(const run_folder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void remove() const {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  int remove_when_over(int end) {
    held_.reset();
    char none = 0;
    (void)!::read(end, &none, 1);
    remove();
    return 0;
  }

  std::string path_;
  unique_fd held_; ///< closed by this process's end
  std::optional<forked_process> remover_;
};

void require_space(const std::string& folder, std::uint64_t bytes) {
  struct statvfs s{};
  if (::statvfs(folder.c_str(), &s) != 0) return; // mkdtemp() reports the error better
  const std::uint64_t free = std::uint64_t{s.f_bavail} * s.f_frsize;
  if (free < bytes) {
    throw failed_run(fmt::format("files of {} are needed in {}, which has space for {}; give a "
                                 "smaller --size, or another --folder",
                                 format_bytes(bytes), folder, format_bytes(free)));
  }
}

std::vector<file_work> works_of(const files_options& options, std::uint64_t bytes) {
  std::vector<file_work> works;
  for (const std::uint64_t record : {1 * mib, 16 * mib}) {
    for (const std::uint64_t threads : {1, 4, 8}) {
      for (const file_access access : {file_access::write, file_access::read}) {
        const std::uint64_t of_file = bytes / threads / record * record;
        if (of_file == 0) continue;
        works.push_back({.access = access,
                         .record = record,
                         .bytes = of_file,
                         .calls = of_file / record,
                         .threads = threads});
      }
    }
  }
  for (const std::uint64_t record : {1 * mib, 16 * mib}) {
    const std::uint64_t of_file = bytes / record * record;
    works.push_back({.access = file_access::read_again,
                     .record = record,
                     .bytes = of_file,
                     .calls = of_file / record});
  }
  const std::uint64_t calls = options.quick ? 200 : 20'000;
  for (const file_access access :
       {file_access::write_in_a_row, file_access::read_in_a_row, file_access::read_anywhere}) {
    works.push_back({.access = access,
                     .record = 4 * kib,
                     .bytes = std::max(64 * mib, std::bit_ceil(calls) * 4 * kib),
                     .calls = calls,
                     .threads = 1});
  }
  return works;
}

/// The targets that measure, if there is such a target.
struct measuring_targets {
  std::optional<node> preload;
  std::optional<node> mount;
};

class files_measurement {
 public:
  /// `example` is the path of a mount of the folder by another program, or empty. `peer` has the
  /// files at the other end of a connection, or is null.
  files_measurement(const files_options& options, measuring_targets targets, std::string folder,
                    std::string example, file_peer* peer, progress& bar)
      : options_(options), targets_(std::move(targets)), folder_(std::move(folder)),
        example_(std::move(example)), peer_(peer), bar_(bar) {}

  files_row measure(file_work work) {
    bar_.begin_step(fmt::format("{} of {} by {}", word_of(work.access), format_bytes(work.record),
                                work.threads));
    // Writes leave only the ends of their records, so that records of another size need new files.
    const std::string name = fmt::format("/{}-{}-{}", work.threads, work.bytes, work.record);
    work.path = folder_ + name;
    if (work.path != made_.path) {
      remove_made();
      make_files(work);
      made_ = work;
    }
    const bool is_again = work.access == file_access::read_again;
    const bool is_small = work.record < min_large_record;
    file_work of_target = work;
    of_target.drops_cache = !is_write(work.access) && !is_again;
    series direct([&] { return do_file_work(work); });
    series limit([&] { return peer_ != nullptr ? peer_->run(work) : do_copied_work(work); });
    series preload([&] { return sync(*targets_.preload, do_file_work, of_target); });
    series mount([&] { return sync(*targets_.mount, do_file_work, of_target); });
    file_work of_example = of_target;
    of_example.path = example_ + name;
    series example([&] { return do_file_work(of_example); });
    std::vector<series*> all{&direct};
    if (!is_small && !is_again) all.push_back(&limit);
    // The preloaded library caches nothing.
    if (targets_.preload && !is_again) all.push_back(&preload);
    if (targets_.mount) all.push_back(&mount);
    if (!example_.empty()) all.push_back(&example);
    // Once untimed, so that the files are in the page cache.
    for (series* const each : all)
      (void)each->measure();
    for (std::size_t i = 0; i < options_.batches_or(9, 3); ++i) {
      for (series* const each : all)
        each->add(static_cast<double>(work.calls * work.threads));
    }
    if (is_write(work.access)) check_files(work);
    return {work,           *direct.figure(), limit.figure(), preload.figure(),
            mount.figure(), example.figure(), std::nullopt};
  }

  void remove_made() {
    for (std::uint64_t t = 0; !made_.path.empty() && t < made_.threads; ++t)
      fs::remove(fmt::format("{}.{}", made_.path, t));
    made_ = {};
  }

 private:
  /// Samples of one way to do the work.
  class series {
   public:
    explicit series(std::function<double()> once) : measure(std::move(once)) {}
    void add(double calls) { samples_.push_back(measure() / calls); }
    [[nodiscard]] std::optional<summary> figure() {
      if (samples_.empty()) return std::nullopt;
      return summarize(std::move(samples_));
    }

    std::function<double()> measure; ///< returns nanoseconds

   private:
    std::vector<double> samples_;
  };

  const files_options& options_;
  measuring_targets targets_;
  std::string folder_;
  std::string example_;
  file_peer* peer_;
  progress& bar_;
  file_work made_;
};

/// Returns the MB/s of a bare connection in blocks of `bytes`.
double plain_mb_s(loopback_peer& peer, std::uint64_t bytes, std::size_t samples) {
  std::vector<std::byte> to(bytes);
  peer.connect();
  peer.reserve(bytes);
  const auto fetch = [&] { peer.fetch(to); };
  const summary ns = summarize(time_batches(samples, 1, 1, fetch));
  peer.disconnect();
  return static_cast<double>(bytes) / ns.p50 * 1e3;
}

void set_variable(const std::string& name, const std::string& value) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing else uses the environment meanwhile
  if (setenv(name.c_str(), value.c_str(), 1) != 0)
    throw failed_run(fmt::format("cannot set {}: {}", name, reason_text(errno)));
}

/// Makes targets of this run load the library and forward files, although they are on this machine.
void prepare_targets(const files_options& options) {
  preload_io_library();
  set_variable("FARCALL_IO_FORWARD", options.descriptors ? "descriptors" : "always");
  // A target mounts if farcall-mount has started it.
  set_variable("FARCALL_HOST_FILES_BY", "auto");
}

/// The way to targets with mounts.
struct mounting {
  std::string program; ///< farcall-mount; empty if nothing is to be mounted
  std::string why_not; ///< reason why no target has a mount, if the user wants one
};

/// Decides if the second target mounts the files. Targets that the user names are as their server
/// makes them.
mounting find_mounting(const files_options& options) {
  if (options.by == "preload" || options.descriptors || !options.targets.empty()) return {};
  constexpr const char* wrap = "FARCALL_WRAP";
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing else uses the environment meanwhile
  if (std::getenv(wrap) != nullptr)
    return {"", fmt::format("{} is set, by which farcall-mount would start the target", wrap)};
  const mount_check found = check_mounts();
  if (!found.why_not.empty()) return {"", found.why_not};
  // The two targets are the nodes 1 and 2.
  if (kind_of(options) == link_kind::shm) set_variable(wrap, fmt::format("2:'{}'", found.program));
  return {found.program, ""};
}

/// Asks the targets how they use files of the host.
measuring_targets find_ways(const job& j, const files_options& options, const std::string& folder,
                            std::string& why_not) {
  measuring_targets found;
  for (const node& target : j.targets())
    (sync(target, is_fuse_mount, folder) ? found.mount : found.preload) = target;
  if (options.by == "mount" && found.mount) found.preload.reset();
  if (options.by == "preload" && found.preload) found.mount.reset();
  if (options.by != "preload" && !options.descriptors && !found.mount && why_not.empty()) {
    why_not = options.targets.empty() ? "the target's warning says why it has no mount"
                                      : "the server's targets have none";
  }
  return found;
}

int run_files(const files_options& options) {
  const bool has_connection = kind_of(options) != link_kind::shm;
  if (options.descriptors && has_connection)
    throw usage_problem("--descriptors: open files can be passed on one machine only; leave out "
                        "--transport and --targets");
  if (options.descriptors && options.by == "mount")
    throw usage_problem("--descriptors is for the preloaded library; leave out "
                        "--host-files-by=mount");
  prepare_targets(options);
  mounting mounts = find_mounting(options);
  std::optional<loopback_peer> peer;
  std::optional<file_peer> with_files;
  if (has_connection) {
    // The two objects fork, so make them before any thread.
    peer.emplace(cores_of(options));
    with_files.emplace();
  }
  const std::uint64_t bytes = options.bytes != 0 ? options.bytes : options.quick ? 64 * mib : gib;
  std::vector<file_work> works = works_of(options, bytes);
  std::erase_if(works, [&](const file_work& work) {
    const char* const part = work.access == file_access::read_again ? "again"
                             : work.record < min_large_record       ? "small"
                                                                    : "large";
    return options.part != "all" && options.part != part;
  });
  require_space(options.folder, std::max(bytes, 2 * 64 * mib));
  const run_folder folder(options.folder);
  std::optional<fuse_example> example;
  if (!options.example.empty()) example.emplace(options.example, folder.path());
  link_session session{options, "files", works.size(), mounts.program};
  job_options job_options =
      mounts.program.empty() ? session.link().targets(1) : session.link().pair_of_targets();
  job_options.host_files = folder.path();
  // farcall-mount would take /proc/self/exe for itself.
  job_options.program = fs::read_symlink("/proc/self/exe").string();
  const job j{job_options};
  const measuring_targets targets = find_ways(j, options, folder.path(), mounts.why_not);
  if (options.by == "mount" && !targets.mount)
    throw failed_run(fmt::format("--host-files-by=mount: {}", mounts.why_not));
  files_figures figures{{}, has_connection, {}};
  if (!mounts.why_not.empty())
    figures.left_out.push_back(fmt::format("mount: not measured: {}", mounts.why_not));
  files_measurement measurement(options, targets, folder.path(), example ? example->path() : "",
                                with_files ? &*with_files : nullptr, session.bar());
  for (const file_work& work : works) {
    if (work.access == file_access::read_again && !targets.mount) continue;
    figures.rows.push_back(measurement.measure(work));
    if (peer && work.record >= min_large_record && work.access != file_access::read_again)
      figures.rows.back().plain_mb_s = plain_mb_s(*peer, work.record, options.batches_or(9, 5));
  }
  measurement.remove_made();
  session.finish();
  if (options.json) {
    print_json({{"files", files_json(figures)},
                {"left_out", figures.left_out},
                {"floor_ns", percentiles_json(session.floor().pooled())},
                {"env", session.circumstances()}});
  } else {
    print(session.heading() + files_tables(figures));
  }
  options.draw([&] {
    report drawn = session.make_report("files", "Files of the host that a target reads and writes.",
                                       files_charts(figures));
    drawn.left_out = figures.left_out;
    return drawn;
  });
  return 0;
}

} // namespace

command command_files() {
  auto options = std::make_shared<files_options>();
  files_options& o = *options;
  std::vector<option> all = link_options(o);
  all.push_back({.name = "--folder",
                 .value = &o.folder,
                 .takes = "FOLDER",
                 .text = "Folder in which the files are made, and removed at the end",
                 .shows_default = true});
  all.push_back({.name = "--size",
                 .value = &o.bytes,
                 .text = "Bytes of all files together (default: 1GiB, quick: 64MiB)",
                 .range = {{std::size_t{16} << 20, std::size_t{1} << 40}},
                 .is_size = true});
  all.push_back({.name = "--host-files-by",
                 .value = &o.by,
                 .text = "Ways that are measured",
                 .choices = {"both", "preload", "mount"},
                 .shows_default = true});
  all.push_back({.name = "--part",
                 .value = &o.part,
                 .text = "Calls that are measured: records of 1 and 16 MiB, of 4 KiB, or reads of "
                         "what the system has cached",
                 .choices = {"all", "large", "small", "again"},
                 .shows_default = true});
  all.push_back(
      {.name = "--fuse-example",
       .value = &o.example,
       .text = "Program like libfuse's passthrough_ll, which is measured beside the mount"});
  all.push_back({.name = "--descriptors",
                 .value = &o.descriptors,
                 .text = "The host opens the files and passes them, instead of the data"});
  return benchmark("files",
                   "Files of the host read and written by a target through libfarcall-io.so and "
                   "through a mount, against the same calls here",
                   std::move(all), options, run_files);
}

} // namespace farcall::tool
