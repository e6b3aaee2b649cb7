#pragma once

#include <farcall/offload/job.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace farcall {

/// What has become of a node.
enum class node_change : std::uint8_t {
  joined,  ///< it was added, or started again
  failed,  ///< its process has ended, or cannot be reached
  removed, ///< job::remove() has taken it out
};

/// A change of which nodes a job has; see job::on_node_change(). A value.
struct node_event {
  node where;
  node_change what{};
  /// How it has ended; empty for one that has joined.
  std::string why;
  /// Of one that has joined: the node that it was started again for; no_node: none.
  node_id replaces = no_node;
};

namespace detail {

/// What is called.
class node_observer {
 public:
  node_observer() = default;
  node_observer(const node_observer&) = delete;
  node_observer& operator=(const node_observer&) = delete;
  virtual ~node_observer() = default;
  virtual void changed(const node_event& event) = 0;
};

void observe(job_state& job, std::shared_ptr<node_observer> observer);

/// What job::add(), remove() and restart() do.
[[nodiscard]] node add_target(job_state& job, std::string_view url);
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
