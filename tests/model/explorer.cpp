// SPDX-License-Identifier: Apache-2.0
#include <tests/model/explorer.hpp>
#include <tests/model/memory.hpp>

#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <ucontext.h>

namespace farcall::check {
namespace {

constexpr std::size_t stack_bytes = std::size_t{64} * 1024;
/// Most operations of one execution; an execution with more is taken for an endless loop.
constexpr std::size_t max_steps = 2000;

struct delayed_store {
  int at = nowhere;
  std::uint64_t value = 0;
  site s;
};

struct fiber {
  ucontext_t context{}; ///< used to start the fiber
  std::jmp_buf stopped{};
  std::unique_ptr<std::byte[]> stack = std::make_unique<std::byte[]>(stack_bytes);
  std::function<void()> run;
  bool is_finished = false;
  bool is_woken = false;
  step next;
  int polled = nowhere; ///< the location that it has loaded last
  /// By location: index of the value that it has loaded or stored last.
  std::array<std::uint16_t, max_locations> used{};
  knowledge now;
  knowledge unacquired; ///< from relaxed loads; becomes known at an acquire fence
  knowledge released;   ///< at the last release fence
  delayed_store delayed;
};

/// A point where an execution can go on in several ways.
struct choice {
  bool is_schedule = false;
  unsigned chosen = 0;
  unsigned alternatives = 0;             ///< values that a load may read
  unsigned enabled = 0;                  ///< schedule: threads that can go on, one bit each
  unsigned asleep = 0;                   ///< sleep set: orders with these threads first are known
  unsigned done = 0;                     ///< threads that were explored at this point
  std::array<step, max_threads> steps{}; ///< next operation of each thread
};

struct traced {
  int thread;
  const site* at;
  std::uint64_t value;
};

/// Switches from one fiber, or the scenario, to another that has stopped here before. Makes no
/// system call, unlike swapcontext().
void switch_fibers(std::jmp_buf& from, std::jmp_buf& to) noexcept {
  if (_setjmp(from) == 0) _longjmp(to, 1);
}

constexpr unsigned bit(std::size_t thread) noexcept { return 1U << thread; }

bool is_acquire(std::memory_order o) noexcept {
  return o == std::memory_order_acquire || o == std::memory_order_consume ||
         o == std::memory_order_acq_rel || o == std::memory_order_seq_cst;
}
bool is_release(std::memory_order o) noexcept {
  return o == std::memory_order_release || o == std::memory_order_acq_rel ||
         o == std::memory_order_seq_cst;
}

class explorer final : public execution {
 public:
  explorer(const scenario& s, const mutant& change, const bounds& limits)
      : scenario_(s), change_(change), limits_(limits) {}
  ~explorer() = default;
  explorer(const explorer&) = delete;
  explorer& operator=(const explorer&) = delete;
  explorer(explorer&&) = delete;
  explorer& operator=(explorer&&) = delete;

  outcome run();

  // ---- for scenarios ----

  void thread(std::function<void()> run) override {
    if (threads_ == max_threads) std::abort();
    fibers_[threads_++].run = std::move(run);
  }
  void as(std::size_t n, const std::function<void()>& f) override {
    acting_ = n;
    f();
    acting_ = 0;
  }
  bool join() override;
  void require(bool condition, const char* what) override {
    if (!condition) fail(what);
  }

  // ---- for the checked code ----

  std::uint64_t load(const void* at, std::uint64_t in_memory, const site& s);
  void store(const void* at, std::uint64_t in_memory, std::uint64_t value, const site& s);
  std::uint64_t update(const void* at, std::uint64_t in_memory,
                       const std::function<bool(std::uint64_t, std::uint64_t&)>& change,
                       const site& s);
  void fence(const site& s);
  void barrier(const site& s);
  void lock(const void* mutex, const site& s);
  bool try_lock(const void* mutex, const site& s);
  void unlock(const void* mutex, const site& s);
  void sleep(const void* word, std::uint64_t in_memory, std::uint64_t expected, const site& s);
  void wake(const void* word, const site& s);
  void pause(const site& s);
  void plain_write(void* at, std::uint32_t value);
  std::uint32_t plain_read(const void* at);

