// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "code_kind.hpp"
#include "profile.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace farcall::tool {

/// A node of a call tree, which is a function that a certain chain of callers has called. If the
/// same function is called by another chain, it has another node.
struct call_node {
  static constexpr std::uint32_t no_module = std::numeric_limits<std::uint32_t>::max();
  std::string name;                 ///< valid text
  std::uint32_t module = no_module; ///< in call_tree::modules
  /// Origin of the function. It is empty for a node that is no function, such as a process.
  std::optional<code_kind> kind = {};
  /// True for the frames "waits" and "idle", and for the functions below them.
  bool is_waiting = false;
  /// Number of samples in which this function is the innermost one.
  std::uint64_t self = 0;
  /// Number of samples in which this function, or a function that it has called, is the innermost
  /// one.
  std::uint64_t total = 0;
  std::uint32_t depth = 0; ///< 0: the root
  /// Indices in call_tree::nodes, sorted by name and module. The frames "waits" and "idle" are
  /// last.
  std::vector<std::uint32_t> children;
};

/// Options of a call tree: the kind of its outermost frames, and the choice of the samples that are
/// counted.
struct call_tree_options {
  enum class roots : std::uint8_t { functions, processes, threads };
  roots root = roots::functions;
  bool only_computing = false;
  /// True to insert a frame "waits" or "idle" above all frames of samples with this activity.
  bool has_activities = false;
  /// True to replace successive functions of farcall by one frame. Parts of the standard library
  /// that farcall uses for a call, such as std::invoke, are replaced, too.
  bool folds_farcall = false;
};

/// Call tree of a profile, in which samples with equal chains of functions are merged. Each node
/// has a higher index than its caller. The first node is the root, which represents all samples.
struct call_tree {
  std::vector<call_node> nodes;
  std::vector<std::string> modules; ///< paths of the modules as in the profile, sorted
};

/// Merges the samples of a profile. Throws std::invalid_argument if the profile is damaged.
[[nodiscard]] call_tree make_call_tree(const profile& seen, const call_tree_options& options);

/// Returns the indices of the nodes in preorder, without the root. After a node come all nodes
/// below this node, and then the node's next sibling.
[[nodiscard]] std::vector<std::uint32_t> depth_first(const call_tree& tree);

} // namespace farcall::tool
