// Rounds of 256 calls whose results are taken when all are there, for count_instructions.py. It
// counts what make_calls() and take_results() execute.
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

/// All replies are there then: the target has one worker, which replies before it goes on. On a
/// thread of its own, since a thread that waits takes in the replies to its calls.
void wait_until_served(const farcall::node& target, int calls) {
  std::thread([&] {
    while (farcall::sync(target, calls_served) != calls) {
    }
  }).join();
}

} // namespace

// Names that callgrind is given.
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
  // Under valgrind the file of this process is another program.
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