  /// Returns the number of the thread as which the code runs.
  [[nodiscard]] std::size_t acting() const noexcept { return running_ != 0 ? running_ : acting_; }

 private:
  fiber& self() noexcept { return fibers_[running_]; }
  location& place(int at) noexcept { return locations_[static_cast<std::size_t>(at)]; }

  void begin();
  bool advance();
  int find(const void* at, std::uint64_t in_memory);
  plain_word& find_plain(const void* at);
  bool is_changed(const site& s, mutation m) const noexcept {
    return change_.what == m && change_.at == s;
  }
  std::memory_order order_of(const site& s) const noexcept {
    return is_changed(s, mutation::weaken) ? std::memory_order_relaxed : s.order;
  }
  void stop_before(const step& next, const site& s);
  void finish_step(std::uint64_t value);
  void put(int at, std::uint64_t value, std::memory_order order, const knowledge* continued);
  void take(int at, std::size_t index, std::memory_order order);
  bool is_enabled(const fiber& f);
  unsigned choose(unsigned alternatives);
  bool choose_thread();
  void start(std::size_t thread);
  void resume(std::size_t thread);
  void fail(const char* what);
  void full_fence(fiber& f);
  [[nodiscard]] std::string trace() const;
  static void entry(unsigned index);

  const scenario& scenario_;
  mutant change_;
  bounds limits_;
  outcome result_;

  // of the current execution
  std::array<fiber, max_threads> fibers_;
  std::size_t threads_ = 1;
  std::size_t running_ = 0; ///< the thread that runs; 0 is the scenario itself
  std::size_t acting_ = 0;
  std::size_t ran_last_ = 0;
  unsigned preemptions_ = 0;
  bool is_joining_ = false;
  bool is_given_up_ = false;
  std::vector<location> locations_;
  std::vector<plain_word> plain_;
  knowledge ordered_; ///< knowledge that seq_cst operations share
  std::vector<traced> trace_;

