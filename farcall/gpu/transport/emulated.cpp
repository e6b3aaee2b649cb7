// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/library_thread.hpp>
#include <farcall/base/line_aligned_memory.hpp>
#include <farcall/gpu/transport/emulated.hpp>
#include <farcall/memory/copy.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

namespace farcall::cuda {
namespace {

using std::chrono::microseconds;

constexpr const char* unknown_exception = "something was thrown that is no std::exception";

/// Zeroed memory whose pages are allocated at their first use.
class anonymous_memory {
 public:
  explicit anonymous_memory(std::uint64_t bytes) : bytes_(bytes) {
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
      throw_system_error("memory of an emulated device, " + std::to_string(bytes) + " bytes",
                         errno);
    }
    start_ = static_cast<std::byte*>(at);
  }
  anonymous_memory(anonymous_memory&& other) noexcept
      : start_(std::exchange(other.start_, nullptr)), bytes_(other.bytes_) {}
  anonymous_memory(const anonymous_memory&) = delete;
  anonymous_memory& operator=(anonymous_memory&&) = delete;
  ~anonymous_memory() {
    if (start_ != nullptr) ::munmap(start_, bytes_);
  }
  [[nodiscard]] std::byte* data() const noexcept { return start_; }

 private:
  std::byte* start_ = nullptr;
  std::uint64_t bytes_;
};

/// Returns the processors that the threads of an emulated device may use.
cpu_set_t processors_of(const emulated_options& o) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    throw_system_error("asking for this process' processors", errno);
  if (!o.cpu) return allowed;
  cpu_set_t one;
  CPU_ZERO(&one);
  if (*o.cpu < CPU_SETSIZE) CPU_SET(*o.cpu, &one);
  // Try to use the processor, because the affinity of this thread does not show which other
  // processors are allowed.
  if (::sched_setaffinity(0, sizeof one, &one) != 0) {
    throw error("this process may not use processor " + std::to_string(*o.cpu) +
                ", which cpu= names");
  }
  (void)::sched_setaffinity(0, sizeof allowed, &allowed);
  return one;
}

bool take_one(std::atomic<int>& count) noexcept {
  int left = count.load();
  while (left > 0 && !count.compare_exchange_weak(left, left - 1)) {
  }
  return left > 0;
}

/// A stream that runs launches one after the other. It has a thread, which starts at the first
/// launch.
class emulated_stream {
 public:
  emulated_stream() = default;
  emulated_stream(const emulated_stream&) = delete;
  emulated_stream& operator=(const emulated_stream&) = delete;
  ~emulated_stream() {
    {
      const std::lock_guard guard(mutex_);
      is_ending_ = true;
      changed_.notify_one();
    }
    if (thread_.is_joinable()) thread_.join();
  }

  /// Adds a launch, which starts after a pause of `delay`. An emulated trap ends the stream, and
  /// calls `failed` once with the trap's text.
  void add(launcher run, const launch_plan& plan, microseconds delay,
           std::function<void(const char*)> failed) {
    const std::lock_guard guard(mutex_);
    failed_ = std::move(failed);
    waiting_.push_back({run, plan, delay, {plan.arguments, plan.arguments + plan.bytes}});
    left_.fetch_add(1);
    changed_.notify_one();
    if (!thread_.is_joinable()) thread_ = library_thread("farcall-device", [this] { work(); });
  }

  /// True while there are launches that have not ended. Launches that have not begun count, because
  /// they will still begin, and may never end.
  [[nodiscard]] bool has_launches() const noexcept { return left_ != 0; }

 private:
  struct waiting {
    launcher run;
    launch_plan plan;
    microseconds delay;
    std::vector<std::byte> arguments;
  };

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      waiting next = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      next.plan.arguments = next.arguments.data();
      if (next.delay != microseconds{0}) std::this_thread::sleep_for(next.delay);
      try {
        (void)next.run(next.plan);
      } catch (const emulated_fault& fault) {
        end_by(fault.what);
        return;
      } catch (const std::exception& e) {
        end_by(exception_text(e));
        return;
      } catch (...) {
        end_by(unknown_exception);
        return;
      }
      left_.fetch_sub(1);
      lock.lock();
    }
  }

  void end_by(const char* fault) {
    left_ = 0;
    failed_(fault);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<waiting> waiting_;
  std::function<void(const char*)> failed_;
  bool is_ending_ = false;
  std::atomic<std::size_t> left_{0}; ///< number of launches that have not ended
  library_thread thread_;
};

