// SPDX-License-Identifier: Apache-2.0
#include "remote_samplers.hpp"

#include "perf_session.hpp"
#include "processes.hpp"
#include "server_sampler.hpp"
#include <tools/common/elf_file.hpp>

#include <tools/common/counted_processes.hpp>
#include <tools/common/environment.hpp>

#include <farcall/base/library_thread.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/base/text.hpp>
#include <farcall/farcall.hpp>
#include <farcall/transport/tcp/address.hpp>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

namespace there = server_sampler;

struct remote_target {
  node_id node = no_node;
  pid_t process = 0; ///< process id of the target on its machine
  std::string machine;
};

/// Maximum number of bytes that are accepted from a server in all its replies together.
constexpr std::size_t max_told_bytes = std::size_t{1} << 30;
/// Maximum number of functions at one place. There are several if the compiler has inlined
/// functions into each other.
constexpr std::size_t max_frames_of_place = 1000;
/// Maximum number of frames of all stacks together, including inlined functions. Without this
/// limit, a small reply with many inlined functions at a place could make the profile use much
/// memory.
constexpr std::size_t max_stacks = std::size_t{1} << 27;
/// Maximum number of local files that are kept open, with one descriptor each. Names in further
/// files are requested from the server.
constexpr std::size_t max_own_files = 500;
/// Maximum number of servers. Each of them needs some threads.
constexpr std::size_t max_servers = 500;
constexpr std::size_t max_problems = 20; ///< that are reported

std::size_t bytes_of(const recorded_samples& s) {
  std::size_t bytes = s.runs.size() * sizeof s.runs[0] + s.threads.size() * sizeof s.threads[0] +
                      s.places.size() * sizeof s.places[0] + s.stacks.size() * sizeof s.stacks[0] +
                      s.samples.size() * sizeof s.samples[0];
  for (const auto& run : s.runs)
    bytes += run.program.size();
  for (const auto& thread : s.threads)
    bytes += thread.name.size();
  return bytes;
}

std::size_t bytes_of(const std::vector<there::code_file>& files) {
  std::size_t bytes = files.size() * sizeof files[0];
  for (const there::code_file& file : files)
    bytes += file.path.size() + file.build_id.size();
  return bytes;
}

std::size_t bytes_of(const symbol& s) {
  std::size_t bytes = sizeof s + s.frames.size() * sizeof s.frames[0];
  for (const source_frame& frame : s.frames)
    bytes += frame.function.size() + frame.file.size();
  return bytes;
}

/// Returns the settings that a host uses to reach its servers. They are read from the host's
/// environment.
job_options options_like(pid_t host) {
  // Make paths absolute, because they are relative to the host's working directory.
  const auto file = [host](const setting& s) {
    const auto name = variable_of(host, settings::variable_of(s));
    if (!name || name->empty() || name->starts_with('/')) return name.value_or("");
    return fmt::format("/proc/{}/cwd/{}", host, *name);
  };
  job_options options;
  options.key = file(settings::row("key"));
  options.certificate = file(settings::row("certificate"));
  options.certificate_key = file(settings::row("certificate-key"));
  options.authority = file(settings::row("authority"));
  options.server_key =
      variable_of(host, settings::variable_of(settings::row("server-key"))).value_or("");
  options.process_manager = "none";
  // The heap holds only the sampler's replies, so it needs no more bytes than all replies together
  // may have.
  options.heap_bytes = max_told_bytes;
  // The timeout is short, because a sampler has nothing useful left to do when this process has
  // received all samples.
  options.stop_timeout = std::chrono::seconds(1);
  // The timeout is short, because a sampler that hangs must not delay the profile.
  options.peer_timeout = std::chrono::seconds(5);
  return options;
}

/// Removes from the environment the settings that are meant for the program's jobs, because they
/// must not apply to this process's own jobs. Keeps the settings by which a server admits a host,
/// such as the key.
void forget_settings() {
  std::vector<std::string> names;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view variable = *at;
    if (variable.starts_with("FARCALL_"))
      names.emplace_back(variable.substr(0, variable.find('=')));
  }
  for (const setting& s :
       {settings::row("key"), settings::row("certificate"), settings::row("certificate-key"),
        settings::row("authority"), settings::row("server-key")}) {
    std::erase(names, settings::variable_of(s));
  }
  for (const std::string& name : names)
    unsetenv(name.c_str());
}

