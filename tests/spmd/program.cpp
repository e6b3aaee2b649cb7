// SPDX-License-Identifier: Apache-2.0
#include <farcall/farcall.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

/// A program that makes a job of equals. The first argument selects the test. Exits with 0 if all
/// checks pass; else prints the check that failed.
namespace farcall::test {
namespace {

using std::chrono::seconds;

/// True if the process exits with other threads, or with a handler on the main thread's stack:
/// LeakSanitizer would report memory that these stacks refer to.
bool ends_at_once = false;

struct program {
  int argc;
  char** argv;
  job_options options{};

  [[nodiscard]] job make() { return job{spmd, argc, argv, options}; }
  [[nodiscard]] std::string argument(int i) const { return i < argc ? argv[i] : ""; }
  /// Returns the node that the second argument chooses to act.
  [[nodiscard]] node_id chosen() const {
    return static_cast<node_id>(std::strtoul(argument(2).c_str(), nullptr, 10));
  }
};

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    const bool holds = (condition);                                                                \
    if (!holds) {                                                                                  \
      std::fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);                         \
      return 9;                                                                                    \
    }                                                                                              \
  } while (false)

void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) < 0) std::abort();
}

node next_of(const job& j) { return j.node_at(static_cast<node_id>((j.rank() + 1) % j.size())); }

/// The main thread, on which all handlers run unless the job has a progress thread.
std::thread::id main_thread;
bool on_main() { return std::this_thread::get_id() == main_thread; }

// ---- jobs without failures ----------------------------------------------------------------------

/// Calls all nodes, over the thread's lane and over another one, and copies to and from them.
int calls(job& j) {
  for (node_id to = 0; to < j.size(); ++to) {
    const node there = j.node_at(to);
    CHECK(sync(there, [] { return this_node().id(); }) == to);
    CHECK(sync(there, on_main));
    const lane own(there);
    CHECK(sync(own, on_main));
    auto b = there.allocate<int>(1000);
    const std::vector<int> sent(1000, static_cast<int>(j.rank()));
    std::vector<int> got(1000);
    put(std::span(sent), b).get();
    get(b, std::span(got)).get();
    CHECK(got == sent);
  }
  return 0;
}

/// Handlers that wait for the node that called them.
int nested(job& j) {
  const node_id self = j.rank();
  const auto there_and_back = [](node_id back) {
    const auto twice = [](node_id by) { return this_node().id() * 100 + by; };
    return sync(node_at(back), twice, this_node().id());
  };
  std::vector<future<node_id>> all;
  for (int i = 0; i < 20; ++i) {
    for (node_id to = 0; to < j.size(); ++to)
      all.push_back(async(j.node_at(to), there_and_back, self));
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    CHECK(all[i].get() == self * 100 + i % j.size());
  return 0;
}

int polled = 0;

int progress(job& j) {
  post(next_of(j), [] { ++polled; });
  while (polled == 0)
    j.poll();
  post(next_of(j), [] { ++polled; });
  CHECK(j.wait_until([] { return polled == 2; }));
  CHECK(!j.wait_until([] { return false; }, std::chrono::milliseconds(1)));
  std::atomic<bool> is_set{false};
  std::thread other([&] {
    is_set = true;
    j.notify();
  });
  CHECK(j.wait_until([&] { return is_set.load(); }));
  other.join();
  try {
    j.wait_until([]() -> bool { throw std::runtime_error("asked"); });
    CHECK(false);
  } catch (const std::runtime_error&) {
  }
  return 0;
}

int synced = 0;

int collectives(job& j) {
  const std::size_t nodes = j.size();
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, std::size_t{1} << 20}) {
    const std::vector<std::byte> mine(bytes, std::byte(j.rank() + 1));
    std::vector<std::byte> all(bytes * nodes);
    j.all_gather(mine, all);
    std::vector<std::byte> expected;
    for (node_id n = 0; n < nodes; ++n)
      expected.insert(expected.end(), bytes, std::byte(n + 1));
    CHECK(all == expected);
    for (node_id root = 0; root < nodes; ++root) {
      std::vector<std::byte> sent(bytes, j.rank() == root ? std::byte(root + 7) : std::byte{0});
      j.broadcast(sent, root);
      CHECK(sent == std::vector<std::byte>(bytes, std::byte(root + 7)));
    }
  }
  const std::vector<node_id> ranks = j.all_gather(j.rank());
  for (node_id i = 0; i < nodes; ++i)
    CHECK(ranks[i] == i);
  // Handlers run in barriers, and no node leaves a barrier before the last has entered it.
  for (int i = 1; i <= 10; ++i) {
    for (node_id to = 0; to < nodes; ++to)
      sync(j.node_at(to), [] { ++synced; });
    j.barrier();
    CHECK(synced == i * static_cast<int>(nodes));
    j.barrier();
  }
  return 0;
}

