#pragma once

#include "compact_message.hpp"
#include "message.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace farcall::am2 {

/// What becomes of a message that is given to a fabric.
enum class sending : std::uint8_t {
  sent,        ///< the sender's memory may be used again
  full,        ///< not now; nothing has happened
  no_memory,   ///< as full: there is no memory for the payload now, though there may be for less
  unreachable, ///< the node has ended
};

/// Takes what arrives: see process::deliver().
class receiver {
 public:
  virtual void deliver(int node, const message& m) noexcept = 0;
  /// The same for a short message, and for a medium one, at less cost.
  virtual void deliver(const compact_message& m) noexcept = 0;
  virtual void deliver(const compact_message& m, const void* payload,
                       std::uint64_t bytes) noexcept = 0;
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
  /// The same at less cost for a short message, and for a medium one.
  [[nodiscard]] virtual sending try_send(int node, const compact_message& m) noexcept = 0;
  [[nodiscard]] virtual sending try_send(int node, const compact_message& m, const void* payload,
                                         std::uint64_t bytes) noexcept = 0;
  /// The thread that messages are delivered on, in poll() and wait(); none, where they are
  /// delivered on a thread of farcall's.
  [[nodiscard]] virtual std::thread::id receiving_thread() const noexcept = 0;
  /// Delivers what has arrived. The receiving thread; does not wait.
  virtual void poll() noexcept = 0;
  /// Sleeps until something has arrived, wake() was called, or `most` has passed. The same.
  virtual void wait(std::chrono::nanoseconds most) noexcept = 0;
  /// Ends a wait(), now or the next one. Any thread.
  virtual void wake() noexcept = 0;

  /// Tells the receiver of nodes that have ended; at most some 100 times a second. Any thread.
  virtual void look_for_ends() noexcept = 0;

  /// Memory of another node, as this process can use it too; null where that is not so. Never
  /// waits.
  [[nodiscard]] virtual std::byte* map(int node, std::uint64_t address,
                                       std::size_t bytes) noexcept = 0;
  /// Copies into other memory of another node, without its help. False when that is not possible.
  /// Outside handlers: may wait.
  [[nodiscard]] virtual bool put(int node, std::uint64_t address, const void* from,
                                 std::size_t bytes) noexcept = 0;
  /// Memory that put() of others reaches best; null where there is none of the kind.
  [[nodiscard]] virtual void* allocate(std::size_t bytes) noexcept = 0;
  virtual void release(void* memory) noexcept = 0;

  /// From now on the end of another process is something that this one copes with, and does not end
  /// the job. Any thread.
  virtual void survive_ends() noexcept = 0;
  /// Collective: the job ends. `code` is this process's.
  virtual void close(int code) noexcept = 0;
};

} // namespace farcall::am2
