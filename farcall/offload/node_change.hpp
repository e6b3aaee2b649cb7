// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/offload/job.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace farcall {

/// Kind of change of a node.
enum class node_change : std::uint8_t {
  joined,  ///< the node was added, or started again
  failed,  ///< the node's process has ended, or cannot be reached any more
  removed, ///< removed by job::remove()
};

/// A change of a job's nodes, as job::on_node_change() reports it. Can be copied.
struct node_event {
  node where;
  node_change what{};
  /// Description of how the node has ended; empty if the node has joined.
  std::string why;
  /// The failed or removed node in whose place `where` was started; no_node if there is none.
  node_id replaces = no_node;
};

namespace detail {

/// Receiver of node events.
class node_observer {
 public:
  node_observer() = default;
  node_observer(const node_observer&) = delete;
  node_observer& operator=(const node_observer&) = delete;
  virtual ~node_observer() = default;
  virtual void changed(const node_event& event) = 0;
};

void observe(job_state& job, std::shared_ptr<node_observer> observer);

/// Functions that implement job::add(), add_existing(), remove() and restart().
[[nodiscard]] node add_target(job_state& job, std::string_view url);
[[nodiscard]] node add_existing_target(job_state& job, unique_fd socket, std::uint32_t workers,
                                       node_id replaces);
void remove_target(const node& target);
[[nodiscard]] node restart_target(const node& failed);

template <class F>
class calling_observer final : public node_observer {
 public:
  explicit calling_observer(F f) : f_(std::move(f)) {}
  void changed(const node_event& event) override { f_(event); }

 private:
  F f_;
};

} // namespace detail

template <class F>
void job::on_node_change(F f) {
  detail::observe(state(), std::make_shared<detail::calling_observer<F>>(std::move(f)));
}

} // namespace farcall
