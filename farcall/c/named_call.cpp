// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/responder.hpp>
#include <farcall/am/stack_state.hpp>
#include <farcall/c/errors.hpp>
#include <farcall/c/function_table.hpp>
#include <farcall/c/named_call.hpp>
#include <farcall/c/reply.hpp>
#include <farcall/c/taken_calls.hpp>
#include <farcall/call/message_handler.hpp>
#include <farcall/offload/job_counters.hpp>

#include <memory>
#include <span>
#include <string>

using namespace farcall;
using namespace farcall::c;

namespace farcall::c {
namespace {

/// Keeps a call until fc_take() takes it.
void take_later(fc_function function, void* user, message& m) {
  taken_calls::instance().push(std::make_unique<taken_call>(function, user, m));
}

void run_named(am::request_context& request) noexcept {
  detail::message_type<named_call>::run(
      request, request.context(), [](named_call call, message& m) {
        const auto* const found = function_table::instance().find(call.function);
        if (found == nullptr) return m.request().reply_unknown();
        if (found->run == nullptr) return take_later(call.function, found->user, m);
        // Copy the bytes out of the lane's ring, because the handler may wait, and the bytes would
        // take space in the ring during this time.
        message::kept_payload kept;
        const std::span<const std::byte> bytes = m.keep(kept);
        fc_reply reply(m.request(), counted_ptr(am::this_stack.stop));
        found->run(&reply, bytes.data(), bytes.size(), found->user);
      });
}

std::string name_of(std::uint32_t extra) {
  return function_table::instance().name_by_handle({extra});
}

void register_name(const char* name, function_table::registration what) {
  require(name, "name");
  const fc_function function = hash_of(name);
  const bool is_first = function_table::instance().add(name, function, what);
  // Do not use named_entry, which may not exist yet: programs may register before main().
  if (is_first) {
    detail::name_in_counters(detail::type_name<named_call>(), handle_of(function).value, name);
  }
}

} // namespace

// The entry through which calls by name arrive. The entry is not local to this file, and its name
// is the same in all builds, so that programs of different builds can call each other.
entry named_entry{detail::type_name<named_call>(), [] { return std::string("reply(name, bytes)"); },
                  &run_named, entry_compiler, &name_of};

} // namespace farcall::c

fc_status fc_register(const char* name, fc_handler run, void* user) {
  return guarded([&] {
    if (run == nullptr) throw invalid_argument("run must not be NULL");
    register_name(name, {run, user});
  });
}

fc_status fc_register_taken(const char* name, void* user) {
  return guarded([&] { register_name(name, {nullptr, user}); });
}

fc_status fc_unregister(const char* name) {
  return guarded([&] {
    require(name, "name");
    if (!function_table::instance().remove(hash_of(name))) {
      throw invalid_argument("no function '" + std::string(name) + "' is registered");
    }
  });
}

fc_function fc_named(const char* name) {
  fc_function function = 0;
  (void)guarded([&] {
    require(name, "name");
    function = function_table::instance().know(name, hash_of(name));
  });
  return function;
}
