// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

/// A model checker for code with atomics: runs a few threads in every order of their operations,
/// with every value that a load may read, and reports the first execution that goes wrong.
///
/// The threads are fibers of one thread. Each stops before each of its atomic operations, and the
/// explorer chooses the next one to run (a depth-first search; sleep sets leave out orders that
/// differ only in operations that do not affect each other). A location keeps all values that it
/// ever had, and a thread knows the newest value that it has seen of each location: a load may read
/// that value or any newer one. Only release stores, acquire loads, fences and barriers pass this
/// knowledge on, so stores become visible to other threads late and out of order unless the code
/// prevents that.
///
/// The model lacks loads that read a store which comes later in the same execution (load
/// buffering), stores that are ordered before older ones, spurious failures of compare-and-swap,
/// and reordering by compilers. Mutations make up for the last of these: each changes one operation
/// of the checked code, and a test must notice.
namespace farcall::check {

inline constexpr std::size_t max_threads = 4; ///< thread 0 is the scenario itself
inline constexpr std::size_t max_locations = 48;

enum class operation : std::uint8_t {
  load,
  store,
  update,  ///< read-modify-write
  fence,   ///< atomic_thread_fence
  barrier, ///< membarrier: a fence in each thread
  lock,
  try_lock,
  unlock,
  sleep, ///< futex wait, if the word has the value
  wake,  ///< futex wake
  awake, ///< the end of a sleep
  pause, ///< in a polling loop: goes on once the location that was polled last has changed
};

[[nodiscard]] const char* word_of(operation what) noexcept;

/// An operation in the code.
struct site {
  std::source_location where;
  operation what{};
  std::memory_order order{};
  bool is_pointer = false;

  [[nodiscard]] bool operator==(const site& other) const noexcept;
  /// Returns, for example, "commit: store release".
  [[nodiscard]] std::string text() const;
};

/// A change of the checked code at one site.
enum class mutation : std::uint8_t {
  none,
  weaken, ///< the memory order becomes relaxed; a fence or barrier has no effect
  omit,   ///< the operation has no effect; a load reads zero
  repeat, ///< the load of a pointer repeats the value that the thread has used there last
  delay,  ///< the store happens after the thread's next operation
};

[[nodiscard]] const char* word_of(mutation m) noexcept;

struct mutant {
  mutation what = mutation::none;
  site at;
};

struct outcome {
  std::uint64_t executions = 0;
  bool is_complete = false; ///< all executions within the bounds were run, and none was wrong
  std::string wrong;        ///< fault and operations of the first wrong execution, or empty
  std::vector<site> sites;  ///< operations in the code that were executed
};

/// Interface of one execution for a scenario. A scenario is called for each execution: it makes
/// objects, adds threads, runs them by join(), and checks the objects. Threads are numbered from 1;
/// operations of the scenario itself happen before or after all of them.
class execution {
 public:
  /// Adds a thread. `run` must not throw or own memory: a thread that waits for ever is abandoned.
  virtual void thread(std::function<void()> run) = 0;
  /// Calls `f` at once as thread `n`, from 1 on, before the threads run.
  virtual void as(std::size_t n, const std::function<void()>& f) = 0;
  /// Runs the threads. If it returns false, because the execution is wrong or was explored already,
  /// the scenario must return.
  [[nodiscard]] virtual bool join() = 0;
  /// Makes the execution wrong unless `condition`. For threads and the scenario itself.
  virtual void require(bool condition, const char* what) = 0;

 protected:
  ~execution() = default;
};

using scenario = std::function<void(execution&)>;

/// Limits of an exploration.
struct bounds {
  std::uint64_t executions = 2'000'000; ///< most executions
  /// Most preemptions of an execution: switches from a thread that could have gone on.
  unsigned preemptions = UINT_MAX;
  bool leaves_out = true; ///< leaves out orders that cannot differ in results
};

/// Runs all executions of `s` within `limits` until one is wrong.
[[nodiscard]] outcome explore(const scenario& s, const mutant& change = {},
                              const bounds& limits = {});

/// Returns the mutants of all sites of an exploration, except for sites in the tests themselves.
[[nodiscard]] std::vector<mutant> mutants_of(const outcome& correct);

// ---- for the checked code
// ----------------------------------------------------------------

/// True during an execution. Outside, operations only access memory.
[[nodiscard]] bool is_exploring() noexcept;

[[nodiscard]] std::uint64_t atomic_load(const void* at, std::uint64_t in_memory, const site& s);
void atomic_store(const void* at, std::uint64_t in_memory, std::uint64_t value, const site& s);
/// Updates a location and returns the value before. `change` sets the new value, and returns false
/// if there is none.
[[nodiscard]] std::uint64_t
atomic_update(const void* at, std::uint64_t in_memory,
              const std::function<bool(std::uint64_t before, std::uint64_t& after)>& change,
              const site& s);

void fence(const site& s);
void barrier(const site& s);
void lock(const void* mutex, const site& s);
[[nodiscard]] bool try_lock(const void* mutex, const site& s);
void unlock(const void* mutex, const site& s);
void sleep(const void* word, std::uint64_t in_memory, std::uint64_t expected, const site& s);
void wake(const void* word, const site& s);
void pause(const site& s);

/// Access shared memory without atomics. Two accesses, one of them a write, are a data race if
/// neither happens before the other, and make the execution wrong.
void plain_write(void* at, std::uint32_t value);
[[nodiscard]] std::uint32_t plain_read(const void* at);

/// Returns the identity of the running thread, in place of this_thread_mark().
[[nodiscard]] const void* thread_mark() noexcept;

} // namespace farcall::check
