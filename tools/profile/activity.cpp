// SPDX-License-Identifier: Apache-2.0
#include "activity.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace farcall::tool {

namespace {

struct known_function {
  std::string_view beginning; ///< of the function's name
  function_part part;
};

constexpr known_function known_functions[] = {
    {"farcall::am::worker_pool::run", function_part::idle},
    {"farcall::am::worker_pool::serve", function_part::idle},
    {"farcall::am::run_wait_loop<farcall::am::(anonymous namespace)::worker_scope",
     function_part::idle},
    {"farcall::am::(anonymous namespace)::worker_scope", function_part::idle},
    {"farcall::am::(anonymous namespace)::closing_wait", function_part::idle},
    {"farcall::am::(anonymous namespace)::serve_some", function_part::idle},
    {"farcall::am::requests_wait", function_part::idle},
    {"farcall::am::waiter::serve", function_part::idle},
    {"farcall::am::worker::", function_part::idle},
    {"farcall::am::worker_group::", function_part::idle},
    {"farcall::am::responder::", function_part::idle},
    {"farcall::am::progress_thread::", function_part::idle},
    {"farcall::event_loop::", function_part::idle},
    {"farcall::line_forwarder::", function_part::idle},
    {"farcall::output_collector::", function_part::idle},
    {"farcall::am::waiter::wait", function_part::waits},
    {"farcall::am::run_wait_loop<", function_part::waits},
    {"farcall::am::(anonymous namespace)::waiting_scope", function_part::waits},
    {"farcall::am::(anonymous namespace)::lone_scope", function_part::waits},
    {"farcall::am::(anonymous namespace)::descriptor_wait", function_part::waits},
    {"farcall::am::reply_wait", function_part::waits},
    {"farcall::am::event_wait", function_part::waits},
    {"farcall::am::state_wait", function_part::waits},
    {"farcall::am::space_wait", function_part::waits},
    {"farcall::am::lane_wait", function_part::waits},
    {"farcall::am::own_replies_wait", function_part::waits},
    {"farcall::am::spin_for_reply", function_part::waits},
    {"farcall::am::requester::spin_for", function_part::waits},
    {"farcall::job::wait", function_part::waits},
    {"farcall::job::barrier", function_part::waits},
    {"farcall::wait_any", function_part::waits},
    {"farcall::copy<", function_part::waits},
    {"farcall::copy(", function_part::waits},
    {"farcall::put<", function_part::waits},
    {"farcall::put(", function_part::waits},
    {"farcall::get<", function_part::waits},
    {"farcall::get(", function_part::waits},
    {"farcall::am::waiter::poll", function_part::looks},
    {"farcall::am::waiter::pump", function_part::looks},
    {"farcall::am::waiter::sleep", function_part::looks},
    {"farcall::am::lane_table::pump", function_part::looks},
    {"farcall::am::acceptor::poll", function_part::looks},
    {"farcall::am::take_replies", function_part::looks},
    {"farcall::am::requester::pump", function_part::looks},
    {"farcall::am::spin_wait::", function_part::looks},
    {"farcall::am::has_queued_continuations", function_part::looks},
    {"farcall::am::queue_continuations", function_part::looks},
    {"farcall::doorbell::", function_part::looks},
    {"farcall::detail::remote_call<", function_part::handles},
    {"farcall::detail::invoke", function_part::handles},
};

/// Libraries whose functions have no role of their own: the libraries of the system, and farcall.
/// If such a function calls a function of the program, it does so on behalf of its caller.
constexpr std::string_view system_libraries[] = {"libc.so",   "libc-",      "libm.so",
                                                 "libstdc++", "libgcc",     "libpthread",
                                                 "ld-linux",  "libfarcall", "[vdso]"};

bool is_future_wait(std::string_view name) {
  return (name.starts_with("farcall::future<") || name.starts_with("farcall::shared_future<")) &&
         (name.find(">::get(") != std::string_view::npos ||
          name.find(">::wait") != std::string_view::npos);
}

bool is_of_the_system(const profile_frame& frame) {
  // Functions without a module belong to the kernel (vDSO).
  if (frame.module.empty()) return true;
  const std::string_view path = frame.module;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  return std::ranges::any_of(system_libraries,
                             [&](std::string_view name) { return file.starts_with(name); });
}

struct stack_activity {
  activity does = activity::computes;
  bool is_certain = true; ///< false if it is unknown whether the thread waits or is idle
};

function_part part_of_frame(const profile_frame& frame) {
  const function_part part = part_of_function(frame.function);
  // Treat an inlined function like a library function, because its name may lack the namespace that
  // would show its role.
  if (part == function_part::any && (frame.is_inlined || is_of_the_system(frame)))
    return function_part::library;
  return part;
}

std::vector<stack_activity> activities_of_stacks(const profile& p) {
  std::vector<function_part> parts(p.frames.size());
  std::ranges::transform(p.frames, parts.begin(), part_of_frame);
  std::vector<stack_activity> stacks(p.stacks.size());
  for (std::size_t i = 0; i < p.stacks.size(); ++i) {
    const profile_stack& stack = p.stacks[i];
    // Begin with the activity of the caller's stack, which was computed before because its index is
    // lower.
    if (stack.caller != profile_stack::none) stacks[i] = stacks[stack.caller];
    switch (parts[stack.frame]) {
    case function_part::library:
      break;
    case function_part::waits:
      stacks[i] = {.does = activity::waits};
      break;
    case function_part::idle:
      stacks[i] = {.does = activity::idle};
      break;
    case function_part::looks:
      if (stacks[i].does == activity::computes)
        stacks[i] = {.does = activity::waits, .is_certain = false};
      break;
    case function_part::any:
    case function_part::handles:
      stacks[i] = {};
      break;
    }
  }
  return stacks;
}

} // namespace

