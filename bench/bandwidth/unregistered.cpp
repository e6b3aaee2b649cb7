// SPDX-License-Identifier: Apache-2.0
#include "unregistered.hpp"
#include "bare_processes.hpp"
#include "content.hpp"
#include "published.hpp"
#include "target_block.hpp"

#include <bench/report/copies.hpp>
#include <bench/runner/functions.hpp>
#include <bench/runner/session.hpp>
#include <bench/runner/spin_barrier.hpp>
#include <tools/common/json.hpp>
#include <tools/common/table.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

// Measures copies between unregistered memory.

namespace farcall::tool {

namespace {

constexpr std::size_t smallest = 32 * kib;
constexpr std::size_t quick_limit = 16 * mib;
/// Block size from which fewer samples are taken: each takes a second, to fill and check all bytes.
constexpr std::size_t large = 256 * mib;
constexpr std::size_t samples_of_large = 7;
/// Limit of warmed blocks: larger ones exceed all caches.
constexpr std::size_t max_warmed = 256 * mib;
/// Bytes copied in a sample, to hide the cost of reading the clock.
constexpr std::size_t bytes_of_sample = 4 * mib;
constexpr std::size_t max_copies = 128;
constexpr std::size_t blocks_of_thread = 3;

enum class copying : std::uint8_t { locally, put, get, bare_put, ring_put, bare_get, ring_get };
/// In the order of the enumerators. Only one thread makes copies without the library.
constexpr std::array all_kinds{copying::locally,  copying::put,      copying::get,
                               copying::bare_put, copying::ring_put, copying::bare_get,
                               copying::ring_get};
constexpr std::array names_of_kinds{"memcpy",
                                    "put_sync",
                                    "get_sync",
                                    "a bare copy to the other process",
                                    "a bare copy to the other process through a ring",
                                    "a bare copy from the other process",
                                    "a bare copy from the other process through a ring"};
static_assert(names_of_kinds.size() == all_kinds.size());
constexpr std::size_t kinds_with_threads = 3;

constexpr bool is_bare(copying kind) {
  return static_cast<std::size_t>(kind) >= kinds_with_threads;
}
constexpr bool is_to_target(copying kind) {
  return kind == copying::put || kind == copying::bare_put || kind == copying::ring_put;
}

const char* word_of(pages kind) {
  switch (kind) {
  case pages::small:
    return "small";
  case pages::huge:
    return "huge";
  default:
    return "hugetlb";
  }
}

/// Keeps the second process of bare copies awake, if the copies of that kind need it.
class scoped_wake {
 public:
  scoped_wake(bare_processes* bare, copying kind) : bare_(is_bare(kind) ? bare : nullptr) {
    if (bare_ != nullptr) bare_->wake();
  }
  ~scoped_wake() noexcept(false) {
    if (bare_ != nullptr && std::uncaught_exceptions() == 0) bare_->sleep();
  }
  scoped_wake(const scoped_wake&) = delete;
  scoped_wake& operator=(const scoped_wake&) = delete;

 private:
  bare_processes* bare_;
};

/// The three blocks of one thread, and the block of the second process of bare copies, if there is
/// one.
class thread_blocks {
 public:
  thread_blocks(const node& target, std::size_t bytes, pages kind, bare_processes* bare)
      : source_(bytes, kind), sink_(bytes, kind), there_(target, bytes, kind), bare_(bare) {
    if (bare_ == nullptr) return;
    const scoped_wake awake(bare_, copying::bare_put);
    bare_->allocate(bytes, kind);
  }
  ~thread_blocks() {
    if (bare_ == nullptr) return;
    try {
      const scoped_wake awake(bare_, copying::bare_put);
      bare_->release();
    } catch (const failed_run&) {
      // The second process has ended, which the measurement has reported.
    }
  }
  thread_blocks(const thread_blocks&) = delete;
  thread_blocks& operator=(const thread_blocks&) = delete;

