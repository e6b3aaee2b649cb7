// SPDX-License-Identifier: Apache-2.0
#include <farcall/c/convert.hpp>
#include <farcall/c/future.hpp>
#include <farcall/c/library.h>
#include <farcall/native/native_call.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

using namespace farcall;
using namespace farcall::c;

namespace {

static_assert(sizeof(fc_value) == sizeof(native::argument) &&
              alignof(fc_value) == alignof(native::argument));
static_assert(offsetof(fc_in_bytes, size) == 8 && offsetof(fc_out_bytes, size) == 8);
static_assert(sizeof(long) == 8 && sizeof(int) == 4 && sizeof(short) == 2);

/// errno after the last function whose result this thread has received.
thread_local int last_errno = 0;

const native::argument* arguments_of(const fc_value* values) noexcept {
  // Members of native::argument read only bytes, so that any object may be read in this way.
  return reinterpret_cast<const native::argument*>(values);
}

timed_node node_of_library(const fc_library& library) {
  if (library.node.job == nullptr)
    throw invalid_argument("this fc_library is empty; take one from fc_library_load()");
  return {node_of(library.node), deadline_of(library.node)};
}

native::remote_function function_of(const fc_native& function) {
  if (function.type == nullptr) [[unlikely]]
    throw invalid_argument("this fc_native is empty; take one from fc_symbol()");
  return {function.library, function.number, function.name,
          static_cast<const native::signature*>(function.type)};
}

/// Throws invalid_argument if the function cannot be called with these arguments on this node.
void require_call(const fc_node& where, const fc_native& function, const native::signature& type,
                  const fc_value* arguments) {
  if (where.id != function.node) [[unlikely]] {
    throw invalid_argument("this function is of " + node_text(function.node) +
                               ", and the call goes to " + node_text(where.id) +
                               "; look the function up in a library that this node has loaded",
                           where.id);
  }
  if (!type.parameters.empty()) require(arguments, "arguments");
  if (!type.has_buffers) return;
  for (std::size_t i = 0; i < type.parameters.size(); ++i) {
    if (type.parameters[i].way != native::passing::value)
      require_size(arguments_of(arguments)[i].size());
  }
}

/// Sends the call. Returns the object on which `where` waits for the reply.
future<message_reply> start(const detail::call_place& to, const native::remote_function& f,
                            const fc_value* arguments, bool is_stoppable) {
  return detail::future_access::make<message_reply>(
      native::send(to, f, arguments_of(arguments), is_stoppable), to.deadline);
}

/// Reads a reply, and stores its errno and result.
void take(const message_reply& reply, const native::signature& type, const fc_value* arguments,
          fc_value* result) {
  const native::reply_head head = native::take_reply(reply.bytes(), type, arguments_of(arguments));
  last_errno = head.error_number;
  if (result != nullptr) result->Q = head.result;
}

} // namespace

fc_status fc_library_load(fc_node where, const char* path, fc_library* library) {
  return guarded([&] {
    require(path, "path");
    require(library, "library");
    const node there = node_of(where);
    const std::uint64_t id = native::load(timed_node(there, deadline_of(where)), path);
    *library = {{.job = handle_of(job_of(where.job)),
                 .lane = nullptr,
                 .deadline = 0,
                 .id = where.id,
                 .flags = 0},
                id};
  });
}

fc_status fc_library_unload(fc_library library) {
  return guarded([&] { native::unload(node_of_library(library), library.id); });
}

fc_status fc_symbol(fc_library library, const char* name, const char* signature,
                    fc_native* function) {
  return guarded([&] {
    require(name, "name");
    require(signature, "signature");
    require(function, "function");
    try {
      const native::remote_function found =
          native::find(node_of_library(library), library.id, name, signature);
      *function = {found.library, found.type, found.number, library.node.id, found.name, 0};
    } catch (const native::signature_error& e) {
      throw invalid_argument(e.what());
    }
  });
}

fc_status fc_native_call(fc_node where, fc_native function, const fc_value* arguments,
                         fc_value* result) {
  return guarded_wait([&] {
    const native::remote_function f = function_of(function);
    require_call(where, function, *f.type, arguments);
    const detail::call_place to = c::place_of(where, c::deadline_of(where));
    auto reply = start(to, f, arguments, detail::is_to_be_stopped<timed_node>(to));
    wait_or_stop(reply);
    try {
      take(reply.get(), *f.type, arguments, result);
    } catch (const remote_error& e) {
      native::rethrow(e);
    }
  });
}

fc_status fc_native_call_async(fc_node where, fc_native function, const fc_value* arguments,
                               fc_future** future) {
  return guarded([&] {
    require(future, "future");
    const native::remote_function f = function_of(function);
    require_call(where, function, *f.type, arguments);
    const detail::call_place to = c::place_of(where, c::deadline_of(where));
    const bool is_stoppable = (where.flags & stoppable_flag) != 0
                                  ? to.messages.takes_stops()
                                  : detail::is_to_be_stopped<timed_node>(to);
    *future = future_of_call(where, 0, [&] { return start(to, f, arguments, is_stoppable); });
  });
}

fc_status fc_native_get(fc_future* future, fc_native function, const fc_value* arguments,
                        fc_value* result) {
  return guarded([&] {
    const native::remote_function f = function_of(function);
    if (f.type->has_buffers) require(arguments, "arguments");
    const fc_status status = fc_future_get(future, nullptr, nullptr);
    if (status == FC_REMOTE_ERROR) {
      try {
        std::rethrow_exception(future->failure);
      } catch (const remote_error& e) {
        native::rethrow(e);
      }
    }
    if (status == FC_OK) take(future->result, *f.type, arguments, result);
    return status;
  });
}

int fc_native_errno(void) { return last_errno; }
