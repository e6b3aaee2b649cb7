// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/server/server.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace farcall {
namespace {

sigset_t end_signals() noexcept {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT);
  ::sigaddset(&set, SIGTERM);
  ::sigaddset(&set, SIGHUP);
  return set;
}

/// Returns one of the pending signals, or nullopt if none is pending.
std::optional<signalfd_siginfo> take_signal(int signals) noexcept {
  signalfd_siginfo taken{};
  if (::read(signals, &taken, sizeof taken) != static_cast<ssize_t>(sizeof taken)) return {};
  return taken;
}

bool has_terminal() noexcept {
  return unique_fd(::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC)).get() >= 0;
}

/// True if this SIGHUP was sent because the terminal has gone. The sender is then the kernel, or a
/// shell; in the case of a shell, this process had a terminal before and has none now. Any other
/// SIGHUP is a user's request that the server read its files again.
bool is_hangup(const signalfd_siginfo& signal, bool had_terminal) noexcept {
  return signal.ssi_signo == SIGHUP &&
         (signal.ssi_code == SI_KERNEL || (had_terminal && !has_terminal()));
}

/// True if this process ignores SIGHUP, because it was started with nohup, for instance.
bool is_hangup_ignored() noexcept {
  struct sigaction now{};
  return ::sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

void reload(const server& s) {
  try {
    s.reload();
  } catch (const std::exception&) {
    // Ignore the exception, because the server has logged the failure as an event.
  }
}

/// Discards the input that has arrived. Returns false at the end of the input.
bool has_more(int input) noexcept {
  std::array<char, 256> piece{};
  const ssize_t got = ::read(input, piece.data(), piece.size());
  return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

} // namespace

void block_end_signals() noexcept {
  sigset_t set = end_signals();
  // Block SIGPIPE, because the end of a program that reads the log must not end the server.
  ::sigaddset(&set, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void serve_until_signalled(server& s, const serving& meanwhile) {
  const sigset_t set = end_signals();
  const unique_fd signals(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) throw_system_error("waiting for signals (descriptor limit?)", errno);
  for (const tcp::address& a : s.addresses())
    std::printf("farcall: serving at %s, %s\n", a.url().c_str(), s.protection_at(a).c_str());
  // Flush now, because the process that has started this server reads the server's port from the
  // printed line, and a pipe's buffer would delay the line.
  std::fflush(stdout);
  if (meanwhile.on_listening) meanwhile.on_listening();
  // poll() ignores negative descriptors.
  std::array<pollfd, 3> waiting{pollfd{signals.get(), POLLIN, 0}, pollfd{s.drained_fd(), POLLIN, 0},
                                pollfd{meanwhile.input, POLLIN, 0}};
  const bool had_terminal = has_terminal();
  for (bool is_draining = false;;) {
    if (::poll(waiting.data(), waiting.size(), -1) < 0) {
      if (errno == EINTR) continue;
      throw_system_error("waiting for signals", errno);
    }
    if (waiting[1].revents != 0) return;
    if (waiting[2].revents != 0 && !has_more(meanwhile.input)) return;
    const std::optional<signalfd_siginfo> got = take_signal(signals.get());
    if (!got) continue;
    const bool hangs_up = is_hangup(*got, had_terminal);
    if (hangs_up && is_hangup_ignored()) continue;
    if (got->ssi_signo == SIGHUP && !hangs_up) {
      reload(s);
      continue;
    }
    if (is_draining || hangs_up) return;
    is_draining = true;
    s.drain();
    if (meanwhile.on_draining) meanwhile.on_draining();
  }
}

} // namespace farcall
