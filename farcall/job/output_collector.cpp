#include <farcall/base/error.hpp>
#include <farcall/base/join.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/signals.hpp>
#include <farcall/job/output_collector.hpp>
#include <farcall/transport/process.hpp>

#include <cerrno>
#include <cstdlib>
#include <set>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace farcall {
namespace {

constexpr std::size_t piece_bytes = std::size_t{64} << 10;
/// That one pipe may have passed on before the others get their turn.
constexpr int pieces_in_a_row = 4;
/// Of what came in short pieces.
constexpr std::size_t longest_item = std::size_t{64} << 10;
/// Of a process that has ended, or is to: more than a pipe holds, and not without end, as a child
/// of its may go on.
constexpr int last_pieces = 64;

/// All there are: at exit() they write what they have, for a job on a stack is not destroyed then.
/// A process has one standard output, and so one of these.
class live_collectors {
 public:
  static live_collectors& instance() {
    // Never freed: exit() needs it last of all.
    static auto* const all = new live_collectors;
    return *all;
  }

  void add(output_collector* one) {
    const std::lock_guard guard(mutex_);
    if (process_ == 0) (void)std::atexit([] { instance().finish(); });
    process_ = ::getpid();
    all_.insert(one);
  }
  void remove(output_collector* one) {
    const std::lock_guard guard(mutex_);
    all_.erase(one);
  }

 private:
  void finish() {
    // A child of a fork has none of the threads.
    if (process_ != ::getpid()) return;
    const std::lock_guard guard(mutex_);
    for (output_collector* one : all_)
      one->finish();
  }

  std::mutex mutex_;
  std::set<output_collector*> all_;
  pid_t process_ = 0;
};

std::string pipe_text(int pipe) {
  struct stat status{};
  if (::fstat(pipe, &status) != 0) throw_system_error("looking at a pipe", errno);
  return std::to_string(pipe) + ":" + std::to_string(status.st_ino);
}

/// -1: it is not the one that is meant.
int pipe_named(const std::string& text) {
  constexpr std::uint64_t most = ~std::uint64_t{0};
  const std::vector<std::string> numbers = split(text, ':');
  if (numbers.size() != 2) {
    throw setting_error(std::string(lines_variable) +
                        " names no pipes; only 'farcall run' sets this variable: unset it");
  }
  const auto pipe = static_cast<int>(parse_number(numbers[0], lines_variable, 0, 1'000'000));
  const std::uint64_t inode = parse_number(numbers[1], lines_variable, 0, most);
  struct stat status{};
  const bool is_it =
      ::fstat(pipe, &status) == 0 && S_ISFIFO(status.st_mode) && status.st_ino == inode;
  return is_it ? pipe : -1;
}

output_ends find_ends() {
  const auto named = environment(lines_variable);
  if (!named) return {};
  // Our own children are others.
  ::unsetenv(lines_variable);
  const std::vector<std::string> pipes = split(*named, ',');
  if (pipes.size() != 2) (void)pipe_named("");
  const output_ends ends{pipe_named(pipes[0]), pipe_named(pipes[1])};
  // A program between 'farcall run' and us, as an interpreter, may have closed them.
  if (ends.output < 0 || ends.error < 0) return {};
  for (const int pipe : {ends.output, ends.error})
    ::fcntl(pipe, F_SETFD, FD_CLOEXEC);
  // Our own lines are labelled by whoever has started us.
  print_lines_into_pipes();
  return ends;
}

} // namespace

std::string text_of(const output_ends& pipes) {
  return pipe_text(pipes.output) + "," + pipe_text(pipes.error);
}

output_ends ends_for_lines() {
  static const output_ends ends = find_ends();
  return ends;
}

output_collector::output_collector(output_ends to, bool labels) : to_(to), labels_(labels) {
  live_collectors::instance().add(this);
}

output_collector::~output_collector() {
  finish();
  live_collectors::instance().remove(this);
}

// ---- any thread ---------------------------------------------------------------------------------

void output_collector::take(node_id node, output_stream stream, std::string_view bytes,
                            std::function<void(std::size_t bytes)> written) {
  add({.what = item::kind::bytes,
       .from = {node, stream},
       .bytes = std::string(bytes),
       .written = std::move(written)});
}

void output_collector::read(node_id node, output_stream stream, unique_fd from) {
  // The thread must never wait for one of many.
  if (::fcntl(from.get(), F_SETFL, O_NONBLOCK) != 0)
    throw_system_error("reading what a target prints", errno);
  from.close_on_fork();
  add({.what = item::kind::pipe, .from = {node, stream}, .pipe = std::move(from)});
}