template <class F>
bool is_refused(const F& what) {
  try {
    what();
  } catch (const error&) {
    return true;
  }
  return false;
}

/// Checks that calls which need another thread, another kind of job or right arguments throw.
int refusals(job& j) {
  static job* the_job = nullptr;
  the_job = &j;
  bool on_thread = false;
  std::thread([&] { on_thread = is_refused([&] { j.barrier(); }); }).join();
  CHECK(on_thread);
  CHECK(is_refused([&] { sync(j.node_at(j.rank()), [] { the_job->barrier(); }); }));
  CHECK(is_refused([&] { sync(j.node_at(j.rank()), [] { the_job->close(); }); }));
  CHECK(is_refused([&] { (void)j.add("shm"); }));
  CHECK(is_refused([&] { (void)j.wait_fd(); }));
  CHECK(is_refused([&] { const job second(spmd); }));
  std::vector<std::byte> one(2);
  CHECK(is_refused([&] { j.all_gather(one, one); }) || j.size() == 1);
  CHECK(is_refused([&] { j.broadcast(one, static_cast<node_id>(j.size())); }));
  return 0;
}

/// Checks that the child of a fork has no part in the job, and may exit.
int forks(job& j) {
  const pid_t child = ::fork();
  ends_at_once = child == 0;
  if (child == 0) std::exit(is_refused([&] { j.progress(); }) ? 0 : 1);
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return 0;
}

int flooded = 0;
constexpr int flood = 1500;

/// Posts more than a ring has space for, three times as much: the sender must serve while it waits.
void flood_next(job& j) {
  const std::string text(100, 'x');
  for (int i = 0; i < flood; ++i)
    post(next_of(j), [](const std::string& t) { flooded += t.size() == 100 ? 1 : 0; }, text);
}

int stepped = 0;
constexpr int steps = 100;

/// Posts the next step to the next node, from a handler.
void step(int left) {
  ++stepped;
  if (left == 0) return;
  const auto to = static_cast<node_id>((this_node().id() + 1) % node_count());
  post(node_at(to), step, left - 1);
}

int works(program p) {
  job j = p.make();
  CHECK(j.rank() < j.size());
  CHECK(this_node().id() == j.rank());
  for (int (*const each)(job&) : {calls, nested, progress, collectives, refusals, forks}) {
    if (const int status = each(j); status != 0) return status;
  }
  j.barrier();
  flood_next(j);
  post(next_of(j), step, steps - 1);
  // close() waits for all posts, including the posts of handlers.
  const int nodes = static_cast<int>(j.size());
  j.close();
  CHECK(flooded == flood);
  CHECK(stepped == steps);
  say("works on " + std::to_string(j.rank()) + " of " + std::to_string(nodes));
  return 0;
}

/// Uses a progress thread, which runs handlers while the main threads do not poll.
int progress_thread(program p) {
  p.options.progress = "thread";
  job j = p.make();
  CHECK(!sync(next_of(j), on_main));
  static std::atomic<int> here{0};
  post(next_of(j), [] { ++here; });
  while (here == 0)
    std::this_thread::yield();
  CHECK(j.wait_until([] { return here == 1; }));
  j.barrier();
  flood_next(j);
  j.close();
  CHECK(flooded == flood);
  say("works on " + std::to_string(j.rank()));
  return 0;
}

int late_work(program p) {
  job j = p.make();
  j.close();
  CHECK(j.rank() < j.size());
  say("after " + std::to_string(j.rank()) + " of " + std::to_string(j.size()));
  return j.rank() == p.chosen() ? 6 : 0;
}

int plain(program p) {
  const job j{p.argc, p.argv};
  return 0;
}

// ---- jobs with failures -------------------------------------------------------------------------

void compute() {
  for (;;)
    std::this_thread::sleep_for(seconds(1));
}

