#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/job/process_group.hpp>
#include <farcall/transport/launcher.hpp>
#include <farcall/transport/port.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace farcall {

/// Hands out the processes of a group, which something else has started, as targets: rank N is node
/// N. They come to ports that the host opens, whose names the group's broadcast brings them.
/// Whoever has started them also waits for them: they are told to end, and never killed. Used by
/// one thread at a time.
class rank_launcher {
 public:
  /// A port, and the scheme of the row that it is of.
  struct open_port {
    std::string scheme;
    std::unique_ptr<port> at;
  };

  /// The host's side. Waits until all processes of the group have been told the ports. Throws
  /// start_failed. `group` outlives it.
  rank_launcher(const process_group& group, std::vector<open_port> ports, time_point deadline);
  ~rank_launcher();
  rank_launcher(const rank_launcher&) = delete;
  rank_launcher& operator=(const rank_launcher&) = delete;

  struct rank {
    std::unique_ptr<target_process> process;
    std::string scheme; ///< of the port that it has come to
  };
  /// Waits until the process that becomes `node` has come. Throws start_failed.
  [[nodiscard]] rank wait_for(node_id node, time_point deadline);

 private:
  friend class rank_process;
  struct losses;

  void take_arrivals(time_point deadline);

  const process_group* group_;
  std::vector<open_port> ports_;
  std::map<node_id, rank> come_; ///< and not handed out yet
  std::vector<bool> has_come_;   ///< by rank
  std::shared_ptr<losses> losses_;
};

/// Any other process's side: learns the host's ports once all processes ask, until `deadline`, and
/// connects to the first of them, in the order of `table`, that it can reach. Throws start_failed
/// with what each has refused.
[[nodiscard]] port_connection connect_to_host(const process_group& group,
                                              std::span<const transport_entry> table,
                                              time_point deadline);

} // namespace farcall
