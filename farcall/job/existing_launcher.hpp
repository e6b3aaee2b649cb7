// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/transport/launcher.hpp>

#include <memory>
#include <vector>

namespace farcall {

/// Makes targets of processes of this machine that exist already, for instance the ranks of a
/// launcher. For each process, this launcher gets one end of a socket pair (Unix, seqpacket); the
/// process has the other end, and joins the job through it. The program that has started the
/// processes also waits for their end. For this reason this launcher only tells the processes to
/// end, and never kills them.
class existing_launcher final : public launcher {
 public:
  explicit existing_launcher(std::vector<unique_fd> sockets);

  /// Returns the target `node`, which is the process at the other end of the next unused socket.
  /// Throws start_failed if all sockets are used.
  [[nodiscard]] std::unique_ptr<target_process> start(node_id node, const target_url& url,
                                                      time_point deadline) override;

 private:
  /// Unused sockets in reverse order, so that the next one is the last element.
  std::vector<unique_fd> sockets_;
};

} // namespace farcall
