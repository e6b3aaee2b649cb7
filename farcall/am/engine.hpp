// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/acceptor.hpp>
#include <farcall/am/client.hpp>
#include <farcall/am/doorbell_layout.hpp>
#include <farcall/am/engine_options.hpp>
#include <farcall/am/handler_table.hpp>
#include <farcall/am/lane_table.hpp>
#include <farcall/am/peer_table.hpp>
#include <farcall/am/settling.hpp>
#include <farcall/am/stopping.hpp>
#include <farcall/am/waiter.hpp>
#include <farcall/am/worker_pool.hpp>
#include <farcall/base/clock.hpp>
#include <farcall/base/fork.hpp>
#include <farcall/memory/counter_segment.hpp>
#include <farcall/memory/doorbell.hpp>
#include <farcall/memory/shared_heap.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace farcall::am {

/// Active messages between the nodes of one job, as seen from one node. The engine owns its parts
/// and does the work that involves several of them: failures of nodes, and shutdown. Any thread may
/// use it, unless the documentation of a part says otherwise.
class engine final : public client,
                     public std::enable_shared_from_this<engine>,
                     private fork_observer {
 public:
  explicit engine(engine_options o);
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;
  ~engine() override;

  // ---- parts ----

  [[nodiscard]] peer_table& peers() noexcept { return peers_; }
  [[nodiscard]] lane_table& lanes() noexcept { return lanes_; }
  [[nodiscard]] am::acceptor& acceptor() noexcept { return acceptor_; }
  [[nodiscard]] worker_pool& workers() noexcept { return workers_; }
  [[nodiscard]] am::waiter& waiter() noexcept { return waiter_; }
  [[nodiscard]] stopping& stops() noexcept { return stops_; }
  [[nodiscard]] const handler_table& handlers() const noexcept { return handlers_; }

  // ---- the node ----

  [[nodiscard]] shared_heap& heap() const noexcept { return *options_.heap; }
  /// Allocates a block of this node's heap. Throws out_of_memory with a text that names this node.
  [[nodiscard]] std::byte* allocate_block(std::uint64_t bytes);
  [[nodiscard]] const std::shared_ptr<counter_segment>& counters() const noexcept {
    return options_.counters;
  }
  /// Returns the calling thread's counters, which the first call allocates. Returns null if no
  /// doorbell or memory is left.
  [[nodiscard]] thread_counters* counters_of_thread() noexcept {
    return lanes_.counters_of_thread();
  }
  /// Returns the recorder of the job's trace; null if the job is not traced.
  [[nodiscard]] trace::recorder* recorder() const noexcept { return options_.recorder; }
  /// Returns the completion thread, which runs continuations. A continuation may block this thread,
  /// because other threads never depend on it.
  [[nodiscard]] continuation_sink& other_thread() noexcept { return waiter_.completions(); }

  // ---- other nodes ----

  [[nodiscard]] farcall::rma_engine* rma_engine_for(node_id node) const noexcept {
    return peers_.rma_engine_for(node);
  }
  [[nodiscard]] bool has_failed(node_id node) const noexcept { return peers_.has_failed(node); }
  /// Returns the error with which calls to the node end, or null while the node is alive.
  [[nodiscard]] std::exception_ptr failure_of(node_id node) const noexcept {
    return peers_.failure_of(node);
  }
  /// Marks the node as failed. Ends all calls to the node with node_failed, which has the text
  /// `why`, and stops the node's calls that run on this node.
  void fail(node_id node, const std::string& why);

  // ---- the end ----

  /// See settling::drain().
  void drain(time_point deadline, node_id only = no_node) noexcept {
    settling_.drain(deadline, only);
  }
  /// See settling::settle().
  [[nodiscard]] bool settle(time_point deadline) { return settling_.settle(deadline); }
  /// Ends every outstanding call with an error whose text is `why`, and joins the workers. Returns
  /// false if a handler or a continuation has not returned by `deadline`; then the engine, and all
  /// that it uses, must not be destroyed.
  bool shut_down(const std::string& why, time_point deadline = no_deadline);

 private:
  /// Ends all calls to and from the nodes `failed`, which are marked as failed. Returns the
  /// continuations that the caller must run.
  [[nodiscard]] continuation_list end_calls_of(const std::vector<node_id>& failed);
  void after_fork_in_child() noexcept override;

  // Parts of the engine. The part that is declared last is destroyed first.
  engine_options options_;
  handler_table handlers_;
  doorbell_layout doorbells_;
  doorbell local_doorbell_; ///< notified when an event of this process was completed
  peer_table peers_;
  lane_table lanes_;
  am::acceptor acceptor_;
  worker_pool workers_;
  am::waiter waiter_;
  settling settling_;
  stopping stops_;
};

/// Returns the engine behind a client, since every client is an engine.
[[nodiscard]] inline engine& engine_of(client& c) noexcept { return static_cast<engine&>(c); }

} // namespace farcall::am
