#include <farcall/am/deferred_reply.hpp>
#include <farcall/am/responder.hpp>
#include <farcall/am/stack_state.hpp>
#include <farcall/am/stop_state.hpp>
#include <farcall/c/errors.hpp>
#include <farcall/c/function_table.hpp>
#include <farcall/c/named_call.hpp>
#include <farcall/call/message_handler.hpp>
#include <farcall/offload/job_counters.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string>

using namespace farcall;
using namespace farcall::c;

/// The reply that a handler gives. While the handler runs, this object is on the handler's stack.
/// fc_reply_keep() makes another object, which outlives the handler.
struct fc_reply {
  /// The request that the handler serves; null in an object that fc_reply_keep() has made.
  am::request_context* request = nullptr;
  /// The deferred reply, in an object that fc_reply_keep() has made. The handler may have returned.
  std::optional<am::deferred_reply> kept{};
  /// Stop state of the call, by which the caller stops it; null if the call cannot be stopped.
  counted_ptr<am::stop_state> stop{};
  bool has_reply = false;

  void reply_once() {
    if (has_reply) throw invalid_argument("this call was replied to already");
    has_reply = true;
  }
  /// Sends the reply: calls `how` with the request to which it replies. Destroys this object
  /// afterwards if fc_reply_keep() has made it.
  template <class How>
  void give(const How& how) {
    if (request != nullptr) return how(*request);
    kept->send([&](am::request_context& late) {
      try {
        how(late);
      } catch (...) {
        detail::reply_exception(late);
      }
    });
    delete this;
  }
};

namespace farcall::c {
namespace {

void run_named(am::request_context& request) noexcept {
  detail::message_type<named_call>::run(
      request, request.context(), [](named_call call, message& m) {
        const auto* const found = function_table::instance().find(call.function);
        if (found == nullptr) return m.request().reply_unknown();
        // Copy the bytes out of the lane's ring, because the handler may wait, and the bytes would
        // take space in the ring during this time.
        message::kept_payload kept;
        const std::span<const std::byte> bytes = m.keep(kept);
        fc_reply reply{.request = &m.request(), .stop = counted_ptr(am::this_stack.stop)};
        found->run(&reply, bytes.data(), bytes.size(), found->user);
      });
}

std::string name_of(std::uint32_t extra) {
  return function_table::instance().name_by_handle({extra});
}

} // namespace

// The entry through which calls by name arrive. The entry is not local to this file, and its name
// is the same in all builds, so that programs of different builds can call each other.
entry named_entry{detail::type_name<named_call>(), [] { return std::string("reply(name, bytes)"); },
                  &run_named, entry_compiler, &name_of};

} // namespace farcall::c

fc_status fc_register(const char* name, fc_handler run, void* user) {
  return guarded([&] {
    require(name, "name");
    if (run == nullptr) throw invalid_argument("run must not be NULL");
    const fc_function function = hash_of(name);
    const bool is_first = function_table::instance().add(name, function, {run, user});
    // Do not use named_entry, which may not exist yet: programs may register before main().
    if (is_first) {
      detail::name_in_counters(detail::type_name<named_call>(), handle_of(function).value, name);
    }
  });
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

fc_status fc_reply_bytes(fc_reply* reply, const void* bytes, size_t size) {
  return guarded([&] {
    require(reply, "reply");
    if (size != 0) require(bytes, "bytes");
    require_size(size);
    reply->reply_once();
    reply->give([&](am::request_context& request) {
      try {
        detail::send_reply(request,
                           detail::reply_bytes{{static_cast<const std::byte*>(bytes), size}});
      } catch (...) {
        // If the reply could not be sent, reply with the error instead, because the caller would
        // otherwise wait for ever.
        detail::reply_exception(request);
        throw;
      }
    });
  });
}

fc_status fc_reply_keep(fc_reply* reply, fc_reply** kept) {
  return guarded([&] {
    require(reply, "reply");
    require(kept, "kept");
    if (reply->request == nullptr) throw invalid_argument("this reply is kept already");
    auto made = std::make_unique<fc_reply>();
    reply->reply_once();
    made->stop = reply->stop;
    made->kept.emplace(reply->request->defer());
    *kept = made.release();
  });
}

fc_status fc_reply_error(fc_reply* reply, const char* type, const char* text) {
  return guarded([&] {
    require(reply, "reply");
    reply->reply_once();
    reply->give([&](am::request_context& request) {
      request.reply_error(type == nullptr ? "" : type, text == nullptr ? "" : text);
    });
  });
}

bool fc_reply_wanted(const fc_reply* reply) {
  if (reply == nullptr) return false;
  return reply->request != nullptr ? reply->request->wants_reply() : reply->kept->wants_reply();
}

uint32_t fc_reply_caller(const fc_reply* reply) {
  if (reply == nullptr) return FC_NO_NODE;
  return reply->request != nullptr ? reply->request->source() : reply->kept->source();
}

bool fc_reply_stopped(const fc_reply* reply) {
  return reply != nullptr && reply->stop && reply->stop->stop_requested();
}
