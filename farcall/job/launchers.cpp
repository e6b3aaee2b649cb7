// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/job/child_launcher.hpp>
#include <farcall/job/launchers.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace farcall {

launcher& launchers::of(const transport_entry& row) {
  if (!row.make_launcher) {
    if (!children_) children_ = std::make_unique<child_launcher>(site_);
    return *children_;
  }
  auto& made = of_rows_[row.scheme];
  if (!made) made = row.make_launcher(site_);
  return *made;
}

launcher& launchers::of_added(const transport_entry& row) {
  if (row.host) {
    throw setting_error("targets \"" + row.scheme + "\" live in the host's process, and can only " +
                        "be there from the start");
  }
  // Refuse the target. A transport that has a launcher exists either on all nodes or on none, and
  // the start of the job decides which.
  if (row.make_launcher && !of_rows_.contains(row.scheme)) {
    throw setting_error("a job that has started without targets \"" + row.scheme +
                        "\" cannot add any; start it with one of them");
  }
  return of(row);
}

void launchers::keep_used(std::span<const target_url> targets) {
  std::erase_if(of_rows_, [&](const auto& of) {
    return std::ranges::find(targets, of.first, &target_url::scheme) == targets.end();
  });
}

void launch_batch::add(launcher& from, node_id node, const target_url& url) {
  auto at = std::ranges::find(groups_, &from, &group::from);
  if (at == groups_.end()) at = groups_.insert(groups_.end(), {&from, {}});
  at->wanted.push_back({node, &url});
}

void launch_batch::start(
    time_point deadline,
    const std::function<void(node_id, std::unique_ptr<target_process>)>& take) {
  for (const group& g : groups_) {
    auto started = g.from->start_all(g.wanted, deadline);
    for (std::size_t i = 0; i < started.size(); ++i)
      take(g.wanted[i].node, std::move(started[i]));
  }
}

} // namespace farcall
