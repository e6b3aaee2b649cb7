// SPDX-License-Identifier: Apache-2.0
#include "call_tree.hpp"

#include "check.hpp"
#include "text.hpp"

#include <algorithm>
#include <compare>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace farcall::tool {

namespace {

/// Function of a call tree. An inlined function may have a name that is also the name of another
/// function, with another origin.
struct tree_function {
  std::string name;
  std::uint32_t module = 0;
  code_kind kind = code_kind::program;

  auto operator<=>(const tree_function&) const = default;
};

/// Numbers the functions of a profile. Functions with equal names, modules and origins get equal
/// numbers.
struct numbered_functions {
  std::vector<std::uint32_t> of_frame;
  std::vector<tree_function> functions;
};

numbered_functions number_functions(const profile& seen, const std::vector<std::string>& modules) {
  numbered_functions numbered;
  const code_kinds kinds(seen);
  std::map<tree_function, std::uint32_t> known;
  for (const profile_frame& frame : seen.frames) {
    const auto module = std::lower_bound(modules.begin(), modules.end(), frame.module);
    const std::uint32_t number = frame.module.empty()
                                     ? call_node::no_module
                                     : static_cast<std::uint32_t>(module - modules.begin());
    const auto next = static_cast<std::uint32_t>(numbered.functions.size());
    const auto [at, is_new] =
        known.try_emplace({name_of(frame), number, kinds.kind_of(frame)}, next);
    if (is_new) numbered.functions.push_back(at->first);
    numbered.of_frame.push_back(at->second);
  }
  return numbered;
}

class tree_builder {
 public:
  tree_builder(const profile& seen, call_tree& tree, bool folds_farcall)
      : seen_(seen), tree_(tree), functions_(number_functions(seen, tree.modules)),
        folds_farcall_(folds_farcall) {
    tree_.nodes.push_back({.name = "all", .children = {}});
    for (const tree_function& f : functions_.functions)
      pass_on_.push_back(passes_call_on(f.name));
  }

  /// Returns the child node for a label that is no function: a process, a thread or an activity.
  std::uint32_t labelled(std::uint32_t parent, const std::string& name) {
    const auto [at, is_new] = labels_.try_emplace({parent, name}, 0);
    if (is_new) at->second = add(parent, name, call_node::no_module, {});
    return at->second;
  }

  /// Returns the child of the root for samples of threads that do not compute.
  std::uint32_t waiting(activity does) {
    const std::uint32_t node = labelled(0, std::string(name_of(does)));
    tree_.nodes[node].is_waiting = true;
    return node;
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
    if (folds_farcall_) {
      const call_node& caller = tree_.nodes[parent];
      const bool is_below_farcall =
          caller.kind == code_kind::farcall && caller.module == call_node::no_module;
      const bool is_own = functions_.functions[function].kind == code_kind::farcall;
      if (is_below_farcall && (is_own || pass_on_[function])) return parent;
      if (is_own) {
        const std::uint32_t folded = labelled(parent, "farcall");
        tree_.nodes[folded].kind = code_kind::farcall;
        return folded;
      }
    }
    const auto [at, is_new] = calls_.try_emplace(key(parent, function), 0);
    if (is_new) {
      const tree_function& f = functions_.functions[function];
      at->second = add(parent, f.name, f.module, f.kind);
    }
    return at->second;
  }

  std::uint32_t add(std::uint32_t parent, const std::string& name, std::uint32_t module,
                    std::optional<code_kind> kind) {
    const auto number = static_cast<std::uint32_t>(tree_.nodes.size());
    tree_.nodes.push_back({.name = name,
                           .module = module,
                           .kind = kind,
                           .is_waiting = tree_.nodes[parent].is_waiting,
                           .depth = tree_.nodes[parent].depth + 1,
                           .children = {}});
    tree_.nodes[parent].children.push_back(number);
    return number;
  }

  const profile& seen_;
  call_tree& tree_;
  numbered_functions functions_;
  bool folds_farcall_;
  std::vector<bool> pass_on_; ///< by number of the function
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
      return std::tie(left.is_waiting, left.name, left.module) <
             std::tie(right.is_waiting, right.name, right.module);
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

  tree_builder builder(seen, tree, options.folds_farcall);
  using roots = call_tree_options::roots;
  const auto root_of = [&](const profile_thread& thread, activity does) {
    const bool is_waiting = options.has_activities && does != activity::computes;
    std::uint32_t root = is_waiting ? builder.waiting(does) : 0;
    if (options.root != roots::functions) root = builder.labelled(root, process_name(thread));
    if (options.root == roots::threads) root = builder.labelled(root, thread_name(thread));
    return root;
  };
  // Roots of the samples of a thread, by activity.
  std::map<std::pair<std::uint32_t, activity>, std::uint32_t> known;
  for (std::uint32_t i = 0; i < seen.threads.size(); ++i)
    known[{i, activity::computes}] = root_of(seen.threads[i], activity::computes);
  for (const profile_sample& sample : seen.samples) {
    if (options.only_computing && sample.does != activity::computes) continue;
    const auto [at, is_new] = known.try_emplace({sample.thread, sample.does}, 0);
    if (is_new) at->second = root_of(seen.threads[sample.thread], sample.does);
    builder.add_sample(at->second, sample.stack);
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
