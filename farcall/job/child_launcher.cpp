// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/job/child_launcher.hpp>
#include <farcall/transport/local_port.hpp>
#include <farcall/transport/start_mark.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace farcall {
namespace {

/// If a child does not join, the host waits for this time for the end of the child, so that the
/// error can contain the child's exit status.
constexpr std::chrono::milliseconds end_time{200};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text.append(text.empty() ? "" : " ").append(word);
  return text;
}

/// Pipes for the standard output and standard error of a child. This process reads from the ends in
/// `ours`; the child writes to the ends in `theirs`.
struct pipes {
  std::array<unique_fd, 2> ours;
  std::array<unique_fd, 2> theirs;
};

pipes make_pipes() {
  pipes made;
  for (std::size_t i = 0; i < made.ours.size(); ++i) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      throw_system_error("making a pipe for what a target prints (descriptor limit?)", errno);
    made.ours[i] = unique_fd(ends[0]);
    made.theirs[i] = unique_fd(ends[1]);
  }
  return made;
}

class child final : public target_process {
 public:
  child(control_socket socket, std::string program, child_process process)
      : process_(std::move(process)) {
    set(std::move(socket), std::move(program));
  }

  bool is_near() const noexcept override { return true; }
  int end_fd() const noexcept override { return process_.end_fd(); }
  std::optional<std::string> wait(time_point deadline) override { return process_.wait(deadline); }
  std::optional<int> exit_code() const noexcept override { return process_.exit_code(); }
  void kill() noexcept override { process_.kill(); }
  void note_joined() noexcept override { process_.note_joined(); }
  void reap() noexcept override { process_.reap(); }

  std::string end_text(const std::string& exit_reason) override {
    const auto ended = process_.wait(clock::now() + std::chrono::seconds(1));
    return " (process " + std::to_string(process_.pid()) + ") " +
           ended.value_or("closed its control socket") +
           (exit_reason.empty() ? "" : ": " + exit_reason);
  }

  std::optional<std::string> replacement_text(std::uint64_t joined) override {
    if (joined == static_cast<std::uint64_t>(process_.pid())) return std::nullopt;
    const auto ended = process_.wait(clock::now());
    if (!ended || process_.exit_code() != 0) return std::nullopt;
    return " (process " + std::to_string(process_.pid()) + ") " + *ended + ", while process " +
           std::to_string(joined) +
           ", which it has started, is the target in its place: a program that goes on in another "
           "process, as by daemon(), calls farcall::serve_if_target() before, and a wrapper "
           "executes the program in its own process (exec, no setsid -f)";
  }

  std::string silence_text(const char* what) override {
    if (const auto ended = process_.wait(clock::now() + end_time)) {
      if (process_.has_lost_mark()) return " " + *ended;
      return " " + *ended +
             " before it joined the job; is it a farcall program that makes a farcall::job, or "
             "calls farcall::serve_if_target(), early in main()?";
    }
    return std::string(" did not ") + what +
           " in time; is it a farcall program that makes a farcall::job early in main()? "
           "(job_options::start_timeout)";
  }

 private:
  child_process process_;
};

} // namespace

child_launcher::child_launcher(const launch_site& site)
    : wraps_(wrap_commands::of_settings()), program_(site.program), arguments_(site.arguments),
      output_(site.takes_all ? site.output : nullptr) {}

child_launcher::command child_launcher::command_of(node_id node, const target_url& url) const {
  command made;
  const std::string program = !url.program.empty() ? url.program : program_;
  if (!url.command.empty()) {
    made = {find_command(url.command.front()), url.command, joined(url.command), made.runs};
  } else if (!program.empty()) {
    made = {program, arguments_, program, made.runs};
  } else {
    // Name this process's executable by its path in /proc, because the file at the program's own
    // path may be another program by now.
    made = {executable_of_this(), arguments_, own_program(), target_program::of_host};
  }
  const std::vector<std::string>& wrap = wraps_.of(node);
  if (wrap.empty()) return made;
  // A wrapper is a command, such as a debugger, that starts the target's program. Pass the
  // program's path to the wrapper, because the wrapper opens the path itself, and /proc/self would
  // then mean the wrapper.
  if (url.command.empty()) made.words.front() = made.text;
  made.words.insert(made.words.begin(), wrap.begin(), wrap.end());
  return {find_command(wrap.front()), made.words, joined(wrap) + " " + made.text, made.runs};
}

std::unique_ptr<target_process> child_launcher::start(node_id node, const target_url& url,
                                                      time_point /*deadline*/) {
  auto [ours, theirs] = control_socket::make_pair();
  // Until this function has passed the descriptor to the new target, close it in every other child
  // that the program forks in the meantime.
  theirs.close_on_fork();
  try {
    const command runs = command_of(node, url);
    mark_target_socket(ours.fd());
    std::optional<pipes> prints;
    if (output_ != nullptr) prints = make_pipes();
    auto made = std::make_unique<child>(
        std::move(ours), runs.text,
        child_process::start(runs.file, runs.words, bootstrap_variable, std::to_string(theirs.fd()),
                             theirs.fd(), own_environment(),
                             prints ? child_output{prints->theirs[0].get(), prints->theirs[1].get()}
                                    : child_output{},
                             runs.runs));
    if (prints) {
      output_->read(node, output_stream::output, std::move(prints->ours[0]));
      output_->read(node, output_stream::error, std::move(prints->ours[1]));
    }
    return made;
  } catch (const start_failed& e) {
    throw start_failed(node_text(node) + ": " + e.what(), node);
  }
}

std::unique_ptr<port> child_launcher::open_port() { return open_local_port(); }

} // namespace farcall
