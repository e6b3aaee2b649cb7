#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/transport/access.hpp>
#include <farcall/transport/control_socket.hpp>
#include <farcall/transport/output_sink.hpp>
#include <farcall/transport/port.hpp>
#include <farcall/transport/target_url.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace farcall {

/// A process that takes part as a target, as its host sees it. Not for several threads at once.
class target_process {
 public:
  target_process() = default;
  target_process(const target_process&) = delete;
  target_process& operator=(const target_process&) = delete;
  /// Ends the process if it still runs.
  virtual ~target_process() = default;

  [[nodiscard]] control_socket& socket() noexcept { return socket_; }

  /// What runs there, for people: a path, a command line, a server.
  [[nodiscard]] const std::string& program() const noexcept { return program_; }

  /// The process runs on this machine, and its socket carries descriptors.
  [[nodiscard]] virtual bool is_near() const noexcept = 0;

  /// Readable once the process has ended; -1: the end of its socket is the only sign.
  [[nodiscard]] virtual int end_fd() const noexcept { return -1; }

  /// How it ended, or nothing while it runs as far as one can tell without its socket. Waits until
  /// `deadline`.
  [[nodiscard]] virtual std::optional<std::string> wait(time_point /*deadline*/) {
    return std::nullopt;
  }

  /// As child_process::exit_code(), where the system tells it here.
  [[nodiscard]] virtual std::optional<int> exit_code() const noexcept { return std::nullopt; }

  /// Who has ended and how, as one reads it behind "node 3". `last_words` is the exit reason that
  /// it, or its server, has given; empty: none.
  [[nodiscard]] virtual std::string end_text(const std::string& last_words) = 0;

  /// Why it may not have said in time what it should (`what`: "report", "join").
  [[nodiscard]] virtual std::string silence_text(const char* what) = 0;

  /// Says, as one reads it behind "node 3", that the process which was started has ended with
  /// status 0, while another one, process `joined`, is the target in its place. Empty if it is not
  /// so.
  [[nodiscard]] virtual std::optional<std::string> replacement_text(std::uint64_t /*joined*/) {
    return std::nullopt;
  }

  /// The process has said that it is a target.
  virtual void note_joined() noexcept {}

  /// Makes it end. Does not wait.
  virtual void kill() noexcept = 0;
  /// kill() ends it whatever it does. False: it ends by itself, once it runs and sees that its host
  /// is gone.
  [[nodiscard]] virtual bool can_be_killed() const noexcept { return true; }

  /// Lets the system forget it, once wait() has told its end.
  virtual void reap() noexcept {}

 protected:
  void set(control_socket socket, std::string program) {
    socket_ = std::move(socket);
    socket_.close_on_fork();
    program_ = std::move(program);
  }

 private:
  control_socket socket_;
  std::string program_;
};

/// What launchers are made from. Outlives them.
struct launch_site {
  std::span<const target_url> targets; ///< of the whole job
  std::string program;                 ///< of targets whose URL names none; empty: our own
  std::vector<std::string> arguments;  ///< of the targets, argv[0] included
  farcall::access access;              ///< to servers
  std::chrono::milliseconds heartbeat_timeout{5'000};
  output_sink* output = nullptr; ///< takes what targets elsewhere print; null: nobody does
  bool takes_all = false;        ///< also what those of this machine print
  /// Of processes that something else has started, which become the nodes from 1 on.
  std::uint32_t arrivals = 0;
};

/// A node that a process is to become. Whoever asks for it keeps the URL meanwhile.
struct wanted_target {
  node_id node = no_node;
  const target_url* url = nullptr;
};

/// Makes processes that become targets, or hands out those that exist. Used by one thread at a
/// time.
class launcher {
 public:
  virtual ~launcher() = default;

  /// The process that becomes `node`. Does not wait until it says something. Throws start_failed
  /// with the reason.
  [[nodiscard]] virtual std::unique_ptr<target_process> start(node_id node, const target_url& url,
                                                              time_point deadline) = 0;

  /// As start(), of all of them, in their order: a launcher that waits for replies from elsewhere
  /// waits for all at once. None is left when one cannot be started.
  [[nodiscard]] virtual std::vector<std::unique_ptr<target_process>>
  start_all(std::span<const wanted_target> all, time_point deadline) {
    std::vector<std::unique_ptr<target_process>> started;
    started.reserve(all.size());
    for (const wanted_target& wanted : all)
      started.push_back(start(wanted.node, *wanted.url, deadline));
    return started;
  }

  /// What the transport of the launcher's scheme must know on `node`, in that transport's own
  /// bytes; after start(). Empty: nothing.
  [[nodiscard]] virtual std::vector<std::byte> setup(node_id /*node*/) const { return {}; }

  /// Where processes that something else has started can come from now on; null: not this way.
  /// Once. The port outlives the launcher. Throws error.
  [[nodiscard]] virtual std::unique_ptr<port> open_port() { return nullptr; }
};

} // namespace farcall
