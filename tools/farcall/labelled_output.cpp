#include "labelled_output.hpp"

#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
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
/// That one pipe may have passed on before the others get their turn.
constexpr int pieces_in_a_row = 4;
/// More than a pipe holds, and not without end: a child of the program's may go on.
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
  thread_ = std::thread([this] { run(); });
}

labelled_output::~labelled_output() { finish(); }

void labelled_output::finish() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void labelled_output::run() {
  for (bool has_stopped = false; !has_stopped;) {
    std::vector<pollfd> watched{{stop_.get(), POLLIN, 0}};
    // A descriptor of -1 is left out.
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

void labelled_output::drain(source& s, int most_pieces) {
  const auto piece = std::make_unique<char[]>(piece_bytes);
  for (int n = 0; n < most_pieces && s.pipe; ++n) {
    const ssize_t got = read(s.pipe.get(), piece.get(), piece_bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    // Where nobody reads what it prints, the program hears that as it would from a terminal.
    if (got <= 0 || !s.lines.take({piece.get(), static_cast<std::size_t>(got)})) s.pipe.reset();
  }
}

} // namespace farcall::tool