  /// Fills the source of copies of that kind, on its side.
  void fill(copying kind, std::uint64_t round) {
    if (kind == copying::get) {
      there_.fill(round);
    } else if (is_bare(kind) && !is_to_target(kind)) {
      bare_->fill(round);
    } else {
      fill_block(source_.bytes(), round);
    }
  }

  /// Marks the source. The host marks the target's block too, by puts of single words, so that the
  /// other lines stay cached as the previous copy left them.
  void mark(copying kind, std::uint64_t round) {
    if (is_bare(kind)) return;
    if (kind != copying::get) {
      mark_block(source_.bytes(), round);
      return;
    }
    for_each_mark(sink_.bytes().size(), round, [&](std::size_t offset, std::uint64_t word) {
      put_sync(std::as_bytes(std::span{&word, 1}), there_.bytes().subspan(offset, sizeof word));
    });
  }

  void copy(copying kind) {
    switch (kind) {
    case copying::locally:
      memory_copy_(sink_.bytes().data(), source_.bytes().data(), source_.bytes().size());
      return;
    case copying::put:
      put_sync(std::span<const std::byte>{source_.bytes()}, there_.bytes());
      return;
    case copying::get:
      get_sync(there_.bytes(), sink_.bytes());
      return;
    case copying::bare_put:
    case copying::ring_put:
      bare_->copy(source_.bytes(), bare_processes::direction::to_peer,
                  kind == copying::ring_put ? bare_processes::way::ring
                                            : bare_processes::way::attach);
      return;
    case copying::bare_get:
    case copying::ring_get:
      bare_->copy(sink_.bytes(), bare_processes::direction::from_peer,
                  kind == copying::ring_get ? bare_processes::way::ring
                                            : bare_processes::way::attach);
    }
  }

  /// Throws failed_run if a byte is wrong.
  void check(copying kind, block_content content) const {
    const std::size_t bytes = sink_.bytes().size();
    // Blocks of bare copies are not marked.
    if (is_bare(kind)) content.is_marked = false;
    const std::size_t wrong = kind == copying::put ? there_.first_wrong(content)
                              : is_to_target(kind)
                                  ? bare_->first_wrong(content)
                                  : first_wrong_word(sink_.bytes(), content).value_or(bytes);
    if (wrong == bytes) return;
    throw failed_run(fmt::format("wrong result: after {} of {} other bytes are at offset {}",
                                 names_of_kinds.at(static_cast<std::size_t>(kind)),
                                 format_bytes(bytes), wrong));
  }

  [[nodiscard]] std::size_t huge_bytes_here() const {
    return huge_bytes_at(source_.bytes().data());
  }
  [[nodiscard]] std::size_t huge_bytes_there() const { return there_.huge_bytes(); }

 private:
  local_memory source_;
  local_memory sink_;
  target_block there_;
  bare_processes* bare_;
  /// Volatile, so that the compiler neither inlines nor removes the copy.
  void* (*volatile memory_copy_)(void*, const void*, std::size_t) = std::memcpy;
};

/// Returns the processors that this process may use, the host's first.
std::vector<int> cpus_from_host(const bench_session& session) {
  std::vector<int> cpus = session.env().cpus;
  const auto host = std::find(cpus.begin(), cpus.end(), session.cores().host);
  if (host != cpus.end()) std::rotate(cpus.begin(), host, cpus.end());
  return cpus;
}

class row_measurement {
 public:
  row_measurement(bench_session& session, bare_processes& bare, std::size_t bytes, pages kind,
                  std::size_t threads, std::size_t batches, bool is_fresh)
      : session_(session), bare_(threads == 1 ? &bare : nullptr), bytes_(bytes), barrier_(threads),
        kinds_(threads == 1 ? all_kinds.size() : kinds_with_threads), times_(threads),
        copies_(is_fresh ? 1 : std::clamp<std::size_t>(bytes_of_sample / bytes, 1, max_copies)),
        is_fresh_(is_fresh), is_warm_(!is_fresh && bytes <= max_warmed) {
    for (std::size_t t = 0; t < threads; ++t) {
      blocks_.push_back(std::make_unique<thread_blocks>(session.target(), bytes, kind, bare_));
      times_[t].resize(kinds_ * batches);
    }
  }

