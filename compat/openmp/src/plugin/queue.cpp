// SPDX-License-Identifier: Apache-2.0
#include "queue.hpp"

#include "../messages.hpp"

#include <utility>
#include <vector>

namespace farcall::openmp {

namespace {

void put_now(device& to, std::uint64_t address, std::span<const std::byte> from) {
  farcall::put(from, bytes_of(to.where(), address, from.size())).get();
}

void get_now(device& from, std::uint64_t address, std::span<std::byte> to) {
  farcall::get(bytes_of(from.where(), address, to.size()), to).get();
}

void copy_now(device& from, std::uint64_t from_address, device& to, std::uint64_t to_address,
              std::size_t bytes) {
  if (&from == &to) {
    sync(to.where(), fn<&copy_inside>, from_address, to_address, std::uint64_t{bytes});
    return;
  }
  copy_sync(bytes_of(from.where(), from_address, bytes), bytes_of(to.where(), to_address, bytes));
}

future<message_reply> run_now(device& on, const region& what,
                              std::span<const std::uint64_t> arguments) {
  // where_usable() may change what.code, so it is called first.
  const node where = on.where_usable();
  return async_message(where, region_message{what.code}, std::as_bytes(arguments));
}

} // namespace

void queue::put(device& to, std::uint64_t address, std::span<const std::byte> from) {
  if (is_idle()) return put_now(to, address, from);
  waiting_.emplace_back([&to, address, from] { put_now(to, address, from); });
}

void queue::get(device& from, std::uint64_t address, std::span<std::byte> to) {
  if (is_idle()) return get_now(from, address, to);
  waiting_.emplace_back([&from, address, to] { get_now(from, address, to); });
}

void queue::copy(device& from, std::uint64_t from_address, device& to, std::uint64_t to_address,
                 std::size_t bytes) {
  if (is_idle()) return copy_now(from, from_address, to, to_address, bytes);
  waiting_.emplace_back([&from, from_address, &to, to_address, bytes] {
    copy_now(from, from_address, to, to_address, bytes);
  });
}

void queue::run(device& on, const region& what, std::span<const std::uint64_t> arguments) {
  if (is_idle()) {
    last_ = &what;
    running_ = run_now(on, what, arguments);
    return;
  }
  waiting_.emplace_back(
      [this, &on, &what, kept = std::vector<std::uint64_t>(arguments.begin(), arguments.end())] {
        last_ = &what;
        running_ = run_now(on, what, kept);
      });
}

void queue::finish_running() {
  if (!running_) return;
  auto ended = std::move(*running_);
  running_.reset();
  (void)ended.get();
}

bool queue::poll() {
  for (;;) {
    if (running_) {
      if (!running_->test()) return false;
      finish_running();
    }
    if (waiting_.empty()) return true;
    const auto next = std::move(waiting_.front());
    waiting_.pop_front();
    next();
  }
}

void queue::wait() {
  for (;;) {
    finish_running();
    if (waiting_.empty()) return;
    const auto next = std::move(waiting_.front());
    waiting_.pop_front();
    next();
  }
}

} // namespace farcall::openmp
