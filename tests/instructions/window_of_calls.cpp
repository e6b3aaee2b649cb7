// Makes rounds of 256 calls, and takes their results when all replies are there.
// count_instructions.py counts the instructions of make_calls() and take_results().
//
// Run as: farcall_window_of_calls <rounds>

#include <farcall/farcall.hpp>

#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace {

using window = std::array<farcall::future<int>, 256>;

int served = 0; // on the target

int negated(int v) {
  ++served;
  return -v;
}

int calls_served() { return served; }

/// Waits until the target has served all calls. Then all replies are there, too: the target's only
/// worker replies to a call before it serves the next one. A thread of its own waits, because a
/// waiting thread takes the replies to its own calls.
void wait_until_served(const farcall::node& target, int calls) {
  std::thread([&] {
    while (farcall::sync(target, calls_served) != calls) {
    }
  }).join();
}

} // namespace

// Callgrind finds these functions by their names.
extern "C" {

[[gnu::noinline]] void make_calls(window& calls, const farcall::node& target) {
  int i = 0;
  for (farcall::future<int>& c : calls)
    c = farcall::async(target, negated, i++);
}

[[gnu::noinline]] int take_results(window& calls) {
  int sum = 0;
  for (farcall::future<int>& c : calls)
    sum += c.get();
  return sum;
}
}

int main(int argc, char** argv) {
  farcall::serve_if_target();
  if (argc != 2) return 2;
  farcall::job_options options;
  options.targets = "shm";
  // Under valgrind, /proc/self/exe is valgrind and not this program.
  options.program = argv[0];
  options.arguments = {argv[0]};
  options.start_timeout = std::chrono::minutes(2);
  const farcall::job job(options);
  const farcall::node target = job.targets()[0];

  window calls;
  int sum = 0;
  const int rounds = std::atoi(argv[1]);
  for (int round = 1; round <= rounds; ++round) {
    make_calls(calls, target);
    wait_until_served(target, round * static_cast<int>(calls.size()));
    sum += take_results(calls);
  }
  constexpr int each = 255 * 256 / 2;
  return sum == -rounds * each ? 0 : 1;
}
