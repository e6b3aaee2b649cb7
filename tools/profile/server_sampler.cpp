#include "server_sampler.hpp"

#include "elf_file.hpp"
#include "process_sampler.hpp"
#include "processes.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/unique_fd.hpp>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace farcall::tool::server_sampler {

namespace {

constexpr unsigned most_samples_per_second = 10'000;
/// So that a part is no large message.
constexpr std::size_t most_in_part = 100'000;

/// A thread that samples: with ptrace it has to be the same all the time, and the rings of
/// perf_event_open are to be read whether or not somebody asks.
class sampling_thread {
 public:
  explicit sampling_thread(const sampler_options& options)
      : options_(options), wake_(eventfd(0, EFD_CLOEXEC)), thread_([this] { run(); }) {}
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

  /// What has been sampled is complete then.
  void end() {
    {
      const std::lock_guard guard(mutex_);
      is_over_ = true;
    }
    wake();
    if (thread_.joinable()) thread_.join();
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
    // What refers to others goes behind them, and is never told before them.
    copy(all.runs, is_over ? 0 : has.runs, all.runs.size(), part.samples.runs);
    copy(all.threads, is_over ? 0 : has.threads, all.threads.size(), part.samples.threads);
    copy(all.places, has.places, most_in_part, part.samples.places);
    if (part.is_last) copy(all.stacks, has.stacks, most_in_part, part.samples.stacks);
    if (part.is_last) copy(all.samples, has.samples, most_in_part, part.samples.samples);
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
      // More may be added meanwhile.
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
  std::mutex mutex_; ///< of all below
  recording recorded_;
  modules files_;
  std::deque<request> requests_;
  bool is_over_ = false;
  std::thread thread_;
};

std::mutex mutex_of_thread;
/// Ends with the process.
sampling_thread* the_thread = nullptr;

sampling_thread& thread_with(const sampler_options& options) {
  const std::lock_guard guard(mutex_of_thread);
  if (the_thread == nullptr) the_thread = new sampling_thread(options);
  return *the_thread;
}

} // namespace

std::string sample(std::int64_t process, const sampler_options& options) {
  if (options.samples_per_second == 0 || options.samples_per_second > most_samples_per_second ||
      options.stacks < call_graph::none || options.stacks > call_graph::dwarf)
    throw failed_run("there are no such options of a sampler");
  const std::vector<pid_t> of_server = with_descendants(getppid());
  // Not the server itself, with what it starts later.
  if (std::find(of_server.begin() + 1, of_server.end(), process) == of_server.end())
    throw failed_run(fmt::format("process {} is none that the server has started", process));
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
