// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/transport/control_messages.hpp>
#include <tests/conformance/pairs.hpp>
#include <tests/pipe/pipe_transport.hpp>

#include <array>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace farcall::conformance {
namespace {

/// A node with a thread in place of a job's event loop. It passes control messages to the
/// transport, and calls its progress() when its wait descriptor is readable.
class pipe_end final : public node_end {
 public:
  pipe_end(node_id id, std::uint32_t ring_bytes, int to_peer)
      : id_(id), to_peer_(unique_fd(::fcntl(to_peer, F_DUPFD_CLOEXEC, 0))),
        stop_(::eventfd(0, EFD_CLOEXEC)) {
    transport_site site;
    site.self = id;
    site.nodes = 2;
    site.lane_bytes = ring_bytes;
    site.doorbells = doorbells_;
    site.machine = "here";
    site.tell = [this](node_id, std::span<const std::byte> bytes, std::span<const int> files) {
      const messages::transport m{id_, "pipe", {bytes.begin(), bytes.end()}};
      return messages::send(to_peer_, m, no_deadline, files);
    };
    transport_ = pipes::entry().make(site);
  }
  ~pipe_end() override {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(stop_.get(), &one, sizeof one);
    if (thread_.joinable()) thread_.join();
  }
  pipe_end(const pipe_end&) = delete;
  pipe_end& operator=(const pipe_end&) = delete;

  node_id id() const override { return id_; }
  transport& link() override { return *transport_; }
  std::span<doorbell> doorbells() override { return doorbells_; }
  /// Starts the thread, after the fork of the other node's process: a fork beside a thread can copy
  /// a lock that the thread holds, which the child could never take.
  void meet(const card& peer) override {
    transport_->admit(peer);
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }

 private:
  void run() {
    for (;;) {
      pollfd watched[3] = {
          {stop_.get(), POLLIN, 0}, {to_peer_.fd(), POLLIN, 0}, {transport_->wait_fd(), POLLIN, 0}};
      if (::poll(watched, 3, -1) < 0) continue;
      if (watched[0].revents != 0) return;
      if (watched[2].revents != 0) transport_->progress();
      if (watched[1].revents == 0) continue;
      auto message = to_peer_.receive(clock::now());
      if (!message) return;
      const auto m = messages::transport::decode(message->body);
      transport_->take_message(m.peer, m.bytes, std::move(message->files));
    }
  }

  node_id id_;
  control_socket to_peer_;
  unique_fd stop_;
  std::array<doorbell, 8> doorbells_;
  std::unique_ptr<transport> transport_;
  std::thread thread_;
};

class pipe_node_pair final : public node_pair {
 public:
  explicit pipe_node_pair(std::uint32_t ring_bytes)
      : ring_bytes_(ring_bytes), ends_(control_socket::make_pair()) {}

  std::unique_ptr<node_end> make_end(unsigned side) override {
    const int own = side == 0 ? ends_.first.fd() : ends_.second.fd();
    return std::make_unique<pipe_end>(side, ring_bytes_, own);
  }

 private:
  std::uint32_t ring_bytes_;
  std::pair<control_socket, control_socket> ends_;
};

} // namespace

std::unique_ptr<node_pair> pipe_pair(std::uint32_t ring_bytes) {
  return std::make_unique<pipe_node_pair>(ring_bytes);
}

} // namespace farcall::conformance
