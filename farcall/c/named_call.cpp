#include <farcall/am/deferred_reply.hpp>
#include <farcall/am/responder.hpp>
#include <farcall/am/stack_state.hpp>
#include <farcall/am/stop_state.hpp>
#include <farcall/c/errors.hpp>
#include <farcall/c/function_table.hpp>
#include <farcall/c/named_call.hpp>
#include <farcall/call/invoke.hpp>

#include <memory>
#include <optional>
#include <string>

using namespace farcall;
using namespace farcall::c;

/// The answer to a call: on the stack of the handler that runs, or kept.
struct fc_reply {
  am::request_context* request = nullptr;   ///< of the handler that runs
  std::optional<am::deferred_reply> kept{}; ///< behind it
  counted_ptr<am::stop_state> stop{};       ///< null for a call that cannot be stopped
  bool is_answered = false;

  void answer_once() {
    if (is_answered) throw invalid_argument("this call is answered already");
    is_answered = true;
  }
  /// Calls `how` with the request, and ends a kept answer.
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

void run_named(am::request_context& request, const void* context) noexcept {
  const detail::context_scope scope(static_cast<const call_context*>(context));
  try {
    detail::with_arguments<named_call>(request, [&](const named_call& call) {
      const auto* const found = function_table::instance().find(call.function);
      if (found == nullptr) return request.reply_unknown();
      fc_reply reply{.request = &request, .stop = counted_ptr(am::this_stack.stop)};
      found->run(&reply, call.bytes.data(), call.bytes.size(), found->user);
      if (!reply.is_answered) detail::send_reply(request, sent_result{});
    });
  } catch (...) {
    detail::reply_exception(request);
  }
}

std::string name_of(std::uint32_t extra) {
  return function_table::instance().name_by_handle({extra});
}

} // namespace

// The name is the same in all builds, and known to all files.
entry named_entry{detail::type_name<named_call>(), [] { return std::string("bytes(name, bytes)"); },
                  &run_named, entry_compiler, &name_of};

} // namespace farcall::c

fc_status fc_register(const char* name, fc_handler run, void* user) {
  return guarded([&] {
    require(name, "name");
    if (run == nullptr) throw invalid_argument("run must not be NULL");
    function_table::instance().add(name, hash_of(name), {run, user});
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
    reply->answer_once();
    reply->give([&](am::request_context& request) {
      try {
        detail::send_reply(request, sent_result{{static_cast<const std::byte*>(bytes), size}});
      } catch (...) {
        // The caller must not wait for ever.
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
    if (reply->request == nullptr) throw invalid_argument("this answer is kept already");
    auto made = std::make_unique<fc_reply>();
    reply->answer_once();
    made->stop = reply->stop;
    made->kept.emplace(reply->request->defer());
    *kept = made.release();
  });
}

fc_status fc_reply_error(fc_reply* reply, const char* type, const char* text) {
  return guarded([&] {
    require(reply, "reply");
    reply->answer_once();
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
