#include "activity.hpp"

#include <algorithm>
#include <cstddef>

namespace farcall::tool {

namespace {

struct known_function {
  std::string_view beginning; ///< of its name
  function_part part;
};

/// Functions of farcall that mean something. Optimised builds have no frame pointers, so that a
/// stack may show one of them alone, without its callers: what is called by several is not here.
constexpr known_function known_functions[] = {
    {"farcall::am::engine::run_worker", function_part::idle},
    {"farcall::am::engine::serve", function_part::idle},
    {"farcall::am::engine::worker_sleep", function_part::idle},
    {"farcall::am::engine::requests_wait", function_part::idle},
    {"farcall::am::worker::turn", function_part::idle},
    {"farcall::am::worker_group::", function_part::idle},
    {"farcall::am::progress_thread::", function_part::idle},
    {"farcall::tcp::reactor::run", function_part::idle},
    {"farcall::line_forwarder::", function_part::idle},
    {"farcall::output_collector::", function_part::idle},
    {"farcall::am::engine::wait", function_part::waits},
    {"farcall::am::engine::poll", function_part::waits},
    {"farcall::am::engine::sleep", function_part::waits},
    {"farcall::am::engine::pump", function_part::waits},
    {"farcall::am::engine::reply_wait", function_part::waits},
    {"farcall::am::engine::event_wait", function_part::waits},
    {"farcall::am::engine::state_wait", function_part::waits},
    {"farcall::am::engine::space_wait", function_part::waits},
    {"farcall::am::engine::lane_wait", function_part::waits},
    {"farcall::am::engine::own_replies_wait", function_part::waits},
    {"farcall::am::engine::descriptor_wait", function_part::waits},
    {"farcall::am::requester::", function_part::waits},
    {"farcall::am::spin_wait::", function_part::waits},
    {"farcall::future<", function_part::waits},
    {"farcall::shared_future<", function_part::waits},
    {"farcall::job::wait", function_part::waits},
    {"farcall::job::barrier", function_part::waits},
    {"farcall::wait_a", function_part::waits},
    {"farcall::get_any", function_part::waits},
    {"farcall::copy", function_part::waits},
    {"farcall::put", function_part::waits},
    {"farcall::get", function_part::waits},
    {"farcall::doorbell::", function_part::waits},
    {"farcall::am::responder::serve_one", function_part::handles},
    {"farcall::detail::remote_call<", function_part::handles},
    {"farcall::detail::invoke", function_part::handles},
};

/// What templates return, and the "bool " before it, stand before the name.
std::string_view without_result(std::string_view name) {
  std::size_t start = 0;
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (c == '<') ++depth;
    if (c == '>') --depth;
    if (c == '(' && depth == 0) {
      // "(anonymous namespace)" is a part of names.
      if (!name.substr(i).starts_with("(anonymous namespace)")) break;
      i += std::string_view("(anonymous namespace)").size() - 1;
    }
    if (c == ' ' && depth == 0) start = i + 1;
  }
  return name.substr(start);
}

} // namespace

function_part part_of_function(std::string_view name) {
  const std::string_view plain = without_result(name);
  if (!plain.starts_with("farcall::")) return function_part::any;
  for (const known_function& known : known_functions) {
    if (plain.starts_with(known.beginning)) return known.part;
  }
  return function_part::any;
}

std::vector<activity> activities_of(const profile& p) {
  std::vector<function_part> parts(p.frames.size());
  std::ranges::transform(p.frames, parts.begin(), [](const profile_frame& frame) {
    return part_of_function(frame.function);
  });
  std::vector<activity> does(p.stacks.size());
  for (std::size_t i = 0; i < p.stacks.size(); ++i) {
    const profile_stack& stack = p.stacks[i];
    switch (parts[stack.frame]) {
    case function_part::any:
      does[i] = stack.caller == profile_stack::none ? activity::computes : does[stack.caller];
      break;
    case function_part::waits:
      does[i] = activity::waits;
      break;
    case function_part::idle:
      does[i] = activity::idle;
      break;
    case function_part::handles:
      does[i] = activity::computes;
      break;
    }
  }
  return does;
}

} // namespace farcall::tool
