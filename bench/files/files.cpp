#include "file_work.hpp"
#include "published.hpp"

#include <bench/commands.hpp>
#include <bench/runner/link.hpp>
#include <bench/runner/loopback_peer.hpp>
#include <bench/runner/session.hpp>
#include <tools/common/forked_process.hpp>
#include <tools/common/io_library.hpp>
#include <tools/common/json.hpp>
#include <tools/common/table.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/unique_fd.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

// Measures reads and writes of the host's files by a target, through the preloaded library, and by
// the host itself.

namespace farcall::tool {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t mib = 1024 * kib;
constexpr std::uint64_t gib = 1024 * mib;

struct files_options : bench_options {
  std::string folder = "/dev/shm";
  std::size_t bytes = 0; ///< of all files together; 0 for the default
  bool descriptors = false;
};

struct files_row {
  file_work work;
  summary direct; ///< nanoseconds of a call, of all threads together
  summary forwarded;
  std::optional<double> plain_mb_s; ///< of a bare connection
};

const char* word_of(file_access access) {
  switch (access) {
  case file_access::write:
    return "pwrite";
  case file_access::read:
    return "pread";
  case file_access::write_in_a_row:
    return "write";
  case file_access::read_in_a_row:
    return "read";
  default:
    return "pread, random";
  }
}

bool is_write(file_access access) {
  return access == file_access::write || access == file_access::write_in_a_row;
}

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
  const std::uint64_t calls = options.quick ? 2'000 : 20'000;
  for (const file_access access :
       {file_access::write_in_a_row, file_access::read_in_a_row, file_access::read_anywhere}) {
    works.push_back({.access = access,
                     .record = 4 * kib,
                     .bytes = std::max(64 * mib, calls * 4 * kib / mib * mib + mib),
                     .calls = calls,
                     .threads = 1});
  }
  return works;
}

double mb_per_second(const file_work& work, const summary& ns_per_call) {
  return static_cast<double>(work.record) / ns_per_call.p50 * 1e3;
}

class files_measurement {
 public:
  files_measurement(const files_options& options, const node& target, std::string folder,
                    progress& bar)
      : options_(options), target_(target), folder_(std::move(folder)), bar_(bar) {}

  files_row measure(file_work work) {
    bar_.begin_step(fmt::format("{} of {} by {}", word_of(work.access), format_bytes(work.record),
                                work.threads));
    work.path = fmt::format("{}/{}-{}", folder_, work.threads, work.bytes);
    if (work.path != made_.path) {
      remove_made();
      make_files(work);
      made_ = work;
    }
    const std::size_t samples = options_.batches_or(9, 3);
    std::vector<double> direct;
    std::vector<double> forwarded;
    const double calls = static_cast<double>(work.calls * work.threads);
    // Once untimed, so that the files are in the page cache.
    (void)do_file_work(work);
    (void)sync(target_, do_file_work, work);
    for (std::size_t i = 0; i < samples; ++i) {
      direct.push_back(do_file_work(work) / calls);
      forwarded.push_back(sync(target_, do_file_work, work) / calls);
    }
    if (is_write(work.access)) check_files(work);
    return {work, summarize(std::move(direct)), summarize(std::move(forwarded)), std::nullopt};
  }

  void remove_made() {
    for (std::uint64_t t = 0; !made_.path.empty() && t < made_.threads; ++t)
      fs::remove(fmt::format("{}.{}", made_.path, t));
    made_ = {};
  }

