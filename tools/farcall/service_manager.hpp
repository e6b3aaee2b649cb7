#pragma once

#include <farcall/transport/tcp/server.hpp>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace farcall::tool {

/// The service manager that has started this process, such as systemd, as far as it wants to hear
/// of it (sd_notify(3)). Any thread.
class service_manager {
 public:
  /// Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, and removes them, for those that this
  /// process starts. Values that make no sense are warned of. Not while other threads use the
  /// environment.
  service_manager();
  service_manager(const service_manager&) = delete;
  service_manager& operator=(const service_manager&) = delete;

  [[nodiscard]] bool wants_to_hear() const noexcept { return !socket_.empty(); }
  /// How long it waits for a sign of life; nothing: it wants none.
  [[nodiscard]] std::optional<std::chrono::microseconds> watchdog() const noexcept {
    return watchdog_;
  }

  /// Lines as "READY=1". Does not block; where it cannot be told, that is warned of, once.
  void tell(std::string_view state);

 private:
  std::string socket_; ///< as in sockaddr_un; empty: nobody wants to hear
  std::optional<std::chrono::microseconds> watchdog_;
  std::mutex mutex_;
  bool is_warned_ = false;
};

/// Tells the service manager what the server does, as it changes, and that it is alive where that
/// is waited for. A thread of its own, where somebody wants to hear.
class service_reports {
 public:
  using status_of_server =
      std::function<std::optional<server_status>(std::chrono::milliseconds longest)>;

  /// `ask` is called until the end of the object; `manager` outlives it.
  service_reports(service_manager& manager, status_of_server ask);
  service_reports(const service_reports&) = delete;
  service_reports& operator=(const service_reports&) = delete;
  ~service_reports();

 private:
  void report(std::chrono::microseconds interval);
  void run(std::chrono::microseconds interval) noexcept;

  service_manager* manager_;
  status_of_server ask_;
  std::string told_; ///< as status; its thread only
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};

} // namespace farcall::tool
