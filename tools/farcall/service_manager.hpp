// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/library_thread.hpp>
#include <farcall/server/server.hpp>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace farcall::tool {

/// The service manager, such as systemd, that has started this process and wants to be told its
/// state (sd_notify(3)). There may be none. Thread-safe.
class service_manager {
 public:
  /// Reads the variables NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and removes them from the
  /// environment. So no other thread may use the environment during the call. Warns about invalid
  /// values.
  service_manager();
  service_manager(const service_manager&) = delete;
  service_manager& operator=(const service_manager&) = delete;

  [[nodiscard]] bool wants_to_receive() const noexcept { return !socket_.empty(); }
  /// Returns the time within which the service manager expects a heartbeat. Returns nothing if it
  /// expects none.
  [[nodiscard]] std::optional<std::chrono::microseconds> watchdog() const noexcept {
    return watchdog_;
  }

  /// Sends a state such as "READY=1" to the service manager, if there is one. Does not block. If
  /// sending fails, warns the user once.
  void tell(std::string_view state);

 private:
  /// Name of the service manager's socket, as in sockaddr_un. It is empty if there is no service
  /// manager.
  std::string socket_;
  std::optional<std::chrono::microseconds> watchdog_;
  std::mutex mutex_;
  bool is_warned_ = false;
};

/// Tells the service manager the state of a server whenever it changes, and that the server is
/// alive. If there is a service manager, the object has a thread for this purpose.
class service_reports {
 public:
  using status_of_server =
      std::function<std::optional<server_status>(std::chrono::milliseconds longest)>;

  /// The object calls `ask` until its destructor returns. `manager` must outlive the object.
  service_reports(service_manager& manager, status_of_server ask);
  service_reports(const service_reports&) = delete;
  service_reports& operator=(const service_reports&) = delete;
  ~service_reports();

 private:
  void report(std::chrono::microseconds interval);
  void run(std::chrono::microseconds interval) noexcept;

  service_manager* manager_;
  status_of_server ask_;
  std::string told_; ///< last state that the service manager was told; used only by thread_
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  library_thread thread_;
};

} // namespace farcall::tool
