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

/// Passes packets of IPv4 between two network namespaces, and does to TCP connections what a
/// network with several paths does: one path stops passing long packets on, and what it has held
/// arrives at any later time.
class packet_forwarder {
 public:
  static constexpr const char* near_address = "10.203.78.1";
  static constexpr const char* far_address = "10.203.78.2";

  /// Makes a device in either namespace. Throws error.
  packet_forwarder(const std::string& near_namespace, const std::string& far_namespace);
  packet_forwarder(const packet_forwarder&) = delete;
  packet_forwarder& operator=(const packet_forwarder&) = delete;
  ~packet_forwarder();

  /// From here on, of the connections that there are: long packets from the near side are held, and
  /// resets and ends from there are dropped.
  void break_path();
  /// Lets what was held arrive, and waits until the far side has replied to each connection.
  /// Returns how many packets there were.
  std::size_t release_held();

 private:
  void run();
  void pass(int from, int to, bool is_from_near);
  /// With the mutex. True for a packet that is not to be passed on now.
  [[nodiscard]] bool is_kept(std::span<const std::byte> bytes, bool is_from_near);

  unique_fd near_;
  unique_fd far_;
  std::mutex mutex_;
  std::map<std::uint16_t, bool> flows_; ///< by ports of the near side; true if the path is broken
  std::vector<std::vector<std::byte>> held_;
  std::map<std::uint16_t, std::size_t> replies_; ///< packets from the far side since the release
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

} // namespace farcall::test
