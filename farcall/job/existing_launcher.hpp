#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/launcher.hpp>

#include <memory>
#include <vector>

namespace farcall {

/// Hands out processes of this machine that exist already, as a launcher's ranks: each has the
/// other end of one of the sockets (Unix, seqpacket), and joins by it. Whoever has started them
/// also waits for them: they are told to end, and never killed.
class existing_launcher final : public launcher {
 public:
  explicit existing_launcher(std::vector<unique_fd> sockets);

  /// The process at the other end of the next socket. Throws start_failed when none is left.
  [[nodiscard]] std::unique_ptr<target_process> start(node_id node, const target_url& url,
                                                      time_point deadline) override;

 private:
  std::vector<unique_fd> sockets_; ///< the next one last
};

} // namespace farcall