  unregistered_row measure(pages kind) {
    const std::size_t threads = blocks_.size();
    run_together(threads, cpus_from_host(session_), barrier_,
                 [this](std::size_t t) { measure_by(t); });
    return {.bytes = bytes_,
            .kind = kind,
            .threads = threads,
            .huge_here = blocks_.front()->huge_bytes_here() >= bytes_ / 2,
            .huge_target = blocks_.front()->huge_bytes_there() >= bytes_ / 2,
            .copy = of_kind(copying::locally),
            .put = of_kind(copying::put),
            .get = of_kind(copying::get),
            .bare_put = faster(copying::bare_put, copying::ring_put),
            .bare_get = faster(copying::bare_get, copying::ring_get)};
  }

 private:
  using clock = std::chrono::steady_clock;
  struct time_of_sample {
    clock::time_point begin;
    clock::time_point end;
  };

  /// Measures all samples of one thread. The kinds alternate, so that changes of the machine affect
  /// all alike.
  void measure_by(std::size_t thread) {
    thread_blocks& own = *blocks_[thread];
    std::uint64_t round = (std::uint64_t{thread} + 1) << 32;
    for (std::size_t sample = 0; sample < times_[thread].size(); ++sample) {
      const copying kind = all_kinds[sample % kinds_];
      if (is_bare(kind) && !is_fresh_) session_.wait_for_idle_target();
      const scoped_wake awake(bare_, kind);
      own.fill(kind, ++round);
      barrier_.arrive_and_wait();
      if (thread == 0) rouse_target(kind);
      barrier_.arrive_and_wait();
      if (is_warm_) {
        own.copy(kind);
        own.mark(kind, round);
        barrier_.arrive_and_wait();
      }
      const clock::time_point begin = clock::now();
      for (std::size_t i = 0; i < copies_; ++i)
        own.copy(kind);
      times_[thread][sample] = {begin, clock::now()};
      barrier_.arrive_and_wait(); // checking the bytes would slow the other threads down
      own.check(kind, {.round = round, .is_marked = is_warm_});
    }
  }

  /// Makes the target idle, but awake if it takes part in the copy. Waiting until it sleeps would
  /// give other programs time to change the caches.
  void rouse_target(copying kind) {
    if (is_bare(kind)) return;
    if (!is_fresh_) session_.wait_for_idle_target();
    if (kind != copying::locally) sync(session_.target(), offloaded::nothing);
  }

  /// Returns the times from the first thread's begin to the last one's end.
  [[nodiscard]] summary of_kind(copying kind) const {
    std::vector<double> samples;
    for (auto sample = static_cast<std::size_t>(kind); sample < times_.front().size();
         sample += kinds_) {
      time_of_sample whole = times_.front()[sample];
      for (const std::vector<time_of_sample>& of_thread : times_) {
        whole.begin = std::min(whole.begin, of_thread[sample].begin);
        whole.end = std::max(whole.end, of_thread[sample].end);
      }
      samples.push_back(std::chrono::duration<double, std::nano>(whole.end - whole.begin).count() /
                        static_cast<double>(copies_));
    }
    return summarize(std::move(samples));
  }

  /// Returns the times of the faster kind; nothing if bare copies are not measured.
  [[nodiscard]] std::optional<summary> faster(copying one, copying other) const {
    if (bare_ == nullptr) return std::nullopt;
    summary of_one = of_kind(one);
    summary of_other = of_kind(other);
    return of_one.p50 <= of_other.p50 ? std::move(of_one) : std::move(of_other);
  }

