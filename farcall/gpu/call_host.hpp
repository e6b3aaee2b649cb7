#pragma once

#include <farcall/am/message.hpp>
#include <farcall/gpu/worker.hpp>
#include <farcall/offload/host_device.hpp>

#include <cstddef>
#include <cstdint>
#include <thread>

/// Calls from a device to the host: the worker is the opener of a lane of its own.
namespace farcall::am {

/// Bytes of arguments that fit a call to the host.
inline constexpr std::uint32_t largest_host_call = cuda::slot_bytes - request_body;

/// Nanoseconds of a clock that all threads of the device share.
[[nodiscard]] FARCALL_HOST_DEVICE inline std::uint64_t device_now() noexcept {
#ifdef FARCALL_ON_GPU
  return cuda::clock_ns();
#else
  return cuda::thread_team::now();
#endif
}

/// Between two looks. Threads of a processor may be more than its cores.
FARCALL_HOST_DEVICE inline void device_pause() noexcept {
#ifndef FARCALL_ON_GPU
  std::this_thread::yield();
#endif
}

/// A request that one thread makes up, word by word.
struct alignas(16) host_request {
  std::uint32_t words[cuda::slot_words] = {};

  [[nodiscard]] FARCALL_HOST_DEVICE std::byte* arguments() noexcept {
    return reinterpret_cast<std::byte*>(words) + request_body;
  }
};

/// Sends the request and waits for its reply, whose bytes are then returned, `reply_bytes` of
/// them; null when there is none, and then the request that the team serves has failed. By one
/// thread of a team at a time. Idea of LLVM's calls from GPUs, where the GPU is the client as well.
[[nodiscard]] FARCALL_HOST_DEVICE inline const std::byte*
call_host(device_team_state& s, host_request& request, handler_key key,
          std::uint32_t argument_bytes, bool wants_reply, std::uint32_t reply_bytes) {
  cuda::device_endpoint& l = s.host;
  const std::uint64_t begun = device_now();
  std::uint32_t looks = 0;
  const auto is_late = [&] {
    // Seldom, as the host's memory is far.
    if (++looks % 64 == 0 && cuda::load_acquire(&s.setup.control->command) ==
                                 static_cast<std::uint32_t>(cuda::worker_command::end)) {
      return true;
    }
    return device_now() - begun > s.setup.call_ns;
  };
  const auto wait_for_space = [&] {
    while (!l.has_space()) {
      if (is_late()) return false;
      device_pause();
    }
    return true;
  };
  if (l.calls_made == 0) {
    std::uint32_t opening[sizeof(cuda::lane_notice) / sizeof(std::uint32_t)] = {};
    opening[0] = commit_word(sizeof(cuda::lane_notice), cuda::lane_opened);
    if (wait_for_space()) l.send(opening, sizeof opening / sizeof opening[0]);
  }
  const std::uint32_t number = ++l.calls_made;
  request.words[0] = commit_word(request_body + argument_bytes, record_kind::request);
  request.words[1] = wants_reply ? number : no_slot;
  request.words[2] = key;
  request.words[3] = 0;
  if (!wait_for_space()) {
    s.request.fail("the host does not take calls of the device");
    return nullptr;
  }
  // What the arguments point to has been written before, and a long reply has been read.
  cuda::release_fence();
  l.tell_consumed();
  l.send(request.words, cuda::words_of(request.words[0]));
  if (!wants_reply) return reinterpret_cast<const std::byte*>(s.host_message);
  for (;;) {
    while (!l.look(s.host_message)) {
      if (is_late()) {
        s.request.fail("the host has not answered a call of the device in time; does the function "
                       "wait for the same device?");
        return nullptr;
      }
      device_pause();
    }
    const std::byte* const record = l.record_of(s.host_message);
    const auto* const header = reinterpret_cast<const record_header*>(record);
    const std::uint32_t bytes = cuda::record_bytes(s.host_message[0]);
    const record_kind kind = commit_kind(s.host_message[0]);
    // Not told before the next one: the caller reads the bytes.
    const bool is_ours = header->slot == number;
    l.take();
    if (!is_ours) continue; // the reply of a call that was given up
    if (kind == record_kind::reply && bytes >= reply_body + reply_bytes) {
      // A long one is read by the caller, and told behind the fence of the next call.
      if (bytes <= cuda::slot_bytes) l.tell_consumed();
      return record + reply_body;
    }
    if (kind == record_kind::reply_error && bytes > 2 * reply_body) {
      // Two lengths, the type, the text.
      const auto* const lengths = reinterpret_cast<const std::uint32_t*>(record + reply_body);
      const std::uint32_t begin = 2 * reply_body + lengths[0];
      const std::uint32_t left = begin < bytes ? bytes - begin : 0;
      const std::uint32_t text_bytes = lengths[1] < left ? lengths[1] : left;
      if (text_bytes == 0) {
        s.request.fail("a function of the host has thrown something that says nothing");
      } else {
        s.request.fail(reinterpret_cast<const char*>(record) + begin, text_bytes);
      }
    } else {
      s.request.fail(kind == record_kind::reply_unknown
                         ? "the host has no such function"
                         : "the host's answer to a call of the device is none");
    }
    l.release_consumed();
    return nullptr;
  }
}

} // namespace farcall::am
