// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_id.hpp>
#include <farcall/transport/launcher.hpp>

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace farcall {

struct transport_entry;

/// The launchers with which a host starts its targets: one for targets that become children of this
/// process, and one for each transport that has a launcher of its own. One thread at a time may use
/// it.
class launchers {
 public:
  using rows = std::map<std::string, std::unique_ptr<launcher>, std::less<>>;

  /// Makes the object without any launcher. `site` outlives the launchers.
  explicit launchers(const launch_site& site) : site_(site) {}

  /// Returns the launcher for targets whose transport is this row of the transport table. The first
  /// call for a row makes the launcher. Throws error.
  [[nodiscard]] launcher& of(const transport_entry& row);
  /// Returns the launcher like of(), for targets that are added to a running job. Throws
  /// setting_error if the transport `row` allows no targets to be added to this job.
  [[nodiscard]] launcher& of_added(const transport_entry& row);

  /// Returns the launchers of the transports that have one of their own; the key is the transport's
  /// scheme.
  [[nodiscard]] const rows& of_rows() const noexcept { return of_rows_; }
  /// Destroys the launchers of those transports that no target in `targets` uses.
  void keep_used(std::span<const target_url> targets);

 private:
  const launch_site& site_;
  rows of_rows_;
  std::unique_ptr<launcher> children_;
};

/// A group of targets that are started together, each by its own launcher.
class launch_batch {
 public:
  /// Adds a target to the group. The object `url` must exist until the target has been started.
  void add(launcher& from, node_id node, const target_url& url);
  /// Starts all targets of the group, and passes each started process to `take`. If a start fails,
  /// throws error after `take` has received the processes that were started before.
  void start(time_point deadline,
             const std::function<void(node_id, std::unique_ptr<target_process>)>& take);

 private:
  struct group {
    launcher* from;
    std::vector<wanted_target> wanted;
  };
  std::vector<group> groups_;
};

} // namespace farcall
