// SPDX-License-Identifier: Apache-2.0
#include "call_tree.hpp"

#include "check.hpp"
#include "text.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace farcall::tool {

namespace {

/// Numbers the functions of a profile. Functions with equal names and modules get equal numbers.
struct numbered_functions {
  std::vector<std::uint32_t> of_frame;
  std::vector<std::pair<std::string, std::uint32_t>> functions; ///< name, module
};

numbered_functions number_functions(const profile& seen, const std::vector<std::string>& modules) {
  numbered_functions numbered;
  std::map<std::pair<std::string, std::uint32_t>, std::uint32_t> known;
  for (const profile_frame& frame : seen.frames) {
    const auto module = std::lower_bound(modules.begin(), modules.end(), frame.module);
    const std::uint32_t number = frame.module.empty()
                                     ? call_node::no_module
                                     : static_cast<std::uint32_t>(module - modules.begin());
    const auto next = static_cast<std::uint32_t>(numbered.functions.size());
    const auto [at, is_new] = known.try_emplace({name_of(frame), number}, next);
    if (is_new) numbered.functions.push_back(at->first);
    numbered.of_frame.push_back(at->second);
  }
  return numbered;
}

class tree_builder {
 public:
  tree_builder(const profile& seen, call_tree& tree)
      : seen_(seen), tree_(tree), functions_(number_functions(seen, tree.modules)) {
    tree_.nodes.push_back({.name = "all", .children = {}});
  }

  /// Returns the child node for a label that is no function: a process, a thread or an activity.
  std::uint32_t labelled(std::uint32_t parent, const std::string& name) {
    const auto [at, is_new] = labels_.try_emplace({parent, name}, 0);
    if (is_new) at->second = add(parent, name, call_node::no_module);
    return at->second;
  }

  void add_sample(std::uint32_t root, std::uint32_t stack) {
    chain_.clear();
    std::uint32_t node = root;
    for (; stack != profile_stack::none; stack = seen_.stacks[stack].caller) {
      if (const auto known = stacks_.find(key(root, stack)); known != stacks_.end()) {
        node = known->second;
        break;
      }
      chain_.push_back(stack);
    }
    for (; !chain_.empty(); chain_.pop_back()) {
      node = called(node, functions_.of_frame[seen_.stacks[chain_.back()].frame]);
      stacks_.emplace(key(root, chain_.back()), node);
    }
    ++tree_.nodes[node].self;
  }

 private:
  static std::uint64_t key(std::uint32_t upper, std::uint32_t lower) {
    return std::uint64_t{upper} << 32U | lower;
  }

  std::uint32_t called(std::uint32_t parent, std::uint32_t function) {
    const auto [at, is_new] = calls_.try_emplace(key(parent, function), 0);
    if (is_new) {
      const auto& [name, module] = functions_.functions[function];
      at->second = add(parent, name, module);
    }
    return at->second;
  }

  std::uint32_t add(std::uint32_t parent, const std::string& name, std::uint32_t module) {
    const auto number = static_cast<std::uint32_t>(tree_.nodes.size());
    tree_.nodes.push_back(
        {.name = name, .module = module, .depth = tree_.nodes[parent].depth + 1, .children = {}});
    tree_.nodes[parent].children.push_back(number);
    return number;
  }

  const profile& seen_;
  call_tree& tree_;
  numbered_functions functions_;
  std::map<std::pair<std::uint32_t, std::string>, std::uint32_t> labels_;
  std::unordered_map<std::uint64_t, std::uint32_t> calls_;  ///< by parent and function
  std::unordered_map<std::uint64_t, std::uint32_t> stacks_; ///< by root and stack
  std::vector<std::uint32_t> chain_;
};

void sum_up(call_tree& tree) {
  for (std::size_t i = tree.nodes.size(); i-- > 0;) {
    call_node& node = tree.nodes[i];
    node.total = node.self;
    for (const std::uint32_t child : node.children)
      node.total += tree.nodes[child].total;
    std::sort(node.children.begin(), node.children.end(), [&](std::uint32_t a, std::uint32_t b) {
      const call_node& left = tree.nodes[a];
      const call_node& right = tree.nodes[b];
      return std::tie(left.name, left.module) < std::tie(right.name, right.module);
    });
  }
}

} // namespace

call_tree make_call_tree(const profile& seen, const call_tree_options& options) {
  check(seen);
  call_tree tree;
  for (const profile_frame& frame : seen.frames) {
    if (!frame.module.empty()) tree.modules.push_back(frame.module);
  }
  std::sort(tree.modules.begin(), tree.modules.end());
  tree.modules.erase(std::unique(tree.modules.begin(), tree.modules.end()), tree.modules.end());

  tree_builder builder(seen, tree);
  std::vector<std::uint32_t> root_of(seen.threads.size(), 0);
  for (std::size_t i = 0; i < seen.threads.size(); ++i) {
    using roots = call_tree_options::roots;
    const profile_thread& thread = seen.threads[i];
    if (options.root == roots::functions) continue;
    root_of[i] = builder.labelled(0, process_name(thread));
    if (options.root == roots::threads)
      root_of[i] = builder.labelled(root_of[i], thread_name(thread));
  }
  for (const profile_sample& sample : seen.samples) {
    if (options.only_computing && sample.does != activity::computes) continue;
    std::uint32_t root = root_of[sample.thread];
    if (options.has_activities && sample.does != activity::computes)
      root = builder.labelled(root, std::string(name_of(sample.does)));
    builder.add_sample(root, sample.stack);
  }
  sum_up(tree);
  return tree;
}

std::vector<std::uint32_t> depth_first(const call_tree& tree) {
  std::vector<std::uint32_t> order;
  std::vector<std::uint32_t> left(tree.nodes[0].children.rbegin(), tree.nodes[0].children.rend());
  while (!left.empty()) {
    const std::uint32_t node = left.back();
    left.pop_back();
    order.push_back(node);
    const auto& children = tree.nodes[node].children;
    left.insert(left.end(), children.rbegin(), children.rend());
  }
  return order;
}

} // namespace farcall::tool