 private:
  const files_options& options_;
  node target_;
  std::string folder_;
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

std::string rate_cell(double mb_s) { return fmt::format("{:.0f}", mb_s); }

std::string tables(const std::vector<files_row>& rows, bool has_plain) {
  std::vector<table::column> columns{{"call", table::align::left},
                                     {"record"},
                                     {"threads"},
                                     {"direct MB/s"},
                                     {"forwarded"},
                                     {"ratio"}};
  if (has_plain) columns.insert(columns.end(), {{"connection"}, {"ratio"}});
  columns.insert(columns.end(), {{"VE plain"}, {"VE accio"}});
  table large{columns};
  table small{{{"call", table::align::left},
               {"record"},
               {"direct p50"},
               {"forwarded p1"},
               {"p50"},
               {"p99"},
               {"p50 more"}}};
  for (const files_row& row : rows) {
    const file_work& work = row.work;
    if (work.record < mib) {
      small.add_row({word_of(work.access), format_bytes(work.record), format_time(row.direct.p50),
                     format_time(row.forwarded.p1), format_time(row.forwarded.p50),
                     format_time(row.forwarded.p99),
                     format_time(std::max(0.0, row.forwarded.p50 - row.direct.p50))});
      continue;
    }
    const double forwarded = mb_per_second(work, row.forwarded);
    std::vector<std::string> cells{word_of(work.access),
                                   format_bytes(work.record),
                                   fmt::format("{}", work.threads),
                                   rate_cell(mb_per_second(work, row.direct)),
                                   rate_cell(forwarded),
                                   format_ratio(row.direct.p50 / row.forwarded.p50)};
    if (has_plain) {
      cells.push_back(row.plain_mb_s ? rate_cell(*row.plain_mb_s) : "");
      cells.push_back(row.plain_mb_s ? format_ratio(forwarded / *row.plain_mb_s) : "");
    }
    const auto published = published_file_rates(is_write(work.access), work.record, work.threads);
    cells.push_back(published ? rate_cell(published->plain) : "");
    cells.push_back(published ? rate_cell(published->accelerated) : "");
    large.add_row(std::move(cells));
  }
  return fmt::format(
      "each thread has a file of its own, which is there already; rates are medians of all threads "
      "together, with fsync\n"
      "direct: the same calls in this process; a ratio above 1 means faster than that{}\n"
      "VE: NEC's vector card with a file in /dev/shm, as published, plain and accelerated\n\n{}\n"
      "one thread; of a write, until it may go on\n\n{}",
      has_plain ? ", or than one bare connection" : "", large.text(), small.text());
}

json rows_json(const std::vector<files_row>& rows) {
  json document = json::array();
  for (const files_row& row : rows) {
    document.push_back({{"call", word_of(row.work.access)},
                        {"record", row.work.record},
                        {"threads", row.work.threads},
                        {"bytes_of_file", row.work.bytes},
                        {"direct_mb_s", rounded(mb_per_second(row.work, row.direct), 1)},
                        {"forwarded_mb_s", rounded(mb_per_second(row.work, row.forwarded), 1)},
                        {"forwarded_to_direct", rounded(row.direct.p50 / row.forwarded.p50, 3)},
                        {"direct_ns", percentiles_json(row.direct)},
                        {"forwarded_ns", percentiles_json(row.forwarded)},
                        {"plain_mb_s", row.plain_mb_s ? json(*row.plain_mb_s) : json()}});
  }
  return document;
}

report to_report(const std::vector<files_row>& rows, const link_session& session) {
  row_chart large{"Files of the host, read and written by a target",
                  "Floor: the same calls in this process. Rates are of all threads together.",
                  {"bandwidth", unit::bytes_per_second},
                  {}};
  row_chart small{
      "Small records, one thread",
      "Floor: the same calls in this process. The time of a write ends when the call returns.",
      {"time of a call"},
      {}};
  for (const files_row& row : rows) {
    const file_work& work = row.work;
    const std::string what =
        fmt::format("{} of {}", word_of(work.access), format_bytes(work.record));
    if (work.record < mib) {
      small.rows.push_back({what, row.forwarded, row.direct, ""});
      continue;
    }
    const auto rate = [&](double ns) { return static_cast<double>(work.record) / ns * 1e9; };
    large.rows.push_back(
        {fmt::format("{}, {} thread{}", what, work.threads, work.threads == 1 ? "" : "s"),
         converted(row.forwarded, rate), converted(row.direct, rate),
         row.plain_mb_s ? fmt::format("one bare connection: {:.0f} MB/s", *row.plain_mb_s) : ""});
  }
  return session.make_report("files", "Files of the host that a target reads and writes.",
                             {std::move(large), std::move(small)});
}

/// Makes targets load the library and forward files, although they run on this machine.
void prepare_targets(const files_options& options) {
  preload_io_library();
  const char* const how = options.descriptors ? "descriptors" : "always";
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing else uses the environment meanwhile
  if (setenv("FARCALL_IO_FORWARD", how, 1) != 0)
    throw failed_run(fmt::format("cannot set FARCALL_IO_FORWARD: {}", reason_text(errno)));
}

int run_files(const files_options& options) {
  const bool has_plain = kind_of(options) != link_kind::shm;
  if (options.descriptors && has_plain)
    throw usage_problem("--descriptors: open files can be passed on one machine only; leave out "
                        "--transport and --targets");
  prepare_targets(options);
  std::optional<loopback_peer> peer;
  if (has_plain) peer.emplace(cores_of(options)); // forks, so before any thread
  const std::uint64_t bytes = options.bytes != 0 ? options.bytes : options.quick ? 64 * mib : gib;
  const std::vector<file_work> works = works_of(options, bytes);
  require_space(options.folder, std::max(bytes, 2 * 64 * mib));
  const run_folder folder(options.folder);
  link_session session{options, "files", works.size()};
  job_options job_options = session.link().targets(1);
  job_options.host_files = folder.path();
  const job j{job_options};
  files_measurement measurement(options, j.targets().front(), folder.path(), session.bar());
  std::vector<files_row> rows;
  for (const file_work& work : works) {
    rows.push_back(measurement.measure(work));
    if (peer && work.record >= mib)
      rows.back().plain_mb_s = plain_mb_s(*peer, work.record, options.batches_or(9, 5));
  }
  measurement.remove_made();
  session.finish();
  if (options.json) {
    print_json({{"files", rows_json(rows)},
                {"floor_ns", percentiles_json(session.floor().pooled())},
                {"env", session.circumstances()}});
  } else {
    print(session.heading() + tables(rows, has_plain));
  }
  options.draw([&] { return to_report(rows, session); });
  return 0;
}

} // namespace

command command_files() {
  auto options = std::make_shared<files_options>();
  files_options& o = *options;
  std::vector<option> all = link_options(o);
  all.push_back({.name = "--folder",
                 .value = &o.folder,
                 .text = "Folder in which the files are made, and removed at the end",
                 .shows_default = true});
  all.push_back({.name = "--size",
                 .value = &o.bytes,
                 .text = "Bytes of all files together (default: 1GiB, quick: 64MiB)",
                 .range = {{std::size_t{16} << 20, std::size_t{1} << 40}},
                 .is_size = true});
  all.push_back({.name = "--descriptors",
                 .value = &o.descriptors,
                 .text = "The host opens the files and passes them, instead of the data"});
  return benchmark("files",
                   "Files of the host read and written by a target through libfarcall-io.so, "
                   "against the same calls here",
                   std::move(all), options, run_files);
}

} // namespace farcall::tool
