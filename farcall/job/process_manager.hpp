#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace farcall {

/// What has started the processes of a job where the host has not: mpirun, prterun, srun, mpiexec.
/// It numbers them, and lets them exchange a few bytes before they know each other. As PMIx and PMI
/// have it. Not for several threads at once.
class process_manager {
 public:
  process_manager() = default;
  process_manager(const process_manager&) = delete;
  process_manager& operator=(const process_manager&) = delete;
  /// Says that this process ends in order, unless finalize() has.
  virtual ~process_manager() = default;

  /// For people: "PMIx 4.2", "PMI 1.1".
  [[nodiscard]] virtual std::string name() const = 0;
  /// This process's number, below size().
  [[nodiscard]] virtual node_id rank() const noexcept = 0;
  /// Processes that were started together.
  [[nodiscard]] virtual std::uint32_t size() const noexcept = 0;

  /// Lets the others read `value` (any bytes, some kilobytes) once all have passed a fence. A key
  /// is put once. Throws error.
  virtual void put(const std::string& key, const std::string& value) = 0;
  /// Waits until all processes have called it. Throws timeout, and error.
  virtual void fence(time_point deadline) = 0;
  /// What that process has put. Throws timeout, and error where it has put nothing.
  [[nodiscard]] virtual std::string get(node_id from, const std::string& key,
                                        time_point deadline) = 0;

  /// Has `lost` called, on a thread of the process manager's, when another process has ended
  /// without saying so in order, where it tells such things. Once.
  virtual void on_lost(std::function<void(node_id rank, const std::string& how)> lost) = 0;

  /// Ends all processes, this one included, with that exit status where it can. Does not wait.
  virtual void abort(int status, const std::string& why) noexcept = 0;

  /// Says that this process ends in order. Any number of times.
  virtual void finalize() noexcept = 0;
};

enum class process_manager_kind : std::uint8_t { none, pmix, pmi };

/// Which one has started this process, as its environment says.
[[nodiscard]] process_manager_kind launched_by() noexcept;

/// That process manager; null for none. Throws error where it cannot be spoken to.
[[nodiscard]] std::unique_ptr<process_manager> find_process_manager(process_manager_kind which);

} // namespace farcall
