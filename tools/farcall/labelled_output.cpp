// SPDX-License-Identifier: Apache-2.0
#include "labelled_output.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/base/library_thread.hpp>
#include <farcall/base/node_id.hpp>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace farcall::tool {

namespace {

constexpr std::size_t piece_bytes = std::size_t{64} << 10;
/// Maximum number of pieces that are read from one pipe before the other pipes get a turn.
constexpr int pieces_in_a_row = 4;
/// Maximum number of pieces that are read from a pipe after the program's end. This is more than a
/// pipe holds, so nothing that the program has printed is lost. A limit is needed because a child
/// of the program may print without end.
constexpr int last_pieces = 64;

} // namespace

labelled_output::labelled_output() {
  const std::string label = node_label(host_id);
  for (const auto& [to, text] :
       {std::pair{STDOUT_FILENO, label}, std::pair{STDERR_FILENO, label},
        std::pair{STDOUT_FILENO, std::string()}, std::pair{STDERR_FILENO, std::string()}}) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      throw failed_run(fmt::format("cannot make a pipe: {}", reason_text(errno)));
    theirs_.emplace_back(ends[1]);
    sources_.push_back({line_forwarder(to, text), unique_fd(ends[0])});
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
  }
  stop_ = unique_fd(eventfd(0, EFD_CLOEXEC));
  if (!stop_) throw failed_run(fmt::format("cannot make an eventfd: {}", reason_text(errno)));
  thread_ = library_thread("farcall-tool", [this] { run(); });
}

labelled_output::~labelled_output() { finish(); }

void labelled_output::finish() {
  if (!thread_.is_joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void labelled_output::run() {
  for (bool has_stopped = false; !has_stopped;) {
    std::vector<pollfd> watched{{stop_.get(), POLLIN, 0}};
    // A closed pipe has the descriptor -1, which poll() ignores.
    for (const source& s : sources_)
      watched.push_back({s.pipe.get(), POLLIN, 0});
    if (poll(watched.data(), watched.size(), -1) < 0) continue;
    has_stopped = watched[0].revents != 0;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      if (watched[i + 1].revents != 0) drain(sources_[i], pieces_in_a_row);
    }
  }
  for (source& s : sources_) {
    drain(s, last_pieces);
    (void)s.lines.finish();
  }
}

void labelled_output::drain(source& s, int max_pieces) {
  const auto piece = std::make_unique<char[]>(piece_bytes);
  for (int n = 0; n < max_pieces && s.pipe; ++n) {
    const ssize_t got = read(s.pipe.get(), piece.get(), piece_bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    // If the destination of the output has no reader any more, close the pipe. The program then
    // gets SIGPIPE, as if it printed to the destination itself.
    if (got <= 0 || !s.lines.take({piece.get(), static_cast<std::size_t>(got)})) s.pipe.reset();
  }
}

} // namespace farcall::tool