/// The local side of a server's sampler. It has a thread and a job, and the sampler is the only
/// target of this job.
class remote_sampler {
 public:
  remote_sampler(std::string server, job_options job, const sampler_options& options,
                 std::chrono::milliseconds timeout)
      : server_(std::move(server)), job_options_(std::move(job)), options_(options),
        timeout_(timeout), thread_("farcall-tool", [this] { run(); }) {}
  remote_sampler(const remote_sampler&) = delete;
  remote_sampler& operator=(const remote_sampler&) = delete;
  ~remote_sampler() { stop(); }

  /// Adds a target whose processes the sampler shall sample. Returns false if the sampler has
  /// failed.
  [[nodiscard]] bool add(const remote_target& target) {
    bool is_added = false;
    tell([&] {
      is_added = !has_failed_;
      if (is_added) targets_.push_back(target);
    });
    return is_added;
  }

  /// Tells the sampler to end, and does not wait for it.
  void end() {
    tell([this] {
      if (std::exchange(is_over_, true)) return;
      over_since_ = clock::now();
      last_reply_ = deadline_after(timeout_);
    });
  }
  /// Tells the sampler to end, and waits until it has ended.
  void stop() {
    end();
    thread_.join();
  }

  /// Adds the samples to the profile. Must be called after stop().
  void add_to(profile& into, std::uint64_t start, const lookup_progress& tell_progress) {
    if (!failure_.empty()) problems_.push_back(fmt::format("{}: {}", missing_text(), failure_));
    for (const std::string& line : problems_)
      fmt::print(stderr, "farcall prof: {}\n", valid_text(line));
    number_nodes();
    leave_out_processes_of(into);
    count_times_from(start + ahead_, into.duration);
    leave_out_names_that_take_too_much();
    add_samples(all_,
                {.path = [this](std::uint32_t file) { return files_[file].path; },
                 .symbols =
                     [this](std::uint32_t file, std::span<const std::uint64_t> offsets) {
                       return symbols_in(file, offsets);
                     }},
                0, tell_progress, into);
  }

 private:
  template <class F>
  void tell(const F& change) {
    {
      const std::lock_guard guard(mutex_);
      change();
    }
    changed_.notify_all();
  }

  void run() {
    try {
      job_options options = job_options_;
      // If the host uses neither a key nor a certificate, its user trusts the network, so this
      // process connects without encryption too.
      const bool is_plain = options.key.empty() && options.certificate.empty();
      options.targets =
          fmt::format("{}?sampler=yes{}", tcp::parse_server_address(server_, "a server").url(),
                      is_plain ? "&plain=yes" : "");
      const job own(options);
      const node sampler = own.targets().at(0);
      compare_clocks(sampler);
      sample_until_over(sampler);
    } catch (const node_failed& e) {
      // A server that has ended is no failure if the program ends too, because `farcall run
      // --hosts` ends its servers together with the program. So wait a moment for the program's end
      // before the failure is recorded.
      std::unique_lock guard(mutex_);
      has_failed_ = true;
      constexpr std::chrono::seconds moment{1};
      const time_point failed = clock::now();
      if (!sampled_.empty() && changed_.wait_for(guard, moment, [this] { return is_over_; }) &&
          failed < over_since_ + moment) {
        return;
      }
      failure_ = e.what();
    } catch (const std::exception& e) {
      const std::lock_guard guard(mutex_);
      has_failed_ = true;
      failure_ = e.what();
    }
  }