  bench_session& session_;
  bare_processes* bare_; ///< null if several threads copy
  std::size_t bytes_;
  spin_barrier barrier_;
  std::size_t kinds_;                              ///< number of kinds of copies
  std::vector<std::vector<time_of_sample>> times_; ///< of each thread; the kinds alternate
  std::size_t copies_;
  bool is_fresh_;
  bool is_warm_;
  std::vector<std::unique_ptr<thread_blocks>> blocks_;
};

double to_gb_per_second(double mib_per_second) {
  return mib_per_second * static_cast<double>(mib) / 1e9;
}

/// Returns the published figure, which exists for one thread only.
std::optional<double> published(const unregistered_row& row, direction way) {
  if (row.threads != 1) return std::nullopt;
  return published_mib_per_second(way, row.kind, row.bytes);
}

std::string published_cell(const unregistered_row& row, direction way) {
  const std::optional<double> mib_per_second = published(row, way);
  return mib_per_second ? fmt::format("{:.2f}", to_gb_per_second(*mib_per_second)) : "";
}

std::string bare_cell(const std::optional<summary>& bare, const summary& ours) {
  return bare ? format_ratio(bare->p50 / ours.p50) : "";
}

/// Least rate of put and get that is a success, as a share of the rate of bare copies.
constexpr double goal = 0.9;

bool reaches_goal(const unregistered_row& row) {
  return row.bare_put->p50 >= goal * row.put.p50 && row.bare_get->p50 >= goal * row.get.p50;
}

std::string goal_cell(const unregistered_row& row) {
  if (!row.bare_put) return "";
  return fmt::format("{}, {}", goal, reaches_goal(row) ? "reached" : "missed");
}

const char* title_of(pages kind) {
  switch (kind) {
  case pages::small:
    return "small pages";
  case pages::huge:
    return "transparent huge pages";
  default:
    return "huge pages of the pool (hugetlb)";
  }
}

std::vector<pages> kinds_of(const bandwidth_options& options, std::vector<std::string>& left_out) {
  std::vector<pages> kinds;
  if (options.pages != "huge") kinds.push_back(pages::small);
  if (options.pages == "small") return kinds;
  const std::string no_transparent = why_no_huge_pages();
  if (no_transparent.empty()) {
    kinds.push_back(pages::huge);
  } else {
    left_out.push_back("transparent huge pages: " + no_transparent);
  }
  if (free_pool_pages() != 0) {
    kinds.push_back(pages::hugetlb);
  } else {
    left_out.emplace_back("huge pages of the pool: none is free (vm.nr_hugepages)");
  }
  return kinds;
}

std::size_t available_on(pages kind) {
  return kind == pages::hugetlb ? free_pool_pages() * bytes_of_huge_page : available_memory();
}

} // namespace

std::vector<std::size_t> unregistered_sizes(const bandwidth_options& options) {
  if (kind_of(options) != link_kind::shm) {
    throw usage_problem("--unregistered measures copies between processes of this machine; leave "
                        "out --transport and --targets");
  }
  const std::size_t limit = options.max_bytes != 0 ? options.max_bytes
                            : options.quick        ? quick_limit
                                                   : gib;
  if (limit < smallest) {
    throw usage_problem(fmt::format("--unregistered begins with blocks of {}; give a --max-bytes "
                                    "of that or more",
                                    format_bytes(smallest)));
  }
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = smallest; bytes <= limit; bytes *= 2)
    sizes.push_back(bytes);
  return sizes;
}

std::string why_not_measured(std::size_t bytes, pages kind, std::size_t threads,
                             std::size_t available) {
  // The second process of bare copies has a block.
  const std::size_t blocks = blocks_of_thread * threads + (threads == 1 ? 1 : 0);
  const std::string what = fmt::format("{} on {} pages by {} {}", format_bytes(bytes),
                                       word_of(kind), threads, threads == 1 ? "thread" : "threads");
  if (kind == pages::hugetlb) {
    const std::size_t needed =
        blocks * ((bytes + bytes_of_huge_page - 1) / bytes_of_huge_page * bytes_of_huge_page);
    if (available >= needed) return {};
    return fmt::format("{}: needs {} of the pool, and {} are free", what, format_bytes(needed),
                       format_bytes(available));
  }
  // A block takes up to a huge page more than its length, and other programs need memory too.
  const std::size_t needed = blocks * (bytes + bytes_of_huge_page) + bytes / 2 + 64 * mib;
  if (available >= needed) return {};
  return fmt::format("{}: needs {} blocks of it, {} with what the rest takes, and {} of memory are "
                     "available",
                     what, blocks, format_bytes(needed), format_bytes(available));
}

