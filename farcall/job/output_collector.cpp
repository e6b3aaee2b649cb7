// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/job/output_collector.hpp>
#include <farcall/job/passed_pipes.hpp>
#include <farcall/transport/process.hpp>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <set>
#include <system_error>

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace farcall {
namespace {

constexpr std::size_t piece_bytes = std::size_t{64} << 10;
/// Maximum number of pieces that the thread reads from one pipe before it reads the other pipes.
constexpr int pieces_in_a_row = 4;
/// Several short outputs of one target are joined to one item of work, until the item has this
/// number of bytes.
constexpr std::size_t max_item = std::size_t{64} << 10;
/// Maximum number of pieces that are read from the pipe of a process that has ended or is to end. A
/// full pipe has fewer pieces. The limit is needed because a child of the process may have
/// inherited the pipe and go on printing without end.
constexpr int last_pieces = 64;

/// All output collectors of this process. When the program calls exit(), this object makes them
/// write the output that they still hold, because exit() does not destroy a job on the stack. A
/// process has one such object, because it has one standard output.
class live_collectors {
 public:
  static live_collectors& instance() {
    // The object is never freed, because exit() uses it after static objects were destroyed.
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
    // Do nothing in a forked child, because the thread that writes the output runs only in the
    // parent.
    if (process_ != ::getpid()) return;
    const std::lock_guard guard(mutex_);
    for (output_collector* one : all_)
      one->finish();
  }

  std::mutex mutex_;
  std::set<output_collector*> all_;
  pid_t process_ = 0;
};

output_ends find_ends() {
  const auto named = environment(lines_variable);
  if (!named) return {};
  // Remove the variable, because programs that this process starts must not use these pipes.
  ::unsetenv(lines_variable);
  const std::vector<std::string> pipes = split(*named, ',');
  if (pipes.size() != 2) (void)pipe_named("", lines_variable);
  const output_ends ends{pipe_named(pipes[0], lines_variable),
                         pipe_named(pipes[1], lines_variable)};
  // If a program between `farcall run` and this one, such as an interpreter, has closed the pipes,
  // use standard output and standard error.
  if (ends.output < 0 || ends.error < 0) return {};
  for (const int pipe : {ends.output, ends.error})
    ::fcntl(pipe, F_SETFD, FD_CLOEXEC);
  // Write this process's own output line by line into the pipe, because `farcall run` reads the
  // pipe and labels each line.
  print_lines_into_pipes();
  return ends;
}

} // namespace

std::string text_of(const output_ends& pipes) {
  return text_of_pipe(pipes.output) + "," + text_of_pipe(pipes.error);
}

output_ends ends_for_lines() {
  static const output_ends ends = find_ends();
  return ends;
}

output_collector::output_collector(output_ends to, bool labels, output_receiver* receiver)
    : to_(to), labels_(labels), receiver_(receiver) {
  live_collectors::instance().add(this);
}

output_collector::~output_collector() {
  finish();
  // Wait until the event loop has finished its calls of this object's functions. It makes no calls
  // afterwards.
  if (loop_ != nullptr) loop_->drain();
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
  // Make the pipe non-blocking, because the thread reads many pipes and must not wait for one of
  // them.
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
  if (what.what == item::kind::end) {
    // If the thread has not been started, no target has printed anything, so that no output must be
    // written at the target's end.
    const std::lock_guard guard(thread_.mutex());
    if (!thread_.has_started()) return;
  }
  try {
    (void)thread_.submit([&] {
      if (continues_last(what)) {
        items_.back().bytes += what.bytes;
      } else {
        items_.push_back(std::move(what));
      }
    });
  } catch (const std::system_error& e) {
    throw error(std::string("no thread can be made that takes what targets print: ") + e.what());
  }
}

/// Returns true if the bytes of `what` can be appended to the last waiting item. In this way, many
/// short pieces share one item, which takes little more memory than the bytes.
bool output_collector::continues_last(const item& what) const noexcept {
  return what.what == item::kind::bytes && !items_.empty() &&
         items_.back().what == item::kind::bytes && items_.back().from == what.from &&
         items_.back().bytes.size() < max_item;
}

void output_collector::finish() noexcept {
  const std::lock_guard finishing(finish_mutex_);
  (void)thread_.stop();
}

// ---- the thread ---------------------------------------------------------------------------------

time_point output_collector::do_next(std::unique_lock<std::mutex>& lock) noexcept {
  if (items_.empty()) {
    if (!thread_.is_stopping()) return no_deadline;
    lock.unlock();
    while (!sources_.empty())
      close(sources_.begin()->first);
    lock.lock();
    return no_deadline;
  }
  item one = std::move(items_.front());
  items_.pop_front();
  lock.unlock();
  do_item(one);
  lock.lock();
  return service_thread::at_once;
}

void output_collector::do_item(item& one) {
  switch (one.what) {
  case item::kind::bytes:
    (void)source_of(one.from).lines.take(one.bytes);
    if (one.written) one.written(one.bytes.size());
    return;
  case item::kind::pipe:
    watch(one.from, source_of(one.from), std::move(one.pipe));
    return;
  case item::kind::readable:
    if (const auto at = sources_.find(one.from); at != sources_.end()) {
      drain(at->second, pieces_in_a_row);
      if (at->second.pipe) loop_->modify(at->second.pipe.get(), EPOLLIN | EPOLLONESHOT);
    }
    return;
  case item::kind::end:
    close(one.from);
    return;
  }
}

output_collector::source& output_collector::source_of(const source_name& name) {
  const auto at = sources_.find(name);
  return at != sources_.end()
             ? at->second
             : sources_.emplace(name, source{forwarder_of(name), {}}).first->second;
}

line_forwarder output_collector::forwarder_of(const source_name& name) {
  if (receiver_ != nullptr)
    return line_forwarder([this, name](std::string_view line) { pass(name, line); });
  const auto& [node, stream] = name;
  const int to = stream == output_stream::output ? to_.output : to_.error;
  return {to, labels_ ? node_label(node) : ""};
}

void output_collector::pass(const source_name& name, std::string_view line) noexcept {
  try {
    receiver_->take_line(name.first, name.second, line);
  } catch (const std::exception& e) {
    failed_lines_.warning("a line of " + node_text(name.first) + " is lost: the receiver threw " +
                          e.what());
  } catch (...) {
    failed_lines_.warning("a line of " + node_text(name.first) + " is lost: the receiver threw");
  }
}

void output_collector::watch(const source_name& name, source& s, unique_fd pipe) {
  try {
    if (loop_ == nullptr) loop_ = common_event_loop();
    loop_->add(pipe.get(), EPOLLIN | EPOLLONESHOT, std::make_shared<function_handler>([this, name] {
                 add({.what = item::kind::readable, .from = name});
               }));
    s.pipe = std::move(pipe);
  } catch (const std::exception& e) {
    log::error(node_text(name.first) + ": what it prints is lost: " + e.what());
  }
}

void output_collector::drain(source& s, int max_pieces) {
  piece_.resize(piece_bytes);
  for (int n = 0; n < max_pieces && s.pipe; ++n) {
    const ssize_t got = ::read(s.pipe.get(), piece_.data(), piece_.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    // If the lines cannot be written, close this end of the pipe, so that the target gets an error
    // when it writes, as it would from a terminal that was closed.
    if (got <= 0 || !s.lines.take({piece_.data(), static_cast<std::size_t>(got)})) close_pipe(s);
  }
}

void output_collector::close_pipe(source& s) noexcept {
  if (!s.pipe) return;
  loop_->remove(s.pipe.get());
  s.pipe.reset();
}

void output_collector::close(const source_name& name) {
  const auto at = sources_.find(name);
  if (at == sources_.end()) return;
  drain(at->second, last_pieces);
  close_pipe(at->second);
  (void)at->second.lines.finish();
  sources_.erase(at);
}

} // namespace farcall
