// SPDX-License-Identifier: Apache-2.0
#include "collapsed_stacks.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

namespace farcall::tool {

std::string collapsed_stacks(const profile& seen, const call_tree_options& options) {
  const call_tree tree = make_call_tree(seen, options);
  std::string text;
  std::string line;
  // For each level of the tree, the length of the line up to the end of that level's name.
  std::vector<std::size_t> ends{0};
  for (const std::uint32_t number : depth_first(tree)) {
    const call_node& node = tree.nodes[number];
    ends.resize(node.depth);
    line.resize(ends.back());
    if (node.depth > 1) line += ';';
    std::replace_copy(node.name.begin(), node.name.end(), std::back_inserter(line), ';', ':');
    ends.push_back(line.size());
    if (node.self > 0) text += line + ' ' + std::to_string(node.self) + '\n';
  }
  return text;
}

} // namespace farcall::tool
