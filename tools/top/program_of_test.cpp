// A job that keeps two targets at work until its standard input ends, for top_test.py.

#include <farcall/farcall.h>
#include <farcall/farcall.hpp>

#include <chrono>
#include <span>
#include <thread>
#include <vector>

#include <poll.h>
#include <unistd.h>

namespace {

int sum(int a, int b) { return a + b; }

/// Handler that takes most of the job's run time, even on a busy machine. It is called from C.
void linger(fc_reply* /*reply*/, const void* /*bytes*/, size_t /*size*/, void* /*user*/) {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

bool has_input_ended() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) != 0;
}

} // namespace

int main(int argc, char** argv) {
  if (fc_register("linger in C", &linger, nullptr) != FC_OK) return 1;
  farcall::job_options options;
  options.targets = "shm:2";
  const farcall::job job(argc, argv, options);
  const farcall::node quick = job.targets()[0];
  fc_node slow{};
  if (fc_node_at(nullptr, 2, &slow) != FC_OK) return 1;
  const auto there = quick.allocate<char>(1000);
  const std::vector<char> here(1000);
  while (!has_input_ended()) {
    fc_future* lingering = nullptr;
    if (fc_call_async(slow, fc_named("linger in C"), nullptr, 0, &lingering) != FC_OK) return 1;
    for (int i = 0; i < 50; ++i)
      (void)farcall::sync(quick, farcall::fn<sum>, 1, i);
    farcall::put(std::span(here), there.span()).get();
    if (fc_future_wait(lingering, -1) != FC_OK) return 1;
    fc_future_drop(lingering);
  }
  return 0;
}