std::string unregistered_tables(const std::vector<unregistered_row>& rows) {
  std::string text =
      "bandwidths are medians in GB/s of all threads together; a ratio above 1 means "
      "faster than memcpy\n"
      "bare: the faster of two ways of two processes without the library: each copies one half by "
      "cross-memory attach, or both copy through shared memory\n"
      "VE: NEC's vector card by VEOS' 4dma, as published; put is to the card\n";
  for (const pages kind : {pages::small, pages::huge, pages::hugetlb}) {
    table out{{{"bytes"},
               {"threads"},
               {"memcpy GB/s"},
               {"put GB/s"},
               {"get GB/s"},
               {"put:memcpy"},
               {"get:memcpy"},
               {"put:bare"},
               {"get:bare"},
               {"goal"},
               {"VE put GB/s"},
               {"VE get GB/s"}}};
    bool any = false;
    for (const unregistered_row& row : rows) {
      if (row.kind != kind) continue;
      any = true;
      out.add_row(
          {format_bytes(row.bytes), fmt::format("{}", row.threads),
           fmt::format("{:.2f}", row.gb_per_second(row.copy)),
           fmt::format("{:.2f}", row.gb_per_second(row.put)),
           fmt::format("{:.2f}", row.gb_per_second(row.get)),
           format_ratio(row.copy.p50 / row.put.p50), format_ratio(row.copy.p50 / row.get.p50),
           bare_cell(row.bare_put, row.put), bare_cell(row.bare_get, row.get), goal_cell(row),
           published_cell(row, direction::to_target), published_cell(row, direction::from_target)});
    }
    if (any)
      text +=
          fmt::format("\nunregistered memory on both sides, {}\n{}", title_of(kind), out.text());
  }
  return text;
}

std::vector<chart> unregistered_charts(const std::vector<unregistered_row>& rows) {
  std::map<std::pair<pages, std::size_t>, std::vector<chart_series>> by_kind;
  for (const unregistered_row& row : rows) {
    std::vector<chart_series>& series = by_kind[{row.kind, row.threads}];
    if (series.empty()) {
      series = {{"put, to the target", {}, series_role::figure},
                {"get, from the target", {}, series_role::figure},
                {"VEOS' 4dma to its card, published", {}, series_role::published},
                {"VEOS' 4dma from its card, published", {}, series_role::published},
                {"floor: memcpy in this process", {}, series_role::floor}};
    }
    const auto add = [&](std::size_t i, const summary& ns, const summary& floor_ns) {
      series[i].points.push_back(bandwidth_point(row.bytes, ns, floor_ns, row.threads));
    };
    add(0, row.put, row.copy);
    add(1, row.get, row.copy);
    add(4, row.copy, nothing_measured());
    for (const std::size_t i : {2, 3}) {
      const auto rate = published(row, i == 2 ? direction::to_target : direction::from_target);
      if (rate)
        series[i].points.push_back(
            {static_cast<double>(row.bytes), only(to_gb_per_second(*rate) * 1e9)});
    }
  }
  std::vector<chart> charts;
  for (auto& [kind, series] : by_kind) {
    std::erase_if(series, [](const chart_series& s) { return s.points.empty(); });
    charts.emplace_back(
        bandwidth_chart(fmt::format("Unregistered memory on both sides, {}", title_of(kind.first)),
                        fmt::format("{} thread{}; bandwidth of all together.", kind.second,
                                    kind.second == 1 ? "" : "s at once"),
                        std::move(series)));
  }
  return charts;
}

