// SPDX-License-Identifier: Apache-2.0
#include "server_sampler.hpp"

#include "process_sampler.hpp"
#include "processes.hpp"
#include <tools/common/elf_file.hpp>

#include <tools/common/outcome.hpp>

#include <farcall/base/library_thread.hpp>
#include <farcall/base/unique_fd.hpp>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace farcall::tool::server_sampler {

namespace {

constexpr unsigned max_samples_per_second = 10'000;
/// Maximum number of samples in a part. The limit keeps messages small.
constexpr std::size_t max_in_part = 100'000;

/// A thread that samples, and the data that it has recorded. The thread is needed because all calls
/// of ptrace must come from the same thread. It also reads the rings of perf_event_open, which must
/// be emptied even if no caller asks for samples.
class sampling_thread {
 public:
  explicit sampling_thread(const sampler_options& options)
      : options_(options), wake_(eventfd(0, EFD_CLOEXEC)),
        thread_("farcall-tool", [this] { run(); }) {}
  sampling_thread(const sampling_thread&) = delete;
  sampling_thread& operator=(const sampling_thread&) = delete;
  ~sampling_thread() { end(); }

  [[nodiscard]] std::string add(pid_t process) {
    request wanted;
    wanted.process = process;
    std::future<std::string> done = wanted.done.get_future();
    {
      const std::lock_guard guard(mutex_);
      if (is_over_) throw failed_run("the sampling is over");
      requests_.push_back(std::move(wanted));
    }
    wake();
    return done.get();
  }

  /// Ends the sampling. The recorded samples are complete afterwards.
  void end() {
    {
      const std::lock_guard guard(mutex_);
      is_over_ = true;
    }
    wake();
    thread_.join();
  }

  [[nodiscard]] recorded_part part_behind(const recorded_counts& has, bool is_over) {
    if (is_over) end();
    const std::lock_guard guard(mutex_);
    const recorded_samples& all = recorded_.recorded();
    recorded_part part;
    part.is_last = true;
    const auto copy = [&part](const auto& from, std::uint64_t first, std::size_t most, auto& to) {
      const auto at = static_cast<std::size_t>(std::min<std::uint64_t>(first, from.size()));
      const std::size_t number = std::min(from.size() - at, most);
      to.assign(from.begin() + static_cast<std::ptrdiff_t>(at),
                from.begin() + static_cast<std::ptrdiff_t>(at + number));
      part.is_last = part.is_last && at + number == from.size();
    };
    // A stack refers to places, and a sample refers to a stack. So copy stacks only if the part has
    // all remaining places, and samples only if it has all remaining stacks.
    copy(all.runs, is_over ? 0 : has.runs, all.runs.size(), part.samples.runs);
    copy(all.threads, is_over ? 0 : has.threads, all.threads.size(), part.samples.threads);
    copy(all.places, has.places, max_in_part, part.samples.places);
    if (part.is_last) copy(all.stacks, has.stacks, max_in_part, part.samples.stacks);
    if (part.is_last) copy(all.samples, has.samples, max_in_part, part.samples.samples);
    part.samples.lost = all.lost;
    part.samples.was_throttled = all.was_throttled;
    for (std::size_t i = has.files; i < files_.all().size(); ++i) {
      const module_file& file = files_.all()[i];
      part.files.push_back({file.path, elf_file(file.file.get()).build_id()});
    }
    return part;
  }

  [[nodiscard]] std::vector<symbol> symbols_in(std::uint32_t file,
                                               std::span<const std::uint64_t> offsets) {
    module_file looked_in;
    {
      // The lock is needed because the sampling thread may add files to the list. The descriptor is
      // duplicated, so that the lookup needs no lock.
      const std::lock_guard guard(mutex_);
      if (file >= files_.all().size()) throw failed_run("there is no such file");
      const module_file& of = files_.all()[file];
      looked_in = {of.path,
                   of.file ? unique_fd(fcntl(of.file.get(), F_DUPFD_CLOEXEC, 0)) : unique_fd()};
    }
    return symbolize(looked_in, offsets);
  }

 private:
  struct request {
    pid_t process = 0;
    std::promise<std::string> done;
  };

  void wake() const {
    const std::uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof one);
  }

  void run() {
    process_sampler sampler(options_, recorded_, files_);
    for (bool is_over = false; !is_over;) {
      std::vector<pollfd> polled{{wake_.get(), POLLIN, 0}};
      for (const int ring : sampler.readable())
        polled.push_back({ring, POLLIN, 0});
      wait_for(polled, sampler.next_read());
      if (polled[0].revents != 0) {
        std::uint64_t count = 0;
        (void)!::read(wake_.get(), &count, sizeof count);
      }
      const std::lock_guard guard(mutex_);
      for (; !requests_.empty(); requests_.pop_front())
        take_up(sampler, requests_.front());
      sampler.read();
      is_over = is_over_;
      if (is_over) sampler.finish();
    }
  }

  static void take_up(process_sampler& sampler, request& wanted) {
    try {
      if (!sampler.add(wanted.process)) throw failed_run("it has ended");
      wanted.done.set_value(sampler.refusal());
    } catch (...) {
      wanted.done.set_exception(std::current_exception());
    }
  }

  const sampler_options options_;
  unique_fd wake_;
  std::mutex mutex_; ///< guards the members below
  recording recorded_;
  modules files_;
  std::deque<request> requests_;
  bool is_over_ = false;
  library_thread thread_;
};

std::mutex mutex_of_thread;
/// This object is never destroyed, because its thread may run until the process ends.
sampling_thread* the_thread = nullptr;

sampling_thread& thread_with(const sampler_options& options) {
  const std::lock_guard guard(mutex_of_thread);
  if (the_thread == nullptr) the_thread = new sampling_thread(options);
  return *the_thread;
}

} // namespace

std::string sample(std::int64_t process, const sampler_options& options) {
  if (options.samples_per_second == 0 || options.samples_per_second > max_samples_per_second ||
      options.stacks < call_graph::none || options.stacks > call_graph::dwarf)
    throw failed_run("the options are invalid for a sampler");
  const std::vector<pid_t> of_server = with_descendants(getppid());
  // The first of these processes is the server itself. It may not be sampled, because the sampling
  // would include all processes that the server starts later.
  if (std::find(of_server.begin() + 1, of_server.end(), process) == of_server.end())
    throw failed_run(fmt::format("process {} was not started by the server", process));
  return thread_with(options).add(static_cast<pid_t>(process));
}

recorded_part take(const recorded_counts& has, bool is_over) {
  return thread_with({}).part_behind(has, is_over);
}

std::vector<symbol> symbols(std::uint32_t file, std::span<const std::uint64_t> offsets) {
  return thread_with({}).symbols_in(file, offsets);
}

std::uint64_t time() { return record_time(); }

} // namespace farcall::tool::server_sampler
