// SPDX-License-Identifier: Apache-2.0

// Frame of programs that measure a library with I/O threads of its own: the program forks a server,
// and the parent makes round trips of 8 bytes. It prints a line about the library, and then
// nanoseconds per round trip for each batch.
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rival_program {

/// Lets this thread, and the threads that it starts, run on the processors of both sides. Threads
/// of a library would otherwise take turns with the caller on one processor.
inline void use_processors(int first, int second) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(first), &set);
  CPU_SET(static_cast<unsigned>(second), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0)
    throw std::runtime_error("cannot bind to the processors");
}

/// Passes the server's address to the parent.
class announcement {
 public:
  announcement() {
    if (pipe(ends_.data()) != 0) throw std::runtime_error("cannot make a pipe");
  }
  void send(const std::string& address) {
    if (write(ends_[1], address.c_str(), address.size() + 1) < 0) _exit(1);
  }
  /// Returns an empty text if the server has ended.
  std::string receive() {
    close(ends_[1]);
    std::string address;
    for (char c = 0; read(ends_[0], &c, 1) == 1 && c != 0;)
      address += c;
    return address;
  }

 private:
  std::array<int, 2> ends_{};
};

/// Runs `serve(over_tcp, announcement)` in a child, which never returns, and prints the time of
/// `Client{address}.round_trip(value)`, which returns the reply's value.
template <class Client, class Serve>
int run(int argc, char** argv, const std::string& library, Serve serve) try {
  if (argc != 7 || (std::strcmp(argv[1], "unix") != 0 && std::strcmp(argv[1], "tcp") != 0)) {
    std::fprintf(stderr, "usage: %s unix|tcp HOST_CPU TARGET_CPU BATCHES WARM_UP CALLS\n", argv[0]);
    return 2;
  }
  const bool over_tcp = std::strcmp(argv[1], "tcp") == 0;
  const long batches = std::atol(argv[4]);
  const long warm_up = std::atol(argv[5]);
  const long calls = std::atol(argv[6]);
  use_processors(std::atoi(argv[2]), std::atoi(argv[3]));

  announcement server;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    try {
      serve(over_tcp, server);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "server: %s\n", e.what());
    }
    _exit(1);
  }
  const std::string address = server.receive();
  if (address.empty()) throw std::runtime_error("the server has not started");
  std::printf("%s\n", library.c_str());
  {
    Client client{address};
    std::uint64_t sent = 0;
    for (long batch = -warm_up; batch < batches; ++batch) {
      const auto start = std::chrono::steady_clock::now();
      for (long i = 0; i < calls; ++i) {
        ++sent;
        if (client.round_trip(sent) != sent) throw std::runtime_error("another value came back");
      }
      const std::chrono::duration<double, std::nano> took =
          std::chrono::steady_clock::now() - start;
      if (batch >= 0) std::printf("%.3f\n", took.count() / static_cast<double>(calls));
    }
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}

} // namespace rival_program