  /// Returns the sampler's node with a time limit for the next call, because a server that hangs
  /// must not block this process for ever.
  [[nodiscard]] timed_node in_time(const node& sampler) {
    const std::lock_guard guard(mutex_);
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::min(last_reply_, deadline_after(timeout_)) - clock::now());
    return sampler.within(std::max(left, std::chrono::milliseconds(0)));
  }

  /// Counts bytes that the sampler has sent. Throws malformed_message if their sum is larger than a
  /// real sampler's data can be.
  void keep(std::size_t bytes) {
    kept_bytes_ += bytes;
    if (kept_bytes_ > max_told_bytes)
      throw malformed_message("the sampler has sent more than 1 GiB");
  }

  /// Returns a text such as "node 2 at ibiza:9000: not sampled".
  [[nodiscard]] std::string missing_text() const {
    std::string nodes;
    for (const auto* const some : {&sampled_, &targets_}) {
      for (const remote_target& t : *some)
        nodes += fmt::format("{}node {}", nodes.empty() ? "" : ", ", t.node);
    }
    return fmt::format("{} at {}: {}", nodes, server_,
                       sampled_.empty() ? "not sampled" : "no more samples");
  }

  void compare_clocks(const node& sampler) {
    std::uint64_t shortest = std::numeric_limits<std::uint64_t>::max();
    constexpr int exchanges = 8;
    for (int i = 0; i < exchanges; ++i) {
      const std::uint64_t before = record_time();
      const std::uint64_t other = sync(in_time(sampler), fn<there::time>);
      const std::uint64_t after = record_time();
      if (after - before >= shortest) continue;
      shortest = after - before;
      ahead_ = other - (before + shortest / 2);
    }
  }

  void sample_until_over(const node& sampler) {
    constexpr std::chrono::milliseconds interval{100};
    for (bool is_over = false; !is_over;) {
      std::vector<remote_target> wanted;
      {
        std::unique_lock guard(mutex_);
        changed_.wait_for(guard, interval, [this] { return is_over_ || !targets_.empty(); });
        is_over = is_over_;
        wanted = targets_;
      }
      for (const remote_target& t : wanted) {
        begin(sampler, t);
        const std::lock_guard guard(mutex_);
        targets_.erase(targets_.begin());
        sampled_.push_back(t);
      }
      while (!take(sampler, is_over)) {
      }
      if (is_over || clock::now() >= next_lookup_) look_up_names(sampler);
    }
  }

  void begin(const node& sampler, const remote_target& t) {
    try {
      const std::string refusal =
          sync(in_time(sampler), fn<there::sample>, std::int64_t{t.process}, options_);
      if (!refusal.empty()) {
        problems_.push_back(
            fmt::format("node {} at {}: {}; sampled with ptrace", t.node, server_, refusal));
      }
    } catch (const remote_error& e) {
      problems_.push_back(fmt::format("node {} at {} is missing: {}", t.node, server_, e.what()));
    }
  }

  /// Takes a part of the samples from the sampler. Returns true if it was the last part.
  bool take(const node& sampler, bool is_over) {
    const there::recorded_counts has{all_.runs.size(),   all_.threads.size(), all_.places.size(),
                                     all_.stacks.size(), all_.samples.size(), files_.size()};
    there::recorded_part part = sync(in_time(sampler), fn<there::take>, has, is_over);
    const recorded_samples& told = part.samples;
    // The last part repeats all runs and threads, so in this part they are no new data.
    const bool is_new = !told.places.empty() || !told.stacks.empty() || !told.samples.empty() ||
                        !part.files.empty() ||
                        (!is_over && !(told.runs.empty() && told.threads.empty()));
    if (!is_new && !part.is_last)
      throw malformed_message("the sampler announces more data, and sends none");
    keep(bytes_of(told) + bytes_of(part.files));
    files_.insert(files_.end(), part.files.begin(), part.files.end());
    if (!append(all_, std::move(part.samples), is_over ? told::all_threads : told::new_threads,
                files_.size())) {
      throw malformed_message("the sampler's data is inconsistent");
    }
    return part.is_last;
  }

  /// Converts the times of the samples to times since the profile's start. Times outside of the
  /// profile's duration, which a wrong clock of the server may cause, are moved to its beginning or
  /// end.
  void count_times_from(std::uint64_t there_at_start, std::chrono::nanoseconds duration) {
    for (recorded_samples::sample& s : all_.samples) {
      const auto since = static_cast<std::int64_t>(s.time - there_at_start);
      s.time = static_cast<std::uint64_t>(std::clamp<std::int64_t>(since, 0, duration.count()));
    }
  }

  void leave_out_names_that_take_too_much() {
    std::size_t stacks = 0;
    for (const recorded_samples::stack& s : all_.stacks) {
      const auto& place = all_.places[s.place];
      const auto told = names_.find({place.module, place.offset});
      stacks += told == names_.end() ? 1 : told->second.frames.size();
    }
    if (stacks <= max_stacks) return;
    names_.clear();
    fmt::print(stderr, "farcall prof: at {}: without names, which would take too much memory\n",
               valid_text(server_));
  }

  void number_nodes() {
    for (auto& run : all_.runs) {
      run.node = no_node;
      for (const remote_target& t : sampled_) {
        run.machine = t.machine;
        if (run.process == t.process) run.node = t.node;
      }
    }
  }

  /// Removes samples of processes that were sampled twice: by the server's sampler on this machine,
  /// and by this process, because they are descendants of the program. Gives the node numbers to
  /// the local samples that remain.
  void leave_out_processes_of(profile& with) {
    std::set<pid_t> sampled_here;
    for (profile_thread& thread : with.threads) {
      for (const remote_target& t : sampled_) {
        if (!t.machine.empty() || !thread.machine.empty() || t.process != thread.process) continue;
        thread.node = t.node;
        sampled_here.insert(t.process);
      }
    }
    std::erase_if(all_.samples, [&](const recorded_samples::sample& s) {
      return sampled_here.contains(all_.runs[all_.threads[s.thread].run].process);
    });
  }

  /// Returns this machine's file with the same path and build id as the server's file. The
  /// descriptor is empty if there is no such file. Each file is opened only once and stays open,
  /// because it may be deleted later.
  [[nodiscard]] const module_file& own_file(std::uint32_t file) {
    const there::code_file& wanted = files_[file];
    const auto [at, is_new] = own_files_.try_emplace({wanted.path, wanted.build_id});
    if (!is_new) return at->second;
    module_file& own = at->second;
    own.path = wanted.path;
    // Open regular files only, because opening a pipe, for example, would block.
    std::error_code problem;
    if (wanted.build_id.empty() || open_files_ == max_own_files ||
        !std::filesystem::is_regular_file(wanted.path, problem))
      return own;
    own.file = unique_fd(open(wanted.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (own.file && elf_file(own.file.get()).build_id() != wanted.build_id) own.file.reset();
    if (own.file) ++open_files_;
    return own;
  }

  /// Asks the server for the names of places in files that this machine does not have. The names
  /// are requested during the sampling, because the server may end before this process. The lookups
  /// use at most a tenth of a processor on the server's machine.
  void look_up_names(const node& sampler) {
    const time_point start = clock::now();
    std::map<std::uint32_t, std::set<std::uint64_t>> places;
    for (; first_unnamed_ < all_.places.size(); ++first_unnamed_) {
      const auto& place = all_.places[first_unnamed_];
      if (place.module != modules::none) places[place.module].insert(place.offset);
    }
    for (const auto& [file, offsets] : places) {
      if (own_file(file).file) continue;
      const std::vector<std::uint64_t> sorted(offsets.begin(), offsets.end());
      std::vector<symbol> found =
          sync(in_time(sampler), fn<there::symbols>, file, std::span<const std::uint64_t>(sorted));
      if (found.size() != sorted.size())
        throw malformed_message("the sampler names other places than it was asked for");
      for (std::size_t i = 0; i < sorted.size(); ++i) {
        if (found[i].frames.size() > max_frames_of_place)
          throw malformed_message("the sampler gives a place too many names");
        keep(bytes_of(found[i]));
        if (!found[i].frames.empty()) names_[{file, sorted[i]}] = std::move(found[i]);
      }
    }
    constexpr std::chrono::milliseconds shortest{500};
    next_lookup_ = clock::now() + std::max<clock::duration>(shortest, 10 * (clock::now() - start));
  }

  [[nodiscard]] std::vector<symbol> symbols_in(std::uint32_t file,
                                               std::span<const std::uint64_t> offsets) {
    if (const module_file& own = own_file(file); own.file) return symbolize(own, offsets);
    std::vector<symbol> symbols;
    for (const std::uint64_t offset : offsets) {
      const auto told = names_.find({file, offset});
      symbols.push_back(told != names_.end() ? told->second
                                             : symbol{offset, {{address_text(offset), {}, 0}}});
    }
    return symbols;
  }

  const std::string server_;
  const job_options job_options_;
  const sampler_options options_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_; ///< guards targets_ and the five members after it
  std::condition_variable changed_;
  std::vector<remote_target> targets_; ///< still to be added
  std::vector<remote_target> sampled_;
  bool has_failed_ = false;
  bool is_over_ = false;
  time_point last_reply_ = no_deadline;
  time_point over_since_;
  // Until the thread has ended, only the thread may use this member and the following ones.
  std::vector<std::string> problems_;
  std::string failure_; ///< reason why the sampler has ended early; empty if it has not
  /// Difference between the sampler's clock and the local clock, in nanoseconds and modulo 2^64. It
  /// is positive if the sampler's clock is ahead.
  std::uint64_t ahead_ = 0;
  recorded_samples all_;
  std::vector<there::code_file> files_;
  std::size_t kept_bytes_ = 0; ///< bytes received so far
  /// Local files by path and build id.
  std::map<std::pair<std::string, std::string>, module_file> own_files_;
  std::size_t open_files_ = 0;
  /// Names that the server has sent, by file and offset. They are names in files that this machine
  /// does not have.
  std::map<std::pair<std::uint32_t, std::uint64_t>, symbol> names_;
  std::size_t first_unnamed_ = 0; ///< index in all_.places
  time_point next_lookup_;
  library_thread thread_; ///< last member, because the thread uses the members above
};

/// Returns the CPU time that the calling thread has used.
clock::duration processor_time() {
  timespec taken{};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &taken);
  return std::chrono::seconds(taken.tv_sec) + std::chrono::nanoseconds(taken.tv_nsec);
}

