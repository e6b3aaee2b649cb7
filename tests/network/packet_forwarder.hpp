// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace farcall::test {

/// Forwards IPv4 packets between two network namespaces, and treats TCP connections like a network
/// with several paths: one path stops forwarding long packets, and the held packets arrive at any
/// later time.
class packet_forwarder {
 public:
  static constexpr const char* near_address = "10.203.78.1";
  static constexpr const char* far_address = "10.203.78.2";

  /// Makes a device in each namespace. Throws error.
  packet_forwarder(const std::string& near_namespace, const std::string& far_namespace);
  packet_forwarder(const packet_forwarder&) = delete;
  packet_forwarder& operator=(const packet_forwarder&) = delete;
  ~packet_forwarder();

  /// Breaks the path of the existing connections: holds long packets from the near side, and drops
  /// its FIN and RST packets.
  void break_path();
  /// Delivers the held packets, and waits until the far side has replied on each connection.
  /// Returns the number of packets.
  std::size_t release_held();

 private:
  void run();
  void pass(int from, int to, bool is_from_near);
  /// Called with the mutex held. True if the packet is held or dropped.
  [[nodiscard]] bool is_kept(std::span<const std::byte> bytes, bool is_from_near);

  unique_fd near_;
  unique_fd far_;
  std::mutex mutex_;
  std::map<std::uint16_t, bool> flows_; ///< by the near side's port; true if the path is broken
  std::vector<std::vector<std::byte>> held_;
  std::map<std::uint16_t, std::size_t> replies_; ///< packets from the far side since the release
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

} // namespace farcall::test
