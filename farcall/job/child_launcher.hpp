// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/transport/launcher.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/start_mark.hpp>
#include <farcall/transport/wrap_commands.hpp>

#include <memory>
#include <string>
#include <vector>

namespace farcall {

/// Starts targets as children of this process. Each child runs the program or command line of its
/// target's URL, or else the program of the job's options, which by default is this process's
/// program.
class child_launcher final : public launcher {
 public:
  /// Makes the launcher for the host that `site` describes. Throws setting_error if the setting
  /// `wrap` is malformed.
  explicit child_launcher(const launch_site& site);

  [[nodiscard]] std::unique_ptr<target_process> start(node_id node, const target_url& url,
                                                      time_point deadline) override;
  /// Opens a port to which processes of this machine can connect.
  [[nodiscard]] std::unique_ptr<port> open_port() override;

 private:
  /// The file to execute, and the argument vector (argv) for it.
  struct command {
    std::string file;
    std::vector<std::string> words;
    std::string text; ///< for messages
    target_program runs = target_program::any;
  };
  [[nodiscard]] command command_of(node_id node, const target_url& url) const;

  wrap_commands wraps_;
  std::string program_;
  std::vector<std::string> arguments_;
  /// Receiver of the children's output. If null, children print to the output of this process.
  output_sink* output_;
};

} // namespace farcall
