// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ham/msg/active_msg.hpp>
#include <ham/net/communicator.hpp>

#include <farcall/farcall.hpp>

#include <atomic>
#include <cstddef>
#include <span>

namespace ham::offload {

/// Job of a HAM program, and the state of this compatibility layer. Each process has one object.
class runtime {
 public:
  /// Functor that calls abort() on a target. abort() sets a flag, which the program's own code on
  /// the target can poll. The functor does not stop the target, which serves the job until the job
  /// ends.
  class terminate_functor
      : public msg::active_msg<terminate_functor, msg::execution_policy_direct> {
   public:
    using result_type = void;
    void operator()() const { runtime::instance().abort(); }
  };

  [[nodiscard]] static runtime& instance();

  /// Starts the job. On the host, starts the targets and returns true. On a target, serves the job
  /// until the job ends, and then returns false. Leaves argv unchanged. Throws the exceptions of
  /// farcall::job's constructor, and farcall::setting_error for invalid options of HAM.
  bool start(int argc, char** argv);
  /// Ends the targets if this process is the host. Has no effect on a target.
  void stop();

  [[nodiscard]] bool initialised() const noexcept;
  /// Returns the number of this node. Can also be called after the end of the job.
  [[nodiscard]] node_t this_node() const;
  [[nodiscard]] int num_nodes() const;
  [[nodiscard]] bool is_host() const { return this_node() == 0; }
  [[nodiscard]] const net::node_descriptor& node_description(node_t node);
  /// Returns the node with this number. Throws farcall::error if there is no such node.
  [[nodiscard]] farcall::node node(node_t number) const {
    const auto id = static_cast<std::size_t>(number);
    return id < nodes_.size() ? nodes_[id] : find_node(number);
  }
  void terminate_workers() { stop(); }
  /// Sets the flag that asks this process to end its work. Returns the old value of the flag.
  bool abort() noexcept { return is_aborted_.exchange(true, std::memory_order_relaxed); }

 private:
  runtime() = default;
  [[nodiscard]] farcall::node find_node(node_t number) const;

  /// Nodes of the job by number, on the host as long as it has a job; empty otherwise. Each offload
  /// calls node(). That function reads this view, so that it needs no call of a function in the
  /// library.
  std::span<const farcall::node> nodes_;
  // Accesses are relaxed, because the program only polls the flag, and the flag publishes no other
  // data.
  std::atomic<bool> is_aborted_{false};
};

} // namespace ham::offload