/// The chosen node closes the job while the others are in a barrier.
int closes(program p) {
  job j = p.make();
  try {
    if (j.rank() != p.chosen()) j.barrier();
    j.close();
  } catch (const error& e) {
    say(e.what());
    return 5;
  }
  return 0;
}

/// The chosen node names itself as the root of a broadcast, and the others name the host. If there
/// is no such node, each names itself.
int roots(program p) {
  job j = p.make();
  const bool names_itself = j.rank() == p.chosen() || p.chosen() >= j.size();
  try {
    std::vector<char> bytes(10, static_cast<char>(j.rank() + 1));
    j.broadcast(std::as_writable_bytes(std::span(bytes)), names_itself ? j.rank() : host_id);
    j.close();
    CHECK(bytes[0] == 1);
  } catch (const error& e) {
    say(e.what());
    return 5;
  }
  return 0;
}

[[gnu::noinline]] void stores_at(std::uintptr_t address) {
  *reinterpret_cast<volatile int*>(address) = 1;
}

/// Prints its process id, then stays in a state in which it can be killed: computing, waiting,
/// calling, in a barrier, or closing. The chosen node computes.
int states(program p) {
  job j = p.make();
  say(std::to_string(j.rank()) + " " + std::to_string(::getpid()));
  const std::string state = p.argument(3);
  if (j.rank() == p.chosen() && state == "faulting") stores_at(0x10);
  if (j.rank() == p.chosen() || state == "computing") compute();
  if (state == "waiting") j.wait_until([] { return false; });
  if (state == "calling") sync(j.node_at(p.chosen()), [] {});
  if (state == "barrier") j.barrier();
  return 0;
}

/// A target that never joins the job.
int stuck(program /*p*/) {
  const pid_t host = ::getppid();
  say("stuck");
  while (::getppid() == host)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return 0;
}

/// The chosen node ends in the way of the third argument, while the others wait.
int ends(program p) {
  job j = p.make();
  const std::string way = p.argument(3);
  ends_at_once = true;
  if (j.rank() == p.chosen()) {
    if (way == "exit") std::exit(3);
    if (way == "exit0") std::exit(0);
    if (way == "_exit") ::_exit(3);
    if (way == "abort") std::abort();
    if (way == "kill") ::raise(SIGKILL);
    if (way == "throw") throw std::runtime_error("thrown out of main");
    if (way == "handler") sync(j.node_at(j.rank()), [] { std::exit(3); });
    if (way == "mismatch") j.barrier();
  }
  if (way == "mismatch") (void)j.all_gather(1);
  j.barrier();
  return 0;
}

/// Like ends(), but catches the exception.
int caught(program p) {
  try {
    return ends(p);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "caught: %s\n", e.what());
    return 4;
  }
}

/// The chosen node is killed, and the others go on.
int survive(program p) {
  // Survive ends from the start, or only from a later call on.
  p.options.survive = p.argument(3) != "later";
  job j = p.make();
  if (p.argument(3) == "later") {
    j.survive(true);
    try {
      j.barrier();
    } catch (const node_failed& e) {
      // The chosen node has left the barrier, and was killed, before this node left it.
      CHECK(e.node() == p.chosen());
    }
  }
  if (j.rank() == p.chosen()) ::raise(SIGKILL);
  for (int turn = 0; turn < 2; ++turn) {
    try {
      for (;;)
        j.barrier();
    } catch (const node_failed& e) {
      CHECK(e.node() == p.chosen());
    }
  }
  for (node_id to = 0; to < j.size(); ++to) {
    if (to != p.chosen()) CHECK(sync(j.node_at(to), [] { return this_node().id(); }) == to);
  }
  j.close();
  say("survived");
  return 0;
}

const std::map<std::string, int (*)(program)> modes{
    {"works", works},   {"thread", progress_thread}, {"late", late_work}, {"plain", plain},
    {"states", states}, {"closes", closes},          {"stuck", stuck},    {"ends", ends},
    {"caught", caught}, {"survive", survive},        {"roots", roots}};

} // namespace
} // namespace farcall::test

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): LeakSanitizer's name
extern "C" int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() { return farcall::test::ends_at_once ? 1 : 0; }
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

int main(int argc, char** argv) {
  farcall::test::main_thread = std::this_thread::get_id();
  const auto mode = farcall::test::modes.find(argc > 1 ? argv[1] : "");
  if (mode == farcall::test::modes.end()) return 99;
  return mode->second({argc, argv});
}
