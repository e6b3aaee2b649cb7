// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace farcall {

/// Connection to the launcher that has started the processes of the job in the host's place, for
/// example mpirun, prterun, srun or mpiexec. As in PMIx and PMI, the launcher gives each process a
/// number, and lets the processes exchange a few bytes before they have connections to each other.
/// One thread at a time may use it.
class process_manager {
 public:
  process_manager() = default;
  process_manager(const process_manager&) = delete;
  process_manager& operator=(const process_manager&) = delete;
  /// Reports that this process ends in order, unless finalize() was called.
  virtual ~process_manager() = default;

  /// Returns the name and version of the protocol for messages, for example "PMIx 4.2" or "PMI
  /// 1.1".
  [[nodiscard]] virtual std::string name() const = 0;
  /// Returns the number of this process, which is below size().
  [[nodiscard]] virtual node_id rank() const noexcept = 0;
  /// Returns how many processes were started together.
  [[nodiscard]] virtual std::uint32_t size() const noexcept = 0;

  /// Publishes `value` (any bytes, at most some kilobytes) to the other processes under `key`. They
  /// can get the value after a fence. Each key may be put only once. Throws error.
  virtual void put(const std::string& key, const std::string& value) = 0;
  /// Waits until all processes have called fence(). Throws timeout, and error.
  virtual void fence(time_point deadline) = 0;
  /// Returns the value that the process `from` has put under `key`. Throws timeout, and error if
  /// that process has put no such key.
  [[nodiscard]] virtual std::string get(node_id from, const std::string& key,
                                        time_point deadline) = 0;

  /// Registers the function `lost`, which is called when another process ends without reporting an
  /// orderly end. A thread of the process manager's library calls it. Has no effect with process
  /// managers that do not report such ends. Call it once.
  virtual void on_lost(std::function<void(node_id rank, const std::string& how)> lost) = 0;

  /// Ends all processes, this one included. If the process manager allows it, their job exits with
  /// `status`. Does not wait for the ends.
  virtual void abort(int status, const std::string& why) noexcept = 0;

  /// Reports that this process ends in order. Further calls have no effect.
  virtual void finalize() noexcept = 0;
};

enum class process_manager_kind : std::uint8_t { none, pmix, pmi };

/// Returns which kind of process manager has started this process, according to environment
/// variables.
[[nodiscard]] process_manager_kind launched_by() noexcept;

/// Connects to the process manager. Returns null for `none`. Throws error if the connection fails.
[[nodiscard]] std::unique_ptr<process_manager> find_process_manager(process_manager_kind which);

} // namespace farcall
