// SPDX-License-Identifier: Apache-2.0
#include "ucx_floor.hpp"

#include <bench/rivals/rivals.hpp>
#include <tools/common/outcome.hpp>

#include <cerrno>
#include <cstdint>
#include <span>
#include <string>

#include <fmt/format.h>

#include <sys/socket.h>

namespace farcall::tool {

namespace {

/// Header of the measuring process's reply; the samples, or the text of a failure, follow.
struct reply_header {
  std::uint64_t samples = 0;
  std::uint64_t text = 0;
};

template <class T>
bool send_all(int fd, std::span<const T> what) {
  auto left = std::as_bytes(what);
  while (!left.empty()) {
    const ssize_t sent = ::send(fd, left.data(), left.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    left = left.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

template <class T>
bool receive_all(int fd, std::span<T> to) {
  return to.empty() || ::recv(fd, to.data(), to.size_bytes(), MSG_WAITALL) ==
                           static_cast<ssize_t>(to.size_bytes());
}

/// Measures on each request, until the requester has gone.
int serve(int fd, const rival_settings& settings) {
  char request = 0;
  while (receive_all(fd, std::span(&request, 1))) {
    const measured m = ucx_rival_as_set().measure(settings);
    const reply_header head{m.samples.size(), m.failure.size()};
    if (!send_all(fd, std::span(&head, 1)) || !send_all(fd, std::span(m.samples)) ||
        !send_all(fd, std::span(m.failure))) {
      break;
    }
  }
  return 0;
}

} // namespace

ucx_floor::ucx_floor(core_pair cores, std::size_t batches, std::size_t calls) : floor_probe(cores) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw failed_run(fmt::format("cannot make a socket pair: {}", reason_text(errno)));
  to_ = unique_fd(ends[0]);
  unique_fd theirs(ends[1]);
  rival_settings settings;
  settings.cores = cores;
  settings.batches = batches;
  settings.calls = calls;
  process_ = std::make_unique<forked_process>([&] {
    to_.reset();
    return serve(theirs.get(), settings);
  });
}

ucx_floor::~ucx_floor() = default;

std::vector<double> ucx_floor::take_samples() {
  const char request = 1;
  reply_header head;
  if (!send_all(to_.get(), std::span(&request, 1)) || !receive_all(to_.get(), std::span(&head, 1)))
    throw failed_run("the process that measures UCX has gone");
  std::vector<double> samples(head.samples);
  std::string failure(head.text, ' ');
  if (!receive_all(to_.get(), std::span(samples)) || !receive_all(to_.get(), std::span(failure)))
    throw failed_run("the process that measures UCX has gone");
  if (samples.empty()) throw failed_run(fmt::format("the floor of UCX: {}", failure));
  return samples;
}

} // namespace farcall::tool
