#pragma once

#include "profile.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace farcall::tool {

/// A function as called from one chain of callers.
struct call_node {
  static constexpr std::uint32_t no_module = std::numeric_limits<std::uint32_t>::max();
  std::string name;                    ///< valid text
  std::uint32_t module = no_module;    ///< in call_tree::modules
  std::uint64_t self = 0;              ///< samples whose innermost frame it is
  std::uint64_t total = 0;             ///< and those of what it called
  std::uint32_t depth = 0;             ///< 0: the root
  std::vector<std::uint32_t> children; ///< in call_tree::nodes, by name and module
};

/// What a call tree has for its outermost frames, and of which samples it is.
struct call_tree_options {
  enum class roots : std::uint8_t { functions, processes, threads };
  roots root = roots::functions;
  bool only_computing = false;
  bool has_activities = false; ///< "waits" and "idle" stand before the functions of such samples
};

/// The samples of a profile, with equal chains of functions as one. A node's callers come before
/// it; the first node is the root, which stands for all samples.
struct call_tree {
  std::vector<call_node> nodes;
  std::vector<std::string> modules; ///< paths, sorted, as the profile has them
};

/// Throws std::invalid_argument for a damaged profile.
[[nodiscard]] call_tree make_call_tree(const profile& seen, const call_tree_options& options);

/// The nodes without the root, callers first, each with all below it before the next of its level.
[[nodiscard]] std::vector<std::uint32_t> depth_first(const call_tree& tree);

} // namespace farcall::tool