  // of the search
  std::vector<choice> choices_;
  std::size_t at_choice_ = 0;
  std::size_t last_schedule_ = SIZE_MAX;
};

explorer* current = nullptr;

outcome explorer::run() {
  current = this;
  do {
    begin();
    ++result_.executions;
    scenario_(*this);
    if (!result_.wrong.empty()) break;
  } while (advance() && result_.executions < limits_.executions);
  result_.is_complete = result_.wrong.empty() && choices_.empty();
  current = nullptr;
  return std::move(result_);
}

void explorer::begin() {
  for (fiber& f : fibers_) {
    f.run = nullptr;
    f.is_finished = false;
    f.is_woken = false;
    f.polled = nowhere;
    f.used = {};
    f.now = f.unacquired = f.released = knowledge{};
    f.delayed = {};
  }
  threads_ = 1;
  running_ = acting_ = ran_last_ = 0;
  preemptions_ = 0;
  is_joining_ = is_given_up_ = false;
  locations_.clear();
  plain_.clear();
  ordered_ = {};
  trace_.clear();
  at_choice_ = 0;
  last_schedule_ = SIZE_MAX;
}

/// Moves on to the next sequence of choices; returns false after the last one.
bool explorer::advance() {
  while (!choices_.empty()) {
    choice& c = choices_.back();
    if (!c.is_schedule) {
      if (++c.chosen < c.alternatives) return true;
    } else {
      c.done |= bit(c.chosen);
      if (const unsigned left = c.enabled & ~c.asleep & ~c.done; left != 0) {
        c.chosen = static_cast<unsigned>(__builtin_ctz(left));
        return true;
      }
    }
    choices_.pop_back();
  }
  return false;
}

unsigned explorer::choose(unsigned alternatives) {
  if (alternatives < 2) return 0;
  if (at_choice_ == choices_.size()) {
    choices_.emplace_back();
    choices_.back().alternatives = alternatives;
  }
  return choices_[at_choice_++].chosen;
}

/// Sets running_ to the next thread; returns false if the execution is over or given up.
bool explorer::choose_thread() {
  unsigned enabled = 0;
  bool is_over = true;
  for (std::size_t i = 1; i < threads_; ++i) {
    if (fibers_[i].is_finished) continue;
    is_over = false;
    if (is_enabled(fibers_[i])) enabled |= bit(i);
  }
  if (is_over) return false;
  if (enabled == 0) {
    fail("no thread can go on: all that are left sleep or wait");
    return false;
  }
  const unsigned before_this = bit(ran_last_) & enabled;
  if (preemptions_ == limits_.preemptions && before_this != 0) enabled = before_this;
  if (at_choice_ == choices_.size()) {
    choice c;
    c.is_schedule = true;
    c.enabled = enabled;
    for (std::size_t i = 1; i < threads_; ++i)
      c.steps[i] = fibers_[i].next;
    if (last_schedule_ != SIZE_MAX && limits_.leaves_out) {
      const choice& before = choices_[last_schedule_];
      for (std::size_t i = 1; i < threads_; ++i) {
        if (((before.asleep | before.done) & bit(i)) != 0 &&
            !matters_after(before.steps[i], before.steps[before.chosen])) {
          c.asleep |= bit(i);
        }
      }
    }
    if ((enabled & ~c.asleep) == 0) {
      is_given_up_ = true;
      return false;
    }
    c.chosen = static_cast<unsigned>(__builtin_ctz(enabled & ~c.asleep));
    choices_.push_back(c);
  }
  last_schedule_ = at_choice_;
  running_ = choices_[at_choice_++].chosen;
  if (before_this != 0 && running_ != ran_last_) ++preemptions_;
  ran_last_ = running_;
  return true;
}

void explorer::entry(unsigned index) {
  explorer& e = *current;
  fiber& f = e.fibers_[index];
  f.run();
  if (f.delayed.at != nowhere) e.finish_step(0);
  f.is_finished = true;
  _longjmp(e.fibers_[0].stopped, 1);
}

void explorer::resume(std::size_t thread) {
  running_ = thread;
  switch_fibers(fibers_[0].stopped, fibers_[thread].stopped);
  running_ = 0;
}

/// Runs a thread up to its first operation.
void explorer::start(std::size_t thread) {
  fiber& f = fibers_[thread];
  f.now = fibers_[0].now;
  getcontext(&f.context);
  f.context.uc_stack.ss_sp = f.stack.get();
  f.context.uc_stack.ss_size = stack_bytes;
  f.context.uc_link = nullptr;
  makecontext(&f.context, reinterpret_cast<void (*)()>(&explorer::entry), 1,
              static_cast<unsigned>(thread));
  running_ = thread;
  if (_setjmp(fibers_[0].stopped) == 0) setcontext(&f.context);
  running_ = 0;
}

bool explorer::join() {
  is_joining_ = true;
  for (std::size_t i = 1; i < threads_ && result_.wrong.empty(); ++i)
    start(i);
  while (result_.wrong.empty() && choose_thread())
    resume(running_);
  is_joining_ = false;
  for (std::size_t i = 1; i < threads_; ++i)
    fibers_[0].now.join(fibers_[i].now);
  return result_.wrong.empty() && !is_given_up_;
}

void explorer::fail(const char* what) {
  if (result_.wrong.empty()) result_.wrong = std::string(what) + "\n" + trace();
  // The fiber is abandoned: its stack is not unwound.
  if (running_ != 0) _longjmp(fibers_[0].stopped, 1);
}

std::string explorer::trace() const {
  std::string text;
  for (const traced& t : trace_) {
    text += "  thread " + std::to_string(t.thread) + ": " + t.at->text();
    if (t.at->what == operation::load || t.at->what == operation::store ||
        t.at->what == operation::update) {
      text += " = " + std::to_string(t.value);
    }
    text += '\n';
  }
  return text;
}

bool explorer::is_enabled(const fiber& f) {
  switch (f.next.what) {
  case operation::lock:
    return place(f.next.at).holder == nowhere;
  case operation::awake:
    return f.is_woken;
  case operation::pause: {
    if (f.next.at == nowhere) return true;
    const auto at = static_cast<std::size_t>(f.next.at);
    return f.now.seen[at] + 1U < locations_[at].history.size();
  }
  default:
    return true;
  }
}

int explorer::find(const void* at, std::uint64_t in_memory) {
  for (std::size_t i = 0; i < locations_.size(); ++i) {
    if (locations_[i].at == at) return static_cast<int>(i);
  }
  if (locations_.size() == max_locations) std::abort();
  location l;
  l.at = at;
  l.history.push_back({in_memory, {}});
  locations_.push_back(std::move(l));
  return static_cast<int>(locations_.size() - 1);
}

void explorer::stop_before(const step& next, const site& s) {
  auto known = std::find(result_.sites.begin(), result_.sites.end(), s);
  if (known == result_.sites.end()) {
    result_.sites.reserve(256); // the trace points here
    result_.sites.push_back(s);
    known = result_.sites.end() - 1;
  }
  if (running_ != 0) {
    self().next = next;
    switch_fibers(self().stopped, fibers_[0].stopped);
  }
  if (trace_.size() == max_steps) fail("more operations than an execution should need");
  trace_.push_back({static_cast<int>(running_), &*known, 0});
  ++self().now.clock[running_];
}

/// Ends an operation of the running thread, and then makes the store that was delayed, if any.
void explorer::finish_step(std::uint64_t value) {
  if (!trace_.empty()) trace_.back().value = value;
  if (self().delayed.at == nowhere) return;
  const delayed_store late = std::exchange(self().delayed, {});
  stop_before({operation::store, late.at, true, late.s.order == std::memory_order_seq_cst}, late.s);
  put(late.at, late.value, late.s.order, nullptr);
  trace_.back().value = late.value;
}

/// Appends a value to a location's history.
void explorer::put(int at, std::uint64_t value, std::memory_order order,
                   const knowledge* continued) {
  fiber& f = self();
  location& l = place(at);
  const auto index = static_cast<std::uint16_t>(l.history.size());
  f.now.seen[static_cast<std::size_t>(at)] = index;
  f.used[static_cast<std::size_t>(at)] = index;
  message m{value, is_release(order) ? f.now : f.released};
  if (continued != nullptr) m.carried.join(*continued); // continues a release sequence
  l.history.push_back(std::move(m));
  if (order == std::memory_order_seq_cst) ordered_.seen[static_cast<std::size_t>(at)] = index;
}

/// Has the running thread read value number `index` of a location.
void explorer::take(int at, std::size_t index, std::memory_order order) {
  fiber& f = self();
  const message& m = place(at).history[index];
  f.now.seen[static_cast<std::size_t>(at)] = static_cast<std::uint16_t>(index);
  f.used[static_cast<std::size_t>(at)] = static_cast<std::uint16_t>(index);
  if (is_acquire(order)) {
    f.now.join(m.carried);
  } else {
    f.unacquired.join(m.carried);
  }
}

std::uint64_t explorer::load(const void* at, std::uint64_t in_memory, const site& s) {
  const std::memory_order order = order_of(s);
  const bool is_ordered = order == std::memory_order_seq_cst;
  const int i = find(at, in_memory);
  stop_before({operation::load, i, false, is_ordered}, s);
  fiber& f = self();
  f.polled = i;
  std::uint64_t value = 0;
  if (is_changed(s, mutation::repeat)) {
    value = place(i).history[f.used[static_cast<std::size_t>(i)]].value;
  } else if (!is_changed(s, mutation::omit)) {
    std::uint16_t& seen = f.now.seen[static_cast<std::size_t>(i)];
    if (is_ordered) seen = std::max(seen, ordered_.seen[static_cast<std::size_t>(i)]);
    const std::size_t last = place(i).history.size() - 1;
    const unsigned back = is_joining_ ? choose(static_cast<unsigned>(last - seen + 1)) : 0;
    take(i, last - back, order);
    value = place(i).history[last - back].value;
  }
  finish_step(value);
  return value;
}

void explorer::store(const void* at, std::uint64_t in_memory, std::uint64_t value, const site& s) {
  const std::memory_order order = order_of(s);
  const int i = find(at, in_memory);
  if (is_changed(s, mutation::delay) && running_ != 0) {
    // Delayed stores of two rounds of a loop keep their order.
    if (self().delayed.at != nowhere) finish_step(0);
    self().delayed = {i, value, s};
    return;
  }
  stop_before({operation::store, i, true, order == std::memory_order_seq_cst}, s);
  if (!is_changed(s, mutation::omit)) put(i, value, order, nullptr);
  finish_step(value);
}

std::uint64_t explorer::update(const void* at, std::uint64_t in_memory,
                               const std::function<bool(std::uint64_t, std::uint64_t&)>& change,
                               const site& s) {
  const std::memory_order order = order_of(s);
  const int i = find(at, in_memory);
  stop_before({operation::update, i, true, order == std::memory_order_seq_cst}, s);
  const std::size_t last = place(i).history.size() - 1;
  const std::uint64_t before = place(i).history[last].value;
  std::uint64_t after = before;
  if (!change(before, after)) {
    take(i, last, std::memory_order_relaxed);
  } else if (!is_changed(s, mutation::omit)) {
    take(i, last, order);
    const knowledge continued = place(i).history[last].carried;
    put(i, after, order, &continued);
  }
  finish_step(after);
  return before;
}

void explorer::full_fence(fiber& f) {
  f.now.join(f.unacquired);
  f.now.see(ordered_);
  ordered_.see(f.now);
}

void explorer::fence(const site& s) {
  stop_before({operation::fence, nowhere, false, s.order == std::memory_order_seq_cst}, s);
  if (!is_changed(s, mutation::weaken) && !is_changed(s, mutation::omit)) {
    fiber& f = self();
    if (s.order == std::memory_order_seq_cst) {
      full_fence(f);
    } else if (is_acquire(s.order)) {
      f.now.join(f.unacquired);
    }
    if (is_release(s.order)) f.released = f.now;
  }
  finish_step(0);
}

void explorer::barrier(const site& s) {
  stop_before({operation::barrier, nowhere, true, true}, s);
  if (!is_changed(s, mutation::weaken) && !is_changed(s, mutation::omit)) {
    // All threads see what any of them has seen. In C++ that makes no operation happen before
    // another one, so plain memory is still unordered.
    for (const fiber& f : fibers_)
      ordered_.see(f.now);
    for (fiber& f : fibers_)
      f.now.see(ordered_);
  }
  finish_step(0);
}

void explorer::lock(const void* mutex, const site& s) {
  const int i = find(mutex, 0);
  stop_before({operation::lock, i, true, false}, s);
  place(i).holder = static_cast<int>(running_);
  take(i, place(i).history.size() - 1, std::memory_order_acquire);
  finish_step(0);
}

bool explorer::try_lock(const void* mutex, const site& s) {
  const int i = find(mutex, 0);
  stop_before({operation::try_lock, i, true, false}, s);
  const bool is_free = place(i).holder == nowhere;
  if (is_free) {
    place(i).holder = static_cast<int>(running_);
    take(i, place(i).history.size() - 1, std::memory_order_acquire);
  }
  finish_step(is_free ? 1 : 0);
  return is_free;
}

void explorer::unlock(const void* mutex, const site& s) {
  const int i = find(mutex, 0);
  stop_before({operation::unlock, i, true, false}, s);
  place(i).holder = nowhere;
  put(i, 0, std::memory_order_release, nullptr);
  finish_step(0);
}

void explorer::sleep(const void* word, std::uint64_t in_memory, std::uint64_t expected,
                     const site& s) {
  const int i = find(word, in_memory);
  stop_before({operation::sleep, i, true, false}, s);
  // The kernel compares with the latest value in memory.
  if (place(i).history.back().value != expected || is_changed(s, mutation::omit)) {
    finish_step(0);
    return;
  }
  self().is_woken = false;
  site end = s;
  end.what = operation::awake;
  stop_before({operation::awake, i, true, false}, end);
  finish_step(0);
}

void explorer::wake(const void* word, const site& s) {
  const int i = find(word, 0);
  stop_before({operation::wake, i, true, false}, s);
  if (!is_changed(s, mutation::omit)) {
    for (fiber& f : fibers_) {
      if (f.next.what == operation::awake && f.next.at == i) f.is_woken = true;
    }
  }
  finish_step(0);
}

void explorer::pause(const site& s) {
  const int i = self().polled;
  stop_before({operation::pause, i, false, false}, s);
  // A store becomes visible at some time: without this, a polling thread could read old values for
  // ever.
  if (i != nowhere) {
    self().now.seen[static_cast<std::size_t>(i)] =
        static_cast<std::uint16_t>(place(i).history.size() - 1);
  }
  finish_step(0);
}

plain_word& explorer::find_plain(const void* at) {
  for (plain_word& w : plain_) {
    if (w.at == at) return w;
  }
  return plain_.emplace_back(plain_word{.at = at});
}

void explorer::plain_write(void* at, std::uint32_t value) {
  plain_word& w = find_plain(at);
  knowledge& now = self().now;
  ++now.clock[running_]; // later than earlier releases
  bool is_race = w.written > now.clock[static_cast<std::size_t>(w.writer)];
  for (std::size_t i = 0; i < max_threads; ++i)
    is_race = is_race || w.read[i] > now.clock[i];
  w.writer = static_cast<int>(running_);
  w.written = now.clock[running_];
  std::memcpy(at, &value, sizeof value);
  if (is_race) fail("a data race: plain memory is written while another thread uses it");
}

std::uint32_t explorer::plain_read(const void* at) {
  plain_word& w = find_plain(at);
  knowledge& now = self().now;
  ++now.clock[running_];
  const bool is_race = w.written > now.clock[static_cast<std::size_t>(w.writer)];
  w.read[running_] = now.clock[running_];
  std::uint32_t value = 0;
  std::memcpy(&value, at, sizeof value);
  if (is_race) fail("a data race: plain memory is read while another thread writes it");
  return value;
}

} // namespace

outcome explore(const scenario& s, const mutant& change, const bounds& limits) {
  return std::make_unique<explorer>(s, change, limits)->run();
}

bool is_exploring() noexcept { return current != nullptr; }

std::uint64_t atomic_load(const void* at, std::uint64_t in_memory, const site& s) {
  return current->load(at, in_memory, s);
}
void atomic_store(const void* at, std::uint64_t in_memory, std::uint64_t value, const site& s) {
  current->store(at, in_memory, value, s);
}
std::uint64_t
atomic_update(const void* at, std::uint64_t in_memory,
              const std::function<bool(std::uint64_t before, std::uint64_t& after)>& change,
              const site& s) {
  return current->update(at, in_memory, change, s);
}
void fence(const site& s) { current->fence(s); }
void barrier(const site& s) { current->barrier(s); }
void lock(const void* mutex, const site& s) { current->lock(mutex, s); }
bool try_lock(const void* mutex, const site& s) { return current->try_lock(mutex, s); }
void unlock(const void* mutex, const site& s) { current->unlock(mutex, s); }
void sleep(const void* word, std::uint64_t in_memory, std::uint64_t expected, const site& s) {
  current->sleep(word, in_memory, expected, s);
}
void wake(const void* word, const site& s) { current->wake(word, s); }
void pause(const site& s) { current->pause(s); }
void plain_write(void* at, std::uint32_t value) { current->plain_write(at, value); }
std::uint32_t plain_read(const void* at) { return current->plain_read(at); }

const void* thread_mark() noexcept {
  static const std::array<char, max_threads> marks{};
  return &marks[current == nullptr ? 0 : current->acting()];
}

} // namespace farcall::check
