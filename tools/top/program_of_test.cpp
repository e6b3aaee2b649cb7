// A job that keeps two targets at work until its standard input ends, for top_test.py.

#include <farcall/farcall.hpp>

#include <chrono>
#include <span>
#include <thread>
#include <vector>

#include <poll.h>
#include <unistd.h>

namespace {

int sum(int a, int b) { return a + b; }

/// Handler that takes most of the job's run time, even on a busy machine.
void linger() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

bool has_input_ended() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) != 0;
}

} // namespace

int main(int argc, char** argv) {
  farcall::job_options options;
  options.targets = "shm:2";
  const farcall::job job(argc, argv, options);
  const farcall::node quick = job.targets()[0];
  const farcall::node slow = job.targets()[1];
  const auto there = quick.allocate<char>(1000);
  const std::vector<char> here(1000);
  while (!has_input_ended()) {
    farcall::future<void> lingering = farcall::async(slow, farcall::fn<linger>);
    for (int i = 0; i < 50; ++i)
      (void)farcall::sync(quick, farcall::fn<sum>, 1, i);
    farcall::put(std::span(here), there.span()).get();
    lingering.get();
  }
  return 0;
}