/// State that the threads of all workers use. The threads and the device own it together, because
/// threads may still run after the device was given up.
class emulation {
 public:
  explicit emulation(const emulated_options& o)
      : options(o), processors(processors_of(o)),
        faults(o.faults ? o.faults : std::make_shared<emulated_faults>()) {
    for (std::uint32_t i = 0; i < o.workers; ++i)
      workers.push_back(std::make_unique<worker>(o));
  }

  struct worker {
    explicit worker(const emulated_options& o)
        : state(make_line_aligned(o.executor.state_bytes)), meeting(o.threads), threads(o.threads) {
    }
    line_aligned_memory state;
    barrier meeting;
    worker_setup setup{};
    std::vector<library_thread> threads;
  };

  void run(worker& w, std::uint32_t rank) {
    // Set the affinity explicitly, because the thread has inherited the affinity of the thread that
    // started it.
    (void)::pthread_setaffinity_np(::pthread_self(), sizeof processors, &processors);
    if (const auto delay = faults->start_delay_us.load(); delay != 0)
      std::this_thread::sleep_for(microseconds(delay));
    thread_team team(w.meeting, w.state.get(), w.setup.node, rank, options.threads,
                     &faults->is_scattering);
    thread_team::set_current(&team);
    try {
      options.executor.run(team, w.setup, w.state.get());
    } catch (const emulated_fault& fault) {
      fail(fault.what);
      w.meeting.break_up();
    } catch (const std::exception& e) {
      // Treat the exception like a trap, because GPUs have no exceptions, and would trap here.
      fail(e.what());
      w.meeting.break_up();
    } catch (...) {
      fail(unknown_exception);
      w.meeting.break_up();
    }
    running.fetch_sub(1);
  }

  void fail(const char* why) {
    const std::lock_guard guard(failure_mutex);
    if (!failure) failure = why;
  }

  emulated_options options;
  cpu_set_t processors;
  std::shared_ptr<emulated_faults> faults;
  std::vector<anonymous_memory> memory;
  std::vector<std::unique_ptr<std::vector<std::uint64_t>>> uploads;
  std::vector<std::unique_ptr<worker>> workers;
  std::array<emulated_stream, launch_streams> streams;
  std::atomic<std::uint32_t> running{0}; ///< number of threads
  std::mutex failure_mutex;
  std::optional<std::string> failure;
};

/// Keeps the emulation until the process ends. Needed if a launch has not ended, because the
/// threads of its streams use the emulation, and a launch may never end.
void keep_for_ever(const std::shared_ptr<emulation>& it) {
  static std::mutex mutex;
  static auto* const all = new std::vector<std::shared_ptr<emulation>>;
  const std::lock_guard guard(mutex);
  all->push_back(it);
}

class emulated_device final : public device_api {
 public:
  explicit emulated_device(const emulated_options& o) : it_(std::make_shared<emulation>(o)) {}

  ~emulated_device() override {
    for (std::uint32_t i = 0; i < it_->workers.size(); ++i)
      join(i);
  }

  device_description describe() const override {
    device_description d;
    d.name = "threads of this machine";
    d.architecture = "emulated";
    d.memory_bytes = it_->options.memory_bytes;
    d.processors = it_->options.workers;
    return d;
  }

  std::byte* share(std::uint64_t bytes) override { return it_->memory.emplace_back(bytes).data(); }

  const std::uint64_t* upload(std::span<const std::uint64_t> numbers) override {
    return it_->uploads
        .emplace_back(std::make_unique<std::vector<std::uint64_t>>(numbers.begin(), numbers.end()))
        ->data();
  }