void output_collector::end(node_id node) noexcept {
  try {
    for (const auto stream : {output_stream::output, output_stream::error})
      add({.what = item::kind::end, .from = {node, stream}});
  } catch (const std::exception& e) {
    log::error(std::string("what a target has printed last may be missing: ") + e.what());
  }
}

void output_collector::add(item what) {
  {
    const std::lock_guard guard(mutex_);
    if (is_finished_) return;
    if (!thread_.joinable()) {
      // Without a thread, no target has printed anything.
      if (what.what == item::kind::end) return;
      start();
    }
    if (continues_last(what)) {
      items_.back().bytes += what.bytes;
    } else {
      items_.push_back(std::move(what));
    }
  }
  wake();
}

/// However short the pieces are that somebody sends, they take little more memory than their bytes.
bool output_collector::continues_last(const item& what) const noexcept {
  return what.what == item::kind::bytes && !items_.empty() &&
         items_.back().what == item::kind::bytes && items_.back().from == what.from &&
         items_.back().bytes.size() < longest_item;
}

void output_collector::start() {
  wake_ = unique_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) throw_system_error("taking what targets print (descriptor limit?)", errno);
  wake_.close_on_fork();
  try {
    thread_ = std::thread([this] {
      // Also that of a pipe whose reader has gone.
      leave_signals_to_other_threads();
      run();
    });
  } catch (const std::system_error& e) {
    throw error(std::string("no thread can be made that takes what targets print: ") + e.what());
  }
  ::pthread_setname_np(thread_.native_handle(), "farcall-output");
}

void output_collector::wake() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

void output_collector::finish() noexcept {
  const std::lock_guard finishing(finish_mutex_);
  {
    const std::lock_guard guard(mutex_);
    is_finished_ = true;
    if (!thread_.joinable()) return;
  }
  wake();
  join_unless_own(thread_);
}

// ---- the thread ---------------------------------------------------------------------------------

void output_collector::run() {
  std::vector<pollfd> watched;
  std::vector<source_name> whose;
  for (bool is_last = false; !is_last;) {
    watched.assign(1, {wake_.get(), POLLIN, 0});
    whose.assign(1, {});
    for (const auto& [name, s] : sources_) {
      if (!s.pipe) continue;
      watched.push_back({s.pipe.get(), POLLIN, 0});
      whose.push_back(name);
    }
    if (::poll(watched.data(), watched.size(), -1) < 0) continue;
    if (watched[0].revents != 0) {
      std::uint64_t times = 0;
      [[maybe_unused]] const auto got = ::read(wake_.get(), &times, sizeof times);
    }
    std::vector<item> items;
    {
      const std::lock_guard guard(mutex_);
      items.swap(items_);
      is_last = is_finished_;
    }
    for (std::size_t i = 1; i < watched.size(); ++i) {
      if (watched[i].revents != 0) drain(sources_.at(whose[i]), pieces_in_a_row);
    }
    for (item& one : items)
      do_item(one);
  }
  while (!sources_.empty())
    close(sources_.begin()->first);
}

void output_collector::do_item(item& one) {
  switch (one.what) {
  case item::kind::bytes:
    (void)source_of(one.from).lines.take(one.bytes);
    if (one.written) one.written(one.bytes.size());
    return;
  case item::kind::pipe:
    source_of(one.from).pipe = std::move(one.pipe);
    return;
  case item::kind::end:
    close(one.from);
    return;
  }
}

output_collector::source& output_collector::source_of(const source_name& name) {
  const auto& [node, stream] = name;
  const int to = stream == output_stream::output ? to_.output : to_.error;
  return sources_.try_emplace(name, line_forwarder(to, labels_ ? node_label(node) : ""))
      .first->second;
}

void output_collector::drain(source& s, int most_pieces) {
  piece_.resize(piece_bytes);
  for (int n = 0; n < most_pieces && s.pipe; ++n) {
    const ssize_t got = ::read(s.pipe.get(), piece_.data(), piece_.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    // Where nobody reads what it prints, the target hears that as it would from a terminal.
    if (got <= 0 || !s.lines.take({piece_.data(), static_cast<std::size_t>(got)})) s.pipe.reset();
  }
}

void output_collector::close(const source_name& name) {
  const auto at = sources_.find(name);
  if (at == sources_.end()) return;
  drain(at->second, last_pieces);
  (void)at->second.lines.finish();
  sources_.erase(at);
}

} // namespace farcall
