#pragma once

#include <array>
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
/// explorer chooses who goes on (a depth-first search; sleep sets leave out orders that differ only
/// in operations that do not affect each other). A location keeps all values that it ever had, and
/// a thread knows how far it has seen each location: a load may read any value that is not older.
/// Release stores, acquire loads, fences and barriers pass this knowledge on; nothing else does.
/// So a store of a thread becomes visible to another late, and not in order, unless the code says
/// otherwise.
///
/// What is not modelled: a load that reads a store which comes later in the same execution (load
/// buffering), stores that are put between older ones, compare-and-swap that fails for no reason,
/// and what a compiler does to the order of a thread's own operations. For the last of these, and
/// for the rest of the code, mutations stand in: they change an operation of the code that runs.
namespace farcall::check {

inline constexpr std::size_t most_threads = 4; ///< the scenario's own is number 0
inline constexpr std::size_t most_locations = 48;

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
  pause, ///< in a loop that polls: goes on when what it has polled last has changed
};

[[nodiscard]] const char* word_of(operation what) noexcept;

/// Where in the code an operation is.
struct site {
  std::source_location where;
  operation what{};
  std::memory_order order{};
  bool is_pointer = false;

  [[nodiscard]] bool operator==(const site& other) const noexcept;
  /// "commit: store release".
  [[nodiscard]] std::string text() const;
};

/// What is changed of the code that is checked, at one site.
enum class mutation : std::uint8_t {
  none,
  weaken, ///< its memory order is relaxed; a fence or barrier does nothing
  omit,   ///< it does not happen; a load reads zero
  repeat, ///< the load of a pointer reads what the thread has read or stored there last
  delay,  ///< the store comes after the thread's next operation instead
};

[[nodiscard]] const char* word_of(mutation m) noexcept;

struct mutant {
  mutation what = mutation::none;
  site at;
};

struct outcome {
  std::uint64_t executions = 0;
  bool is_complete = false; ///< all within the bounds have been run, none was wrong
  std::string wrong;        ///< what the first wrong one did; empty when none was
  std::vector<site> sites;  ///< operations that were met
};

/// One execution, as a scenario sees it: it makes the objects, adds threads, runs them, and then
/// checks what has become of the objects. It is called for every execution anew. Threads have the
/// numbers from 1 on; what the scenario itself does happens before them, or after them.
class execution {
 public:
  /// `run` must not leave by an exception, and holds nothing that has to be freed: a thread that
  /// waits for ever is abandoned.
  virtual void thread(std::function<void()> run) = 0;
  /// Does something at once in the name of the thread number `n`, from 1 on, before it runs.
  virtual void as(std::size_t n, const std::function<void()>& f) = 0;
  /// Runs the threads. False when this execution has gone wrong or is known already: the scenario
  /// has to return then.
  [[nodiscard]] virtual bool join() = 0;
  /// By a thread, or the scenario itself: the execution is wrong unless `condition`.
  virtual void require(bool condition, const char* what) = 0;

 protected:
  ~execution() = default;
};

using scenario = std::function<void(execution&)>;

/// How much is explored.
struct bounds {
  std::uint64_t executions = 2'000'000; ///< at most so many
  /// Only those in which a thread that could go on gives way to another at most so often.
  unsigned preemptions = UINT_MAX;
  bool leaves_out = true; ///< orders that differ in nothing
};

/// Runs all executions of `s` within `limits` until one is wrong.
[[nodiscard]] outcome explore(const scenario& s, const mutant& change = {},
                              const bounds& limits = {});

/// The mutants of all sites that an exploration has met, but for those of the tests themselves.
[[nodiscard]] std::vector<mutant> mutants_of(const outcome& correct);

// ---- for the code that is checked
// ----------------------------------------------------------------

/// Is an execution under way? Outside of one, operations do what they say and nothing else.
[[nodiscard]] bool is_exploring() noexcept;

[[nodiscard]] std::uint64_t atomic_load(const void* at, std::uint64_t in_memory, const site& s);
void atomic_store(const void* at, std::uint64_t in_memory, std::uint64_t value, const site& s);
/// `change` says what the new value is, and whether there is one; returns the value before.
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

/// Plain accesses to memory that threads share. One that another thread's access does not happen
/// before, or after, is a data race, and the execution is wrong.
void plain_write(void* at, std::uint32_t value);
[[nodiscard]] std::uint32_t plain_read(const void* at);

/// Identity of the running thread, as this_thread_mark() is outside.
[[nodiscard]] const void* thread_mark() noexcept;

} // namespace farcall::check