std::string own_machine() {
  std::array<char, 256> name{};
  (void)gethostname(name.data(), name.size() - 1);
  return name.data();
}

} // namespace

class remote_samplers::impl {
 public:
  impl(pid_t root, const sampler_options& options, std::chrono::milliseconds timeout)
      : root_(root), options_(options), timeout_(timeout) {
    forget_settings();
    thread_ = library_thread("farcall-tool", [this] { run(); });
  }
  impl(const impl&) = delete;
  impl& operator=(const impl&) = delete;
  ~impl() { stop(); }

  void stop() {
    {
      const std::lock_guard guard(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
    // First tell all samplers to end, and then wait for them. So the samplers end at the same time,
    // and stopping takes only as long as the slowest sampler.
    for (const auto& sampler : samplers_)
      sampler->end();
    for (const auto& sampler : samplers_)
      sampler->stop();
  }

  void add_to(profile& into, std::uint64_t start, const lookup_progress& tell) const {
    // Set the node numbers that are known from the hosts' counters alone. These are the numbers of
    // hosts whose targets all run elsewhere, and of targets that a server on this machine has
    // started.
    for (profile_thread& t : into.threads) {
      const auto known = nodes_here_.find(t.process);
      if (t.node == no_node && known != nodes_here_.end()) t.node = known->second;
    }
    for (const std::string& line : problems_)
      fmt::print(stderr, "farcall prof: {}\n", valid_text(line));
    for (const auto& sampler : samplers_)
      sampler->add_to(into, start, tell);
  }

 private:
  /// Searches for new jobs and new targets until the end. The pauses between searches limit the
  /// load to 1 % of a processor, but there is at least one search in a second.
  void run() {
    using std::chrono::milliseconds;
    constexpr clock::duration longest = milliseconds(1000);
    constexpr clock::duration shortest = milliseconds(25);
    clock::duration interval = shortest;
    for (bool is_over = false; !is_over;) {
      {
        std::unique_lock guard(mutex_);
        is_over = changed_.wait_for(guard, interval, [this] { return is_over_; });
      }
      const clock::duration before = processor_time();
      look();
      interval = std::clamp(100 * (processor_time() - before), shortest, longest);
    }
  }

  void look() {
    const std::vector<pid_t> processes = with_descendants(root_);
    for (const pid_t process : processes) {
      unreadable_counters unreadable; // ignored here, because only `farcall top` reports unreadable
                                      // counters
      std::vector<counted_process> found;
      add_counters_of(process, found, unreadable);
      for (const counted_process& counted : found) {
        try {
          look_at(counted, processes);
        } catch (const error&) {
          // Damaged, or being written.
        }
      }
    }
  }

  void look_at(const counted_process& counted, const std::vector<pid_t>& local) {
    const process_counters counts = counted.counters->read();
    if (counts.node != host_id) return;
    for (const process_counters::peer& peer : counts.peers) {
      if (peer.server.empty() || !known_.insert({counted.file, peer.node}).second) continue;
      const auto process = static_cast<pid_t>(peer.process);
      nodes_here_[counted.process] = host_id;
      const bool is_sampled = peer.machine == own_machine() &&
                              std::find(local.begin(), local.end(), process) != local.end();
      if (is_sampled) {
        nodes_here_[process] = peer.node;
        continue;
      }
      sample_at(peer.server, counted,
                {peer.node, process, peer.machine == own_machine() ? "" : peer.machine});
    }
  }

  /// Starts sampling a target with the sampler of its server. If this process must not use the
  /// server, records the reason as a problem.
  void sample_at(const std::string& server, const counted_process& host,
                 const remote_target& target) {
    const auto latest = latest_.find(server);
    if (latest != latest_.end() && latest->second->add(target)) return;
    // There is no working connection to the server: either this is its first target, or its sampler
    // has failed, for instance because the server was restarted.
    if (!is_own(host)) {
      tell_once(fmt::format("what process {} has started at servers is not sampled: it is another "
                            "user's, and they would get the rights of this one; run farcall prof "
                            "as that user",
                            host.process));
      return;
    }
    if (samplers_.size() == max_servers) {
      tell_once(fmt::format("targets at more than {} servers are not sampled", max_servers));
      return;
    }
    try {
      // Check that the server's name from the counters is a plain address. It becomes the beginning
      // of an address with options, so other text could add options.
      (void)tcp::parse_server_address(server, "the server");
      samplers_.push_back(
          std::make_unique<remote_sampler>(server, options_like(host.process), options_, timeout_));
      latest_[server] = samplers_.back().get();
      (void)samplers_.back()->add(target);
    } catch (const setting_error& e) {
      tell_once(
          fmt::format("process {} has targets that are not sampled: {}", host.process, e.what()));
    } catch (const std::system_error& e) {
      tell_once(fmt::format("some targets at servers are not sampled: {}", e.what()));
    }
  }

  /// True if the host's process has the same user as this process. Servers of other users' hosts
  /// are not used, because the sampler at such a server could make this process execute any code.
  /// Reads the user id from the status of the host's process. The owner of the process's folder in
  /// /proc may be root instead, if the process has changed its user.
  static bool is_own(const counted_process& host) {
    return host.owner == geteuid() &&
           value_in_file(fmt::format("/proc/{}/status", host.process), "Uid") == geteuid();
  }

  void tell_once(std::string line) {
    if (std::find(problems_.begin(), problems_.end(), line) == problems_.end() &&
        problems_.size() < max_problems)
      problems_.push_back(std::move(line));
  }

  const pid_t root_;
  const sampler_options options_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  // Until the thread has ended, only the thread may use this member and the following ones.
  std::vector<std::string> problems_;
  std::set<std::pair<ino_t, node_id>> known_;
  /// Node numbers that are known only from the counters, by process id.
  std::map<pid_t, node_id> nodes_here_;
  std::vector<std::unique_ptr<remote_sampler>> samplers_;
  std::map<std::string, remote_sampler*> latest_; ///< by server
  library_thread thread_;
};

remote_samplers::remote_samplers(pid_t root, const sampler_options& options,
                                 std::chrono::milliseconds timeout)
    : impl_(std::make_unique<impl>(root, options, timeout)) {}

remote_samplers::~remote_samplers() = default;

void remote_samplers::stop() { impl_->stop(); }

void remote_samplers::add_to(profile& into, std::uint64_t start,
                             const lookup_progress& tell) const {
  impl_->add_to(into, start, tell);
}

} // namespace farcall::tool
