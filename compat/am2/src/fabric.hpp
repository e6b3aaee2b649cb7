#pragma once

#include "message.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace farcall::am2 {

/// What becomes of a message that is given to a fabric.
enum class sending : std::uint8_t {
  sent,        ///< the sender's memory may be used again
  full,        ///< not now; nothing has happened
  unreachable, ///< the node has ended
};

/// Takes what arrives: see process::deliver().
class receiver {
 public:
  virtual void deliver(int node, const message& m) noexcept = 0;
  /// The node has ended. Any thread, also while nobody polls.
  virtual void node_has_ended(int node) noexcept = 0;

 protected:
  ~receiver() = default;
};

/// What carries messages between processes.
class fabric {
 public:
  fabric() = default;
  fabric(const fabric&) = delete;
  fabric& operator=(const fabric&) = delete;
  virtual ~fabric() = default;

  [[nodiscard]] virtual int self() const noexcept = 0;
  [[nodiscard]] virtual int size() const noexcept = 0;

  /// Never waits, and delivers nothing. Any thread. To other nodes only.
  [[nodiscard]] virtual sending try_send(int node, const message& m) noexcept = 0;
  /// Delivers what has arrived. One thread at a time; does not wait.
  virtual void poll() noexcept = 0;
  /// Sleeps until something may have arrived, wake() was called, or `most` has passed. The thread
  /// that may poll.
  virtual void wait(std::chrono::nanoseconds most) noexcept = 0;
  /// Ends a wait(), now or the next one. Any thread.
  virtual void wake() noexcept = 0;

  /// Copies into memory of another node, by the calling thread and without its help. False when
  /// that is not possible; nothing has been changed then.
  [[nodiscard]] virtual bool put(int node, std::uint64_t address, const void* from,
                                 std::size_t bytes) noexcept = 0;
  /// Memory that put() of others reaches best; null where there is none of the kind.
  [[nodiscard]] virtual void* allocate(std::size_t bytes) noexcept = 0;
  virtual void release(void* memory) noexcept = 0;

  /// Collective: the job ends. `code` is this process's.
  virtual void close(int code) noexcept = 0;
};

} // namespace farcall::am2