  range reserve(std::uint64_t at_most) override {
    const std::uint64_t all = it_->options.memory_bytes;
    const std::uint64_t bytes = at_most == 0 ? all : std::min(at_most, all);
    return {reinterpret_cast<std::uintptr_t>(it_->memory.emplace_back(bytes).data()), bytes};
  }

  void provide(std::uint64_t /*address*/, std::uint64_t /*bytes*/) override {}

  void start(std::uint32_t index, const worker_setup& setup) override {
    if (take_one(it_->faults->starts_that_fail)) {
      throw error("the worker could not be started (emulated)");
    }
    join(index);
    emulation::worker& w = *it_->workers[index];
    w.setup = setup;
    for (std::uint32_t rank = 0; rank < it_->options.threads; ++rank) {
      it_->running.fetch_add(1);
      try {
        w.threads[rank] =
            library_thread("farcall-device", [it = it_, &w, rank] { it->run(w, rank); });
      } catch (const std::exception& e) {
        it_->running.fetch_sub(1);
        const std::string why = "thread " + std::to_string(rank) +
                                " of a worker could not be started: " + e.what() +
                                " (limits of memory or threads?)";
        it_->fail(why.c_str());
        // Break up the team, because the threads that have started would wait for the thread that
        // could not be started.
        w.meeting.break_up();
        join(index);
        throw error(why);
      }
    }
  }

  std::optional<std::string> failure() override {
    const std::lock_guard guard(it_->failure_mutex);
    return it_->failure;
  }

  std::string activity() override {
    return "threads of workers: " + std::to_string(it_->running.load()) + " run";
  }

  void join(std::uint32_t index) override {
    for (library_thread& t : it_->workers[index]->threads)
      t.join();
  }

  void abandon() noexcept override {
    // Wait a little for the workers' threads, because after a fault in one thread the other threads
    // of its team are about to end.
    const time_point deadline = clock::now() + std::chrono::milliseconds(100);
    while (it_->running.load() != 0 && clock::now() < deadline)
      std::this_thread::yield();
    if (it_->running.load() != 0) {
      for (const auto& w : it_->workers) {
        for (library_thread& t : w->threads)
          t.release();
      }
    }
    const auto& streams = it_->streams;
    const bool is_launch_left =
        std::any_of(streams.begin(), streams.end(), [](const auto& s) { return s.has_launches(); });
    if (is_launch_left) keep_for_ever(it_);
  }

  void launch(std::uint32_t stream, launcher run, const launch_plan& plan) override {
    if (plan.handle != 0) throw error("an emulated device knows no stream or event of CUDA");
    if (plan.kind == launch_kind::event_wait) {
      store_release(plan.gate, plan.gate_value);
      return;
    }
    constexpr std::uint32_t max_threads = 1024; // of a block
    if (plan.kind == launch_kind::kernel &&
        (plan.shape.blocks == 0 || plan.shape.threads == 0 || plan.shape.threads > max_threads))
      throw error("a grid has 1 block or more, each of 1 to 1024 threads, not " +
                  std::to_string(plan.shape.blocks) + " of " + std::to_string(plan.shape.threads));
    const microseconds delay{stream % 2 == 0 ? it_->faults->launch_delay_us.load() : 0};
    it_->streams[stream].add(run, plan, delay,
                             [it = it_.get()](const char* why) { it->fail(why); });
  }
  void* stream(std::uint32_t /*index*/) override { return nullptr; }

  /// Copies of at least this size use copy(), and shorter ones use messages, so that both ways are
  /// used as on a GPU. On an emulated device, messages are never faster.
  std::uint64_t copies_from() const noexcept override { return 65; }
  void copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) override {
    if (const auto delay = it_->faults->copy_delay_us.load(); delay != 0)
      std::this_thread::sleep_for(microseconds(delay));
    if (take_one(it_->faults->copies_that_fail)) throw error("a copy has failed (emulated)");
    copy_bytes(reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from), bytes);
  }

 private:
  std::shared_ptr<emulation> it_;
};

} // namespace

std::unique_ptr<device_api> make_emulated_device(const emulated_options& o) {
  return std::make_unique<emulated_device>(o);
}

} // namespace farcall::cuda
