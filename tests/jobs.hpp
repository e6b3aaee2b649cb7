// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/async/call.hpp>
#include <farcall/copy/transfer.hpp>
#include <farcall/job/membership_options.hpp>
#include <farcall/offload/job.hpp>
#include <tests/stop_process.hpp>
#include <tests/support.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <typeinfo>
#include <utility>
#include <vector>

#include <sys/types.h>

/// Fixtures and helpers of tests that need a running job.
namespace farcall::test {

inline job_options with_targets(const std::string& targets) {
  job_options options;
  options.targets = targets;
  return options;
}

/// Lets the jobs that are made have few places for nodes while the object exists, so that places
/// are given again after few restarts.
class few_places {
 public:
  explicit few_places(std::size_t places) { places_of_new_jobs = places; }
  few_places(const few_places&) = delete;
  few_places& operator=(const few_places&) = delete;
  ~few_places() { places_of_new_jobs = max_node_places; }
};

inline node_id own_number() { return this_node().id(); }
inline node_id ask_number_of(node_id other) { return sync(node_at(other), fn<&own_number>); }

/// Returns the text of the error with which a call to that node ends, or an empty text.
inline std::string failure_of_call_to(node_id other) {
  try {
    (void)ask_number_of(other);
  } catch (const node_failed& e) {
    return std::string("node_failed: ") + e.what();
  } catch (const error& e) {
    return std::string("error: ") + e.what();
  }
  return "";
}

inline std::vector<node_id> numbers_of(const std::vector<node>& nodes) {
  std::vector<node_id> numbers;
  for (const node& n : nodes)
    numbers.push_back(n.id());
  return numbers;
}

inline pid_t pid_of(const node& n) { return static_cast<pid_t>(n.description().pid); }

/// Kills the process of a target, and waits until the job knows that.
inline void kill_target(const node& target) {
  ::kill(pid_of(target), SIGKILL);
  ASSERT_TRUE(eventually([&] { return !target.alive(); }));
}

/// A fixture with a job of its own; `target_` is its first target.
class job_test : public ::testing::Test {
 protected:
  explicit job_test(const std::string& targets = "shm") : job_test(with_targets(targets)) {}
  explicit job_test(const job_options& options) : job_(options), target_(job_.targets().front()) {}

  job job_;
  node target_;
};

/// A fixture with four targets.
class four_targets_test : public job_test {
 protected:
  four_targets_test() : job_test("shm:4") {}
};

/// A fixture with two targets.
class two_targets_test : public job_test {
 protected:
  two_targets_test() : job_test("shm:2"), other_(job_.targets().at(1)) {}

  node other_;
};

/// Stops a target's process as long as this object lives, so that the target sends nothing.
class stopped_target {
 public:
  explicit stopped_target(const node& target) : pid_(pid_of(target)) { stop_process(pid_); }
  stopped_target(const stopped_target&) = delete;
  stopped_target& operator=(const stopped_target&) = delete;
  ~stopped_target() { resume(); }

  void resume() { ::kill(pid_, SIGCONT); }

 private:
  pid_t pid_;
};

/// Runs `f` on a thread of its own. Returns false if `f` takes longer than wait_limit; `unblock`
/// must then end it.
template <class F, class U>
[[nodiscard]] bool ends(F f, U unblock) {
  std::atomic<bool> is_done{false};
  std::thread runs([&] {
    f();
    is_done.store(true, std::memory_order_release);
  });
  const bool in_time = eventually([&] { return is_done.load(std::memory_order_acquire); });
  if (!in_time) unblock();
  runs.join();
  return in_time;
}

/// Runs `f`, which must throw an E, and returns a copy of the exception.
template <class E, class F>
std::optional<E> thrown_by(F&& f) {
  try {
    std::forward<F>(f)();
  } catch (const E& e) {
    return e;
  } catch (const std::exception& e) {
    ADD_FAILURE() << "threw " << typeid(e).name() << " instead: " << e.what();
    return std::nullopt;
  }
  ADD_FAILURE() << "threw nothing";
  return std::nullopt;
}

/// Returns the text of the E that `f` throws. If `f` throws none, the test fails and the text is
/// empty.
template <class E, class F>
std::string text_thrown_by(F&& f) {
  const std::optional<E> e = thrown_by<E>(std::forward<F>(f));
  return e ? e->what() : "";
}

/// Words in memory that nodes share. Handlers set these words and wait for them, so that the order
/// of the handlers never depends on time.
class handshake {
 public:
  using words = remote_span<std::uint32_t>;

  explicit handshake(const node& where, std::size_t count = 16)
      : memory_(where.allocate<std::uint32_t>(count)), here_(map(memory_)) {
    for (std::uint32_t& word : here_)
      word = 0;
  }

  [[nodiscard]] words span() const { return memory_.span(); }
  void set(std::size_t i, std::uint32_t value = 1) { set(here_, i, value); }
  [[nodiscard]] std::uint32_t get(std::size_t i) { return get(here_, i); }
  [[nodiscard]] bool wait(std::size_t i, std::uint32_t value = 1) { return wait(here_, i, value); }

  static void set(std::span<std::uint32_t> all, std::size_t i, std::uint32_t value) {
    std::atomic_ref(all[i]).store(value, std::memory_order_release);
  }
  static std::uint32_t get(std::span<std::uint32_t> all, std::size_t i) {
    return std::atomic_ref(all[i]).load(std::memory_order_acquire);
  }
  static std::uint32_t add(std::span<std::uint32_t> all, std::size_t i) {
    return std::atomic_ref(all[i]).fetch_add(1, std::memory_order_acq_rel) + 1;
  }
  /// Waits until the word is at least `value`. Returns false after wait_limit.
  static bool wait(std::span<std::uint32_t> all, std::size_t i, std::uint32_t value) {
    const auto end = std::chrono::steady_clock::now() + wait_limit;
    while (get(all, i) < value) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }

 private:
  buffer<std::uint32_t> memory_;
  std::span<std::uint32_t> here_;
};

/// Sets an environment variable as long as this object lives; then restores the former value.
class scoped_variable {
 public:
  scoped_variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  scoped_variable(const scoped_variable&) = delete;
  scoped_variable& operator=(const scoped_variable&) = delete;
  ~scoped_variable() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

} // namespace farcall::test
