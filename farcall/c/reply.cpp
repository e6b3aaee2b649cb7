// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/engine.hpp>
#include <farcall/c/reply.hpp>
#include <farcall/call/message_handler.hpp>
#include <farcall/memory/shared_heap.hpp>

#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>

using namespace farcall;
using namespace farcall::c;

namespace {

/// Maximum size of a reply that is copied out of reserved memory. The caller of a longer reply
/// sends another message, which frees the memory.
constexpr std::size_t max_copied = 4096;

fc_reply::extras& extras_of(fc_reply& reply) {
  if (!reply.more) reply.more = std::make_unique<fc_reply::extras>();
  return *reply.more;
}

/// Sends `bytes` as the reply.
void send_bytes(fc_reply& reply, std::span<const std::byte> bytes) {
  reply.give([&](am::request_context& request) {
    try {
      detail::send_reply(request, detail::reply_bytes{bytes});
    } catch (...) {
      // If the reply could not be sent, reply with the error instead, because the caller would
      // otherwise wait for ever.
      detail::reply_exception(request);
      throw;
    }
  });
}

} // namespace

fc_reply::~fc_reply() {
  if (!more) return;
  forget_stop();
  drop_reserved();
}

void fc_reply::reply_once() {
  if (has_reply) throw invalid_argument("this call was replied to already");
  has_reply = true;
  forget_stop();
}

void fc_reply::forget_stop() noexcept {
  if (more && more->on_stop.run != nullptr) stop->remove(more->on_stop);
}

void fc_reply::drop_reserved() noexcept {
  if (!more || more->reserved == nullptr) return;
  owner().heap().release(std::exchange(more->reserved, nullptr));
}

fc_status fc_reply_bytes(fc_reply* reply, const void* bytes, size_t size) {
  return guarded([&] {
    require(reply, "reply");
    if (size != 0) require(bytes, "bytes");
    require_size(size);
    reply->reply_once();
    reply->drop_reserved();
    send_bytes(*reply, {static_cast<const std::byte*>(bytes), size});
  });
}

fc_status fc_reply_error(fc_reply* reply, const char* type, const char* text) {
  return guarded([&] {
    require(reply, "reply");
    reply->reply_once();
    reply->drop_reserved();
    reply->give([&](am::request_context& request) {
      request.reply_error(type == nullptr ? "" : type, text == nullptr ? "" : text);
    });
  });
}

fc_status fc_reply_reserve(fc_reply* reply, size_t size, void** bytes) {
  return guarded([&] {
    require(reply, "reply");
    require(bytes, "bytes");
    require_size(size);
    if (reply->has_reply) throw invalid_argument("this call was replied to already");
    fc_reply::extras& more = extras_of(*reply);
    if (more.reserved != nullptr) throw invalid_argument("this reply has reserved memory already");
    more.reserved = reply->owner().allocate_block(size);
    more.reserved_bytes = size;
    *bytes = more.reserved;
  });
}

fc_status fc_reply_reserved(fc_reply* reply, size_t size) {
  return guarded([&] {
    require(reply, "reply");
    if (!reply->more || reply->more->reserved == nullptr)
      throw invalid_argument("no memory was reserved for this reply by fc_reply_reserve()");
    if (size > reply->more->reserved_bytes) {
      throw invalid_argument("this reply has reserved " +
                             std::to_string(reply->more->reserved_bytes) + " bytes, and not " +
                             std::to_string(size));
    }
    reply->reply_once();
    std::byte* const block = std::exchange(reply->more->reserved, nullptr);
    if (size > max_copied) {
      reply->give(
          [&](am::request_context& request) { request.commit_rendezvous_reply(block, size); });
      return;
    }
    // The reply may be destroyed when it has been sent.
    shared_heap& heap = reply->owner().heap();
    send_bytes(*reply, {block, size});
    heap.release(block);
  });
}

fc_status fc_reply_keep(fc_reply* reply, fc_reply** kept) {
  return guarded([&] {
    require(reply, "reply");
    require(kept, "kept");
    if (reply->request == nullptr) throw invalid_argument("this reply is kept already");
    if (reply->has_reply) throw invalid_argument("this call was replied to already");
    if (reply->more)
      throw invalid_argument("keep the reply before fc_reply_reserve() and fc_reply_on_stop()");
    *kept = new fc_reply(reply->request->defer(), reply->request->owner(), reply->stop);
    reply->has_reply = true;
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

fc_status fc_reply_on_stop(fc_reply* reply, void (*run)(void* user), void* user) {
  return guarded([&] {
    require(reply, "reply");
    if (run == nullptr) throw invalid_argument("run must not be NULL");
    if (reply->has_reply) throw invalid_argument("this call was replied to already");
    if (!reply->stop) return;
    auto& listener = extras_of(*reply).on_stop;
    if (listener.run != nullptr) throw invalid_argument("this reply has such a function already");
    listener.run = run;
    listener.user = user;
    if (!reply->stop->add(listener)) run(user);
  });
}
