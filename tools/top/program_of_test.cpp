// SPDX-License-Identifier: Apache-2.0

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

/// Throws error with the text of the thread's last failure, unless the status is FC_OK.
void require_ok(fc_status status) {
  if (status != FC_OK) throw farcall::error(fc_error_text());
}

bool has_input_ended() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) != 0;
}

} // namespace

int main(int argc, char** argv) {
  require_ok(fc_register("linger in C", &linger, nullptr));
  farcall::job_options options;
  options.targets = "shm:2";
  const farcall::job job(argc, argv, options);
  const farcall::node quick = job.targets()[0];
  fc_node slow{};
  require_ok(fc_node_at(nullptr, 2, &slow));
  const auto there = quick.allocate<char>(1000);
  const std::vector<char> here(1000);
  while (!has_input_ended()) {
    fc_future* lingering = nullptr;
    require_ok(fc_call_async(slow, fc_named("linger in C"), nullptr, 0, &lingering));
    for (int i = 0; i < 50; ++i)
      (void)farcall::sync(quick, farcall::fn<sum>, 1, i);
    farcall::put(std::span(here), there.span()).get();
    const fc_status status = fc_future_wait(lingering, -1);
    fc_future_drop(lingering);
    require_ok(status);
  }
  return 0;
}
