// SPDX-License-Identifier: Apache-2.0

// Makes rounds of calls or copies of one kind. count_instructions.py counts the instructions of
// make() and take_results(), or of the target that serves them.
//
// Run as: farcall_counted_calls <kind> <rounds> [<command that starts the target>...]

#include <farcall/farcall.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>
#include <thread>

namespace {

using farcall::async;
using farcall::future;
using farcall::node;

constexpr std::size_t window = 256; ///< calls or copies of a round, except single calls

void empty() {}
int negated(int v) { return -v; }
double added(double a, double b) { return a + b; }
void take(int /*value*/) {}
void count_round(farcall::remote_span<int> rounds) { std::atomic_ref(*rounds.data()).fetch_add(1); }

/// Number of rounds that the target has served, in memory of the target.
class served_rounds {
 public:
  explicit served_rounds(const node& target)
      : there_(target.allocate<int>(1)), here_(farcall::map(there_)) {
    farcall::put_sync(std::array{0}, there_);
  }

  /// Waits until the target has served all requests so far. Then all replies are there, too,
  /// because the target's only worker replies to a request before it serves the next one. Takes no
  /// reply in, so that take_results() finds all of them.
  void wait(const node& target) {
    farcall::post(target, count_round, there_.span());
    ++rounds_;
    while (std::atomic_ref(here_[0]).load() != rounds_)
      std::this_thread::yield();
  }

 private:
  farcall::buffer<int> there_;
  std::span<int> here_;
  int rounds_ = 0;
};

/// Calls or copies of one kind. make() and take_results() are counted.
struct kind {
  kind() = default;
  kind(const kind&) = delete;
  kind& operator=(const kind&) = delete;
  virtual ~kind() = default;

  virtual void make(const node& target) = 0;
  /// Takes the results. Returns false if one is wrong.
  virtual bool take_results() { return true; }
};

/// Rounds of `Count` calls, each made by `Call`.
template <std::size_t Count, class Call, class Result>
class calls_of final : public kind {
 public:
  calls_of(Call call, Result expected) : call_(call), expected_(expected) {}
  void make(const node& target) override {
    for (auto& f : futures_)
      f = call_(target);
  }
  bool take_results() override {
    bool is_right = true;
    for (auto& f : futures_)
      is_right &= f.get() == expected_;
    return is_right;
  }

 private:
  Call call_;
  Result expected_;
  std::array<future<Result>, Count> futures_;
};

template <class Call>
class calls_of<1, Call, void> final : public kind {
 public:
  explicit calls_of(Call call) : call_(call) {}
  void make(const node& target) override { future_ = call_(target); }
  bool take_results() override {
    future_.get();
    return true;
  }

 private:
  Call call_;
  future<void> future_;
};

template <std::size_t Count, class Result, class Call>
std::unique_ptr<kind> calls_like(Call call, Result expected) {
  return std::make_unique<calls_of<Count, Call, Result>>(call, expected);
}
template <class Call>
std::unique_ptr<kind> calls_like(Call call) {
  return std::make_unique<calls_of<1, Call, void>>(call);
}

class posts final : public kind {
 public:
  void make(const node& target) override {
    for (std::size_t i = 0; i < window; ++i)
      farcall::post(target, take, 1);
  }
};

/// Copies of 64 bytes to or from memory of the target.
class copies final : public kind {
 public:
  copies(const node& target, bool is_put)
      : there_(target.allocate<std::byte>(bytes_.size())), is_put_(is_put) {
    farcall::put_sync(std::span<const std::byte>(bytes_), there_);
  }
  void make(const node& /*target*/) override {
    for (std::size_t i = 0; i < window; ++i) {
      if (is_put_) {
        farcall::put_sync(std::span<const std::byte>(bytes_), there_);
      } else {
        farcall::get_sync(there_, std::span<std::byte>(bytes_));
      }
    }
  }

 private:
  std::array<std::byte, 64> bytes_{};
  farcall::buffer<std::byte> there_;
  bool is_put_;
};

std::unique_ptr<kind> make_kind(std::string_view name, const node& target) {
  if (name == "call") return calls_like([](const node& n) { return async(n, empty); });
  if (name == "fn") return calls_like([](const node& n) { return async(n, farcall::fn<&empty>); });
  if (name == "doubles")
    return calls_like<1>([](const node& n) { return async(n, added, 1.0, 2.0); }, 3.0);
  if (name == "window")
    return calls_like<window>([](const node& n) { return async(n, negated, 7); }, -7);
  if (name == "post") return std::make_unique<posts>();
  if (name == "put" || name == "get") return std::make_unique<copies>(target, name == "put");
  std::fprintf(stderr, "farcall_counted_calls: no kind '%.*s'\n", static_cast<int>(name.size()),
               name.data());
  std::exit(2);
}

} // namespace

// Callgrind finds these functions by their names.
extern "C" {

[[gnu::noinline]] void make_counted(kind& calls, const node& target) { calls.make(target); }

[[gnu::noinline]] bool take_counted(kind& calls) { return calls.take_results(); }
}

int main(int argc, char** argv) {
  farcall::serve_if_target();
  if (argc < 3) return 2;
  farcall::job_options options;
  options.targets = "shm";
  // Under valgrind, /proc/self/exe is valgrind and not this program.
  const bool counts_target = argc > 3;
  options.arguments.assign(argv + (counts_target ? 3 : 0), argv + (counts_target ? argc : 1));
  options.program = options.arguments.front();
  options.start_timeout = std::chrono::minutes(2);
  const farcall::job job(options);
  const node target = job.targets()[0];

  const std::unique_ptr<kind> calls = make_kind(argv[1], target);
  served_rounds served(target);
  for (int left = std::atoi(argv[2]); left > 0; --left) {
    make_counted(*calls, target);
    // If the target is counted, send no other requests.
    if (!counts_target) served.wait(target);
    if (!take_counted(*calls)) {
      std::fprintf(stderr, "farcall_counted_calls: a result is wrong\n");
      return 1;
    }
  }
  return 0;
}
