// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "file_work.hpp"

#include <farcall/base/unique_fd.hpp>

#include <memory>

namespace farcall::tool {

class forked_process;

/// A process that has the files of a work, and sends and receives their bytes over bare TCP
/// connections: the floor of reads and writes over TCP. Each thread of the work has a connection.
/// All bytes of a thread are one stream, without requests in between. Forks, so create it before
/// any thread.
class file_peer {
 public:
  file_peer();
  ~file_peer();
  file_peer(const file_peer&) = delete;
  file_peer& operator=(const file_peer&) = delete;

  /// Does the work by the other process. Returns nanoseconds from the beginning to the end of all
  /// threads. Throws failed_run.
  [[nodiscard]] double run(const file_work& work);

 private:
  unique_fd listener_;
  std::unique_ptr<forked_process> process_;
};

} // namespace farcall::tool