json unregistered_json(const std::vector<unregistered_row>& rows) {
  const auto or_null = [](const std::optional<double>& value) {
    return value ? json(*value) : json();
  };
  const auto ratio_or_null = [](const std::optional<summary>& bare, const summary& ours) {
    return bare ? json(rounded(bare->p50 / ours.p50, 3)) : json();
  };
  json document = json::array();
  for (const unregistered_row& row : rows) {
    document.push_back({{"bytes", row.bytes},
                        {"pages", word_of(row.kind)},
                        {"threads", row.threads},
                        {"has_huge_pages", row.huge_here},
                        {"target_has_huge_pages", row.huge_target},
                        {"samples", row.put.samples},
                        {"memcpy_gb_s", rounded(row.gb_per_second(row.copy))},
                        {"put_gb_s", rounded(row.gb_per_second(row.put))},
                        {"get_gb_s", rounded(row.gb_per_second(row.get))},
                        {"put_to_memcpy", rounded(row.copy.p50 / row.put.p50, 3)},
                        {"get_to_memcpy", rounded(row.copy.p50 / row.get.p50, 3)},
                        {"put_to_bare", ratio_or_null(row.bare_put, row.put)},
                        {"get_to_bare", ratio_or_null(row.bare_get, row.get)},
                        {"goal_to_bare", goal},
                        {"memcpy_ns", percentiles_json(row.copy)},
                        {"put_ns", percentiles_json(row.put)},
                        {"get_ns", percentiles_json(row.get)},
                        {"published_put_mib_s", or_null(published(row, direction::to_target))},
                        {"published_get_mib_s", or_null(published(row, direction::from_target))}});
  }
  return document;
}

int run_bandwidth_of_unregistered(const bandwidth_options& options) {
  const std::vector<std::size_t> sizes = unregistered_sizes(options);
  std::vector<std::string> left_out;
  const std::vector<pages> kinds = kinds_of(options, left_out);
  std::vector<std::size_t> counts{1};
  if (options.threads > 1) counts.push_back(options.threads);
  bare_processes bare(choose_cores(options.host_cpu, options.target_cpu));
  bench_session session{options, "bandwidth", kinds.size() * counts.size() * sizes.size()};
  std::vector<unregistered_row> rows;
  for (const pages kind : kinds) {
    for (const std::size_t threads : counts) {
      for (const std::size_t bytes : sizes) {
        session.bar().begin_step(fmt::format("{} {} pages", format_bytes(bytes), word_of(kind)));
        const std::string reason = why_not_measured(bytes, kind, threads, available_on(kind));
        if (!reason.empty()) {
          left_out.push_back(reason);
          continue;
        }
        const std::size_t batches = bytes >= large
                                        ? options.batches_or(samples_of_large, samples_of_large)
                                        : options.batches_or(21, 21);
        rows.push_back(row_measurement(session, bare, bytes, kind, threads, batches, options.fresh)
                           .measure(kind));
        const unregistered_row& row = rows.back();
        if (kind != pages::small && !(row.huge_here && row.huge_target)) {
          left_out.push_back(fmt::format("{} on huge pages: the kernel gave small ones {}",
                                         format_bytes(bytes),
                                         row.huge_here ? "at the target" : "here"));
        }
      }
    }
  }
  const json document{{"blocks", options.fresh ? "fresh" : "warm"},
                      {"unregistered", unregistered_json(rows)},
                      {"floor_ns", percentiles_json(session.floor())},
                      {"env", session.circumstances()}};
  const std::string blocks = options.fresh ? "before each copy, the source was written, and the "
                                             "destination read, each by its owner\n"
                                           : "";
  print_bandwidth(options, session,
                  {document, blocks + unregistered_tables(rows), unregistered_charts(rows),
                   std::move(left_out)});
  return 0;
}

} // namespace farcall::tool
