// Rounds of 256 calls whose results are taken when all are there, for count_instructions.py.
//
// Run as: farcall_window_of_calls <rounds>

#include <farcall/farcall.hpp>

#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace {

constexpr int window = 256;

int negated(int v) { return -v; }

} // namespace

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

  std::array<farcall::future<int>, window> calls;
  int sum = 0;
  for (int round = std::atoi(argv[1]); round > 0; --round) {
    for (int i = 0; i < window; ++i)
      calls[static_cast<std::size_t>(i)] = farcall::async(target, negated, i);
    // Not by looking, which would be counted. When it is not long enough, a few more are.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (farcall::future<int>& c : calls)
      sum += c.get();
  }
  return sum % window == 0 ? 0 : 1;
}
