// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/job/pmi_connection.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <system_error>
#include <utility>

#include <poll.h>
#include <sys/socket.h>

namespace farcall {
namespace {

/// Longest line, in bytes, that is accepted. The known process managers send at most 1 or 4 KiB.
constexpr std::size_t max_line_bytes = std::size_t{64} << 10;
/// Maximum number of bytes of a line that an error message shows.
constexpr std::size_t max_quoted_bytes = 160;
/// Maximum number of other lines that may come before the reply to a request. Such lines are
/// settings that follow the reply to initack, or late replies to earlier requests.
constexpr int max_other_lines = 16;
/// After this time without a reply, a warning names the request. Most often, the process manager
/// then waits for another process.
constexpr std::chrono::seconds quiet_time{5};
/// Time to wait for the reply to "finalize". The process manager replies at once, or never.
constexpr std::chrono::seconds finalize_time{2};

/// Returns the time until the deadline as a timeout for poll(), rounded up so that poll() does not
/// return before the deadline.
int milliseconds_until(time_point deadline) {
  if (deadline == no_deadline) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, INT_MAX));
}

} // namespace

std::optional<std::string_view> pmi_line::word(std::string_view name) const noexcept {
  std::string_view rest = text_;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (one.size() > name.size() && one.starts_with(name) && one[name.size()] == '=')
      return one.substr(name.size() + 1);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> pmi_line::number(std::string_view name, std::uint64_t low,
                                              std::uint64_t high) const noexcept {
  return pmi_number(word(name).value_or(""), low, high);
}

bool pmi_line::is_success() const noexcept {
  const auto rc = word("rc");
  return !rc || *rc == "0";
}

std::optional<std::uint64_t> pmi_number(std::string_view text, std::uint64_t low,
                                        std::uint64_t high) noexcept {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, failed] = std::from_chars(text.data(), end, number);
  if (failed != std::errc{} || at != end || number < low || number > high) return std::nullopt;
  return number;
}

pmi_connection::pmi_connection(unique_fd socket) : socket_(std::move(socket)) {
  int type = 0;
  socklen_t bytes = sizeof type;
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_TYPE, &type, &bytes) != 0)
    throw_system_error("speaking to the process manager needs a socket, which descriptor " +
                           std::to_string(socket_.get()) + " is not",
                       errno);
  if (type != SOCK_STREAM)
    throw error("speaking to the process manager needs a stream, and descriptor " +
                std::to_string(socket_.get()) + " is a socket of another type");
  socket_.close_on_fork();
}

std::string pmi_connection::quoted(std::string_view line) {
  // Leave out values, because they contain the job's secret.
  constexpr std::string_view before_value = " value=";
  const std::size_t value = line.find(before_value);
  const std::size_t shown =
      std::min(value == std::string_view::npos ? line.size() : value + before_value.size(),
               max_quoted_bytes);
  std::string text = "\"";
  for (const char c : line.substr(0, shown))
    text += c >= ' ' && c <= '~' ? c : '?';
  return text + (line.size() > shown ? "…\"" : "\"");
}

void pmi_connection::fail(const std::string& how) {
  broken_ = "the process manager was sent " + quoted(asked_) + ", " + how;
  throw error(broken_);
}

bool pmi_connection::wait_for(short event, time_point deadline) {
  time_point notice = clock::now() + quiet_time;
  for (;;) {
    pollfd watched{socket_.get(), event, 0};
    const int ready = ::poll(&watched, 1, milliseconds_until(std::min(notice, deadline)));
    if (ready > 0) return true;
    const time_point now = clock::now();
    if (ready == 0 && now >= deadline) return false;
    if (now >= notice) {
      log::warning("waiting for the process manager, which was sent " + quoted(asked_));
      notice = no_deadline;
    }
    if (ready < 0 && errno != EINTR) fail("and waiting for it failed: " + reason_text(errno));
  }
}

void pmi_connection::send(std::string_view bytes, time_point deadline) {
  // Send the line by one call if possible, because Slurm takes the bytes that it gets by one read()
  // for one line.
  while (!bytes.empty()) {
    const ssize_t sent =
        ::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!wait_for(POLLOUT, deadline)) {
        broken_ = "the process manager did not take " + quoted(asked_) + " in time";
        throw timeout(broken_);
      }
    } else if (errno == EPIPE || errno == ECONNRESET) {
      fail("and has closed the connection, as it does when the job ends, or after MPI_Finalize");
    } else if (errno != EINTR) {
      fail("which failed: " + reason_text(errno));
    }
  }
}

pmi_line pmi_connection::receive(time_point deadline) {
  std::size_t looked_at = 0;
  for (;;) {
    const std::size_t end = received_.find('\n', looked_at);
    if (end != std::string::npos) {
      pmi_line line(received_.substr(0, end));
      received_.erase(0, end + 1);
      return line;
    }
    looked_at = received_.size();
    if (looked_at > max_line_bytes)
      fail("and has replied with a line of more than " + std::to_string(max_line_bytes) +
           " bytes: " + quoted(received_));
    std::array<char, 4096> piece;
    const ssize_t got = ::recv(socket_.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (got > 0) {
      received_.append(piece.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || errno == ECONNRESET) {
      fail("and has closed the connection" +
           (received_.empty() ? "" : " in the middle of a line, " + quoted(received_)) +
           ", as it does when the job ends, or after MPI_Finalize");
    } else if (errno == EAGAIN) {
      if (!wait_for(POLLIN, deadline)) {
        broken_ = "the process manager did not reply to " + quoted(asked_) + " in time" +
                  (received_.empty() ? "" : ", but only began to: " + quoted(received_));
        throw timeout(broken_);
      }
    } else if (errno != EINTR) {
      fail("and reading its reply failed: " + reason_text(errno));
    }
  }
}

pmi_line pmi_connection::ask(const std::string& line, std::string_view reply, time_point deadline) {
  if (!broken_.empty())
    throw error("the process manager cannot be asked any more: earlier, " + broken_);
  asked_ = line;
  send(line + "\n", deadline);
  for (int others = 0;; ++others) {
    pmi_line got = receive(deadline);
    const auto command = got.word("cmd");
    if (got.text().starts_with("cmd=") && command == reply) return got;
    if (command != "set" || others == max_other_lines) {
      fail("and should have replied \"cmd=" + std::string(reply) + " …\", but replied " +
           quoted(got.text()));
    }
  }
}

void pmi_connection::tell(const std::string& line) noexcept {
  try {
    asked_ = line;
    send(line + "\n", clock::now());
  } catch (const std::exception&) {
    // Ignore the error, because a process manager that accepts no line has most likely ended.
  }
}

void pmi_connection::finish() noexcept {
  try {
    asked_ = "cmd=finalize";
    const time_point deadline = deadline_after(finalize_time);
    send("cmd=finalize\n", deadline);
    for (int others = 0; others < max_other_lines; ++others) {
      if (receive(deadline).word("cmd") == "finalize_ack") return;
    }
  } catch (const std::exception&) {
    // Ignore the error, because either the process manager has ended, or MPI_Finalize has already
    // sent "finalize".
  }
}

} // namespace farcall
