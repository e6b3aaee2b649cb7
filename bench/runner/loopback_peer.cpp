// SPDX-License-Identifier: Apache-2.0
#include "loopback_peer.hpp"
#include "local_memory.hpp"

#include <tools/common/forked_process.hpp>
#include <tools/common/outcome.hpp>

#include <cstring>

#include <poll.h>
#include <unistd.h>

namespace farcall::tool {

/// Message to the peer, and the peer's acknowledgement.
struct loopback_peer::request {
  std::uint32_t kind = 0;
  std::uint32_t reserved = 0;
  std::uint64_t number = 0; ///< number of bytes, or of the round trip
  bool operator==(const request&) const = default;
};

namespace {

enum : std::uint32_t { echoing = 1, reserving = 2, sending = 3, fetching = 4, resting = 5 };

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

/// Serves one connection until it ends.
template <class Request>
void serve(polling_stream stream, std::optional<local_memory>& memory) {
  Request asked;
  while (stream.receive(bytes_of(asked))) {
    const auto size = static_cast<std::size_t>(asked.number);
    if (asked.kind == reserving) {
      memory.emplace(size, pages::small);
    } else if (asked.kind == sending && !stream.receive(memory->bytes().first(size))) {
      return;
    }
    if (!stream.send(bytes_of(asked))) return;
    if (asked.kind == fetching && !stream.send(memory->bytes().first(size))) return;
    if (asked.kind == resting) stream.sleep_until_readable();
  }
}

} // namespace

loopback_peer::loopback_peer(core_pair cores) : cores_(cores), listener_(listen_on_loopback()) {
  const pid_t parent = getpid();
  process_ = std::make_unique<forked_process>([this, parent] {
    pin_this_thread(cores_.target);
    std::optional<local_memory> memory;
    while (!orphaned(parent)) {
      pollfd waiting{listener_.get(), POLLIN, 0};
      if (poll(&waiting, 1, 1000) <= 0) continue;
      serve<request>({accept_on_loopback(listener_.get()), yield_interval(cores_)}, memory);
    }
    return 0;
  });
}

loopback_peer::~loopback_peer() = default;

void loopback_peer::connect() {
  disconnect();
  stream_.emplace(connect_to_loopback(listener_.get()), yield_interval(cores_));
}

void loopback_peer::disconnect() { stream_.reset(); }

void loopback_peer::require(bool done) {
  if (done) return;
  throw failed_run("the other end of the bare connection has gone" +
                   (process_->alive() ? std::string{} : ": " + process_->fate()));
}

void loopback_peer::exchange(std::uint32_t kind, std::uint64_t number) {
  request asked{kind, 0, number};
  request reply;
  require(stream_->send(bytes_of(asked)) && stream_->receive(bytes_of(reply)));
  if (reply != asked)
    throw failed_run("the peer of the bare connection replied with another value");
}

void loopback_peer::round_trip() { exchange(echoing, ++sent_); }

void loopback_peer::reserve(std::size_t bytes) { exchange(reserving, bytes); }

void loopback_peer::send(std::span<const std::byte> from) {
  request asked{sending, 0, from.size()};
  request reply;
  require(stream_->send(bytes_of(asked)) && stream_->send(from) &&
          stream_->receive(bytes_of(reply)));
}

void loopback_peer::fetch(std::span<std::byte> to) {
  exchange(fetching, to.size());
  require(stream_->receive(to));
}

void loopback_peer::rest() { exchange(resting, 0); }

} // namespace farcall::tool
