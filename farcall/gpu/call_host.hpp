// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/message.hpp>
#include <farcall/async/host_device.hpp>
#include <farcall/gpu/worker.hpp>

#include <cstddef>
#include <cstdint>
#include <thread>

/// Calls from a device to the host. Each worker of the device opens a separate lane to the host for
/// them.
namespace farcall::am {

/// Maximum number of bytes of arguments that a call from a device to the host may have.
inline constexpr std::uint32_t max_host_call = cuda::slot_bytes - request_body;

/// Returns the time of a clock that all threads of the device share, in nanoseconds.
[[nodiscard]] FARCALL_HOST_DEVICE inline std::uint64_t device_now() noexcept {
#ifdef FARCALL_ON_GPU
  return cuda::clock_ns();
#else
  return cuda::thread_team::now();
#endif
}

/// Pauses between two polls. On an emulated device, which may have more threads than the processor
/// has cores, lets other threads run.
FARCALL_HOST_DEVICE inline void device_pause() noexcept {
#ifndef FARCALL_ON_GPU
  std::this_thread::yield();
#endif
}

/// Request to the host, which one thread of the device fills in word by word.
struct alignas(16) host_request {
  std::uint32_t words[cuda::slot_words] = {};

  [[nodiscard]] FARCALL_HOST_DEVICE std::byte* arguments() noexcept {
    return reinterpret_cast<std::byte*>(words) + request_body;
  }
};

/// Sends the request to the host, waits for the reply, and returns the address of the reply's
/// `reply_bytes` bytes. If the request cannot be sent, or no valid reply comes, returns null, and
/// the call that the team is serving fails. If `wants_reply` is false, sends the request without
/// waiting for a reply, and returns an address that is not null. One thread of a team at a time may
/// call this function. LLVM's remote calls from GPUs work alike: the GPU is the client there, too.
[[nodiscard]] FARCALL_HOST_DEVICE inline const std::byte*
call_host(device_team_state& s, host_request& request, handler_key key,
          std::uint32_t argument_bytes, bool wants_reply, std::uint32_t reply_bytes) {
  cuda::device_endpoint& l = s.host;
  const std::uint64_t begun = device_now();
  std::uint32_t looks = 0;
  const auto is_late = [&] {
    // Read the host's command to the worker only at every 64th poll, because a load from the host's
    // memory is slow.
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
  // Order the program's writes to memory that the arguments point to before the request. Also order
  // the caller's reads of the last rendezvous reply before tell_consumed(), after which the host
  // may reuse the reply's memory.
  cuda::release_fence();
  l.tell_consumed();
  l.send(request.words, cuda::words_of(request.words[0]));
  if (!wants_reply) return reinterpret_cast<const std::byte*>(s.host_message);
  for (;;) {
    while (!l.look(s.host_message)) {
      if (is_late()) {
        s.request.fail(
            "the host has not replied to a call of the device in time; does the function "
            "wait for the same device?");
        return nullptr;
      }
      device_pause();
    }
    const std::byte* const record = l.record_of(s.host_message);
    const auto* const header = reinterpret_cast<const record_header*>(record);
    const std::uint32_t bytes = cuda::record_bytes(s.host_message[0]);
    const record_kind kind = commit_kind(s.host_message[0]);
    // take() does not tell the host that the message was read, because the caller still reads the
    // bytes of a rendezvous reply.
    const bool is_ours = header->slot == number;
    l.take();
    if (!is_ours) continue; // skip the late reply to an earlier call that has timed out
    if (kind == record_kind::reply && bytes >= reply_body + reply_bytes) {
      // Keep the memory of a rendezvous reply, because the caller reads it; the next call returns
      // it to the host, after a fence.
      if (bytes <= cuda::slot_bytes) l.tell_consumed();
      return record + reply_body;
    }
    if (kind == record_kind::reply_error && bytes > 2 * reply_body) {
      // An error reply consists of two lengths, the name of the exception's type, and the error's
      // text. The first length is the name's, the second is the text's.
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
                         : "the host's reply to a call of the device is invalid");
    }
    l.release_consumed();
    return nullptr;
  }
}

} // namespace farcall::am