std::string_view without_result(std::string_view name) {
  std::size_t start = 0;
  int depth = 0;
  std::size_t i = 0;
  // The parentheses of decltype belong to the return type.
  if (name.starts_with("decltype")) {
    int open = 0;
    do {
      if (name[i] == '(') ++open;
      if (name[i] == ')' && --open == 0) break;
    } while (++i < name.size());
  }
  for (; i < name.size(); ++i) {
    const char c = name[i];
    if (c == '<') ++depth;
    if (c == '>') --depth;
    if (c == '(' && depth == 0) {
      // The text "(anonymous namespace)" is a part of a name, so its parenthesis does not begin the
      // function's arguments.
      if (!name.substr(i).starts_with("(anonymous namespace)")) break;
      i += std::string_view("(anonymous namespace)").size() - 1;
    }
    if (c == ' ' && depth == 0) start = i + 1;
  }
  return name.substr(start);
}

function_part part_of_function(std::string_view name) {
  // A thread that yields its processor has nothing to do, so it is polling.
  if (name == "sched_yield" || name == "__sched_yield") return function_part::looks;
  const std::string_view plain = without_result(name);
  if (plain.starts_with("std::")) return function_part::library;
  if (!plain.starts_with("farcall::")) return function_part::any;
  if (is_future_wait(plain)) return function_part::waits;
  for (const known_function& known : known_functions) {
    if (plain.starts_with(known.beginning)) return known.part;
  }
  return function_part::library;
}

void classify_samples(profile& p) {
  const std::vector<stack_activity> stacks = activities_of_stacks(p);
  struct counts {
    std::size_t waits = 0;
    std::size_t idle = 0;
  };
  std::vector<counts> threads(p.threads.size());
  for (profile_sample& s : p.samples) {
    s.does = stacks[s.stack].does;
    if (!stacks[s.stack].is_certain) continue;
    threads[s.thread].waits += s.does == activity::waits ? 1U : 0U;
    threads[s.thread].idle += s.does == activity::idle ? 1U : 0U;
  }
  for (profile_sample& s : p.samples) {
    const counts& of_thread = threads[s.thread];
    if (!stacks[s.stack].is_certain && of_thread.idle > of_thread.waits) s.does = activity::idle;
  }
}

} // namespace farcall::tool
