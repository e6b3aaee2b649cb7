#include <farcall/base/error.hpp>
#include <farcall/job/child_launcher.hpp>

#include <chrono>
#include <utility>

namespace farcall {
namespace {

/// How long a child that says nothing may take to end, so that its status can be told.
constexpr std::chrono::milliseconds end_time{200};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text.append(text.empty() ? "" : " ").append(word);
  return text;
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
  void reap() noexcept override { process_.reap(); }

  std::string end_text(const std::string& last_words) override {
    const auto ended = process_.wait(clock::now() + std::chrono::seconds(1));
    return " (process " + std::to_string(process_.pid()) + ") " +
           ended.value_or("closed its control socket") +
           (last_words.empty() ? "" : ": " + last_words);
  }

  std::string silence_text(const char* what) override {
    if (const auto ended = process_.wait(clock::now() + end_time)) {
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

std::unique_ptr<target_process> child_launcher::start(node_id node, const target_url& url,
                                                      time_point /*deadline*/) {
  auto [ours, theirs] = control_socket::make_pair();
  // Until another process has it.
  theirs.close_on_fork();
  const bool is_command = !url.command.empty();
  const bool is_ours = !is_command && url.program.empty() && program_.empty();
  const std::string program = is_command             ? joined(url.command)
                              : is_ours              ? own_program()
                              : !url.program.empty() ? url.program
                                                     : program_;
  try {
    // Under its own name, or this program could be another by now.
    const std::string file = is_command ? find_command(url.command.front())
                             : is_ours  ? running_program
                                        : program;
    return std::make_unique<child>(std::move(ours), program,
                                   child_process::start(file, is_command ? url.command : arguments_,
                                                        bootstrap_variable,
                                                        std::to_string(theirs.fd()), theirs.fd()));
  } catch (const start_failed& e) {
    throw start_failed(node_text(node) + ": " + e.what(), node);
  }
}

} // namespace farcall
