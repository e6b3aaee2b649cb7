// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/log.hpp>
#include <farcall/files/host_requests.hpp>

#include <cerrno>
#include <new>
#include <string>
#include <utility>

namespace farcall::files {
namespace {

/// Returns the number of the calling thread. Each thread of the process has another number, by
/// which own_lane() chooses the thread's lane.
std::size_t number_of_thread() noexcept {
  static std::atomic<std::size_t> last{0};
  // Relaxed, because the numbers need only differ.
  thread_local const std::size_t mine = last.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

} // namespace

bool sent_request::is_ready() const noexcept {
  const am::completion* const state = detail::future_access::state(sent_);
  return state == nullptr || state->ready();
}

std::int64_t sent_request::wait() {
  if (!is_ready()) {
    am::completion& state = *detail::future_access::state(sent_);
    (void)way_->messages().owner().wait_alone(static_cast<am::pending_call&>(state));
  }
  return sent_.get().result;
}

std::shared_ptr<lane> host_requests::own_lane() {
  lane_slot& slot = lanes_[number_of_thread() % max_lanes];
  const std::lock_guard guard(slot.mutex);
  // Open a new lane if the connection of the old one was lost. The host may still be alive, and
  // reachable by another connection.
  if (!slot.open || slot.open->messages().is_lost())
    slot.open = std::make_shared<lane>(node(job_, host_id));
  return slot.open;
}

sent_request host_requests::send(const std::shared_ptr<lane>& way, const request& what) {
  return {way, async(*way, fn<&serve>, what)};
}

std::int64_t host_requests::errno_of_exception() noexcept {
  try {
    throw;
  } catch (const out_of_memory&) {
    return -ENOMEM;
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  } catch (const std::exception& e) {
    static auto& lines = *new log::limited_log("more files cannot be used");
    lines.info(std::string("a file of the host cannot be used: ") + e.what());
  }
  return -EIO;
}

void host_requests::warn_of_end() noexcept {
  static std::atomic<bool> is_said{false};
  if (is_said.exchange(true, std::memory_order_relaxed)) return;
  log::warning("files of the host cannot be used behind the end of the job (EIO): what a global "
               "stream still holds is lost; close it, or flush it, before");
}

void host_requests::drop_lanes() noexcept {
  for (lane_slot& slot : lanes_)
    slot.open.reset();
}

} // namespace farcall::files
