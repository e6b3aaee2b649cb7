#pragma once

#include <farcall/transport/launcher.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/start_mark.hpp>
#include <farcall/transport/wrap_commands.hpp>

#include <memory>
#include <string>
#include <vector>

namespace farcall {

/// Starts targets as children of this process: the program of the URL, its command line, or our own
/// program once more.
class child_launcher final : public launcher {
 public:
  /// Throws setting_error where the setting `wrap` is none.
  explicit child_launcher(const launch_site& site);

  [[nodiscard]] std::unique_ptr<target_process> start(node_id node, const target_url& url,
                                                      time_point deadline) override;
  /// For processes of this machine.
  [[nodiscard]] std::unique_ptr<port> open_port() override;

 private:
  /// What is executed, and what it sees as argv.
  struct command {
    std::string file;
    std::vector<std::string> words;
    std::string text; ///< for people
    target_program runs = target_program::any;
  };
  [[nodiscard]] command command_of(node_id node, const target_url& url) const;

  wrap_commands wraps_;
  std::string program_;
  std::vector<std::string> arguments_;
  output_sink* output_; ///< of children; null: they print where this process does
};

} // namespace farcall
