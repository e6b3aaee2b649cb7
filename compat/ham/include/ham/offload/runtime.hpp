#pragma once

#include <ham/msg/active_msg.hpp>
#include <ham/net/communicator.hpp>

#include <farcall/farcall.hpp>

#include <atomic>
#include <cstddef>
#include <span>

namespace ham::offload {

/// The one job of a program that speaks HAM. The state of this face.
class runtime {
 public:
  /// Tells a target to end. Targets serve until the job ends, so that it only says so to the
  /// program's own code there.
  class terminate_functor
      : public msg::active_msg<terminate_functor, msg::execution_policy_direct> {
   public:
    using result_type = void;
    void operator()() const { runtime::instance().abort(); }
  };

  [[nodiscard]] static runtime& instance();

  /// On a target: serves until the job ends; then false. On the host: starts the targets; true.
  /// Leaves argv as it is. Throws what farcall::job throws.
  bool start(int argc, char** argv);
  /// Host: ends the targets.
  void stop();

  [[nodiscard]] bool initialised() const noexcept;
  /// After the end of the job, what it was.
  [[nodiscard]] node_t this_node() const;
  [[nodiscard]] int num_nodes() const;
  [[nodiscard]] bool is_host() const { return this_node() == 0; }
  [[nodiscard]] const net::node_descriptor& node_description(node_t node);
  /// Throws farcall::error when there is none of that number.
  [[nodiscard]] farcall::node node(node_t number) const {
    const auto id = static_cast<std::size_t>(number);
    return id < nodes_.size() ? nodes_[id] : find_node(number);
  }
  /// The same as stop().
  void terminate_workers() { stop(); }
  /// Asks this process to end its work; true when it was asked before.
  bool abort() noexcept { return is_aborted_.exchange(true, std::memory_order_relaxed); }

 private:
  runtime() = default;
  [[nodiscard]] farcall::node find_node(node_t number) const;

  /// Of the job, by number; on the host while there is one. A call looks here only.
  std::span<const farcall::node> nodes_;
  // A sign for the program, with no partner here.
  std::atomic<bool> is_aborted_{false};
};

} // namespace ham::offload
