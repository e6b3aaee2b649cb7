// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/memory/segment.hpp>
#include <farcall/transport/tcp/address.hpp>
#include <farcall/transport/tcp/connection.hpp>
#include <farcall/transport/tcp/socket.hpp>
#include <farcall/transport/tcp/tcp.hpp>
#include <farcall/transport/tcp/tls.hpp>
#include <tests/conformance/pairs.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace farcall::conformance {
namespace {

/// An event handler that calls a function.
class ready final : public event_handler {
 public:
  explicit ready(std::function<void()> what) : what_(std::move(what)) {}
  void on_event(std::uint32_t /*events*/) noexcept override { what_(); }

 private:
  std::function<void()> what_;
};

unique_fd copy_of(int fd) { return unique_fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

/// Accepts connections like a server: reads the preamble, and gives the connection to the node.
void hand_on(int listener, tcp::tcp_transport& to) {
  while (std::optional<unique_fd> socket = tcp::accept_from(listener)) {
    tcp::preamble first;
    // Blocking is safe: all connections are the test's. Other tests cover the server's checks.
    ::fcntl(socket->get(), F_SETFL, 0);
    if (::recv(socket->get(), &first, sizeof first, MSG_WAITALL) != sizeof first) continue;
    ::fcntl(socket->get(), F_SETFL, O_NONBLOCK);
    if (tcp::flaw_of(first).empty()) to.take_connection(std::move(*socket));
  }
}

/// The second node accepts connections, like a server's target; node 0, like its host, only
/// connects.
class tcp_end final : public node_end {
 public:
  tcp_end(node_id id, node_id peer, std::uint32_t ring_bytes,
          const tcp::job_credentials& credentials, int listener, const std::string& address,
          int requests)
      : id_(id), peer_(peer), window_(segment::create("farcall-test-window", window_bytes)),
        listener_(copy_of(listener)), requests_(copy_of(requests)), loop_("farcall-test") {
    tcp::options o;
    o.self = id;
    o.nodes = 2;
    o.ring_bytes = ring_bytes;
    o.machine = "this one";
    o.network = "this one";
    if (id != 0) o.addresses = {{address, "this one"}};
    o.doorbells = doorbells_;
    o.windows = {{reinterpret_cast<std::uintptr_t>(window_.data()), window_.size()}};
    o.credentials = credentials.copy();
    o.heartbeat_timeout = std::chrono::seconds(5);
    o.ask_to_dial = [fd = requests](node_id /*peer*/, const tcp::dial_request& request) {
      ::send(fd, &request, sizeof request, MSG_NOSIGNAL);
    };
    o.tell_of_end = o.ask_to_dial;
    transport_ = tcp::make(loop_, std::move(o));
  }
  ~tcp_end() override {
    // Destroy it before its handlers: to send what is left, it may need one more connection.
    transport_.reset();
    loop_.remove(requests_.get());
    if (id_ != 0) loop_.remove(listener_.get());
  }

  node_id id() const override { return id_; }
  transport& link() override { return *transport_; }
  std::span<doorbell> doorbells() override { return doorbells_; }
  std::span<std::byte> window() override { return {window_.data(), window_.size()}; }

  void meet(const card& peer) override {
    transport_->admit(peer);
    if (std::exchange(has_met_, true)) return;
    tcp::tcp_transport* const to = transport_.get();
    if (id_ != 0) {
      loop_.add(listener_.get(), EPOLLIN,
                std::make_shared<ready>([this, to] { hand_on(listener_.get(), *to); }));
    }
    loop_.add(requests_.get(), EPOLLIN, std::make_shared<ready>([this, to] {
                tcp::dial_request request;
                while (::recv(requests_.get(), &request, sizeof request, MSG_DONTWAIT) ==
                       static_cast<ssize_t>(sizeof request)) {
                  to->take_request(peer_, request);
                }
              }));
  }

 private:
  node_id id_;
  node_id peer_;
  std::array<doorbell, 8> doorbells_;
  segment window_;
  unique_fd listener_;
  unique_fd requests_;
  bool has_met_ = false;
  event_loop loop_;
  std::unique_ptr<tcp::tcp_transport> transport_;
};

class tcp_node_pair final : public node_pair {
 public:
  tcp_node_pair(std::uint32_t ring_bytes, bool is_encrypted, node_id second = 1)
      : ids_{0, second}, ring_bytes_(ring_bytes), is_encrypted_(is_encrypted),
        listeners_(tcp::listen_on({"127.0.0.1", 0})) {
    const tcp::job_credentials made = tcp::job_credentials::make(is_encrypted);
    name_ = made.name;
    std::ranges::copy(made.key.bytes(), key_.begin());
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
      throw_system_error("socketpair", errno);
    }
    requests_[0] = unique_fd(ends[0]);
    requests_[1] = unique_fd(ends[1]);
  }

  std::unique_ptr<node_end> make_end(unsigned side) override {
    tcp::job_credentials credentials;
    credentials.name = name_;
    credentials.key = tcp::secret::copy_of(key_);
    credentials.is_encrypted = is_encrypted_;
    return std::make_unique<tcp_end>(
        ids_[side], ids_[1 - side], ring_bytes_, credentials, listeners_[0].get(),
        tcp::local_address(listeners_[0].get()).text(), requests_[side].get());
  }

 private:
  std::array<node_id, 2> ids_;
  std::uint32_t ring_bytes_;
  bool is_encrypted_;
  tcp::job_name name_{};
  /// The job key, in plain memory: memory of a tcp::secret is not inherited by a fork.
  std::array<std::byte, tcp::job_key_bytes> key_{};
  std::vector<unique_fd> listeners_;
  std::array<unique_fd, 2> requests_;
};

} // namespace

std::unique_ptr<node_pair> tcp_pair(std::uint32_t ring_bytes) {
  return std::make_unique<tcp_node_pair>(ring_bytes, false);
}

std::unique_ptr<node_pair> tls_pair(std::uint32_t ring_bytes) {
  return std::make_unique<tcp_node_pair>(ring_bytes, true);
}

std::unique_ptr<node_pair> later_tcp_pair(std::uint32_t ring_bytes) {
  return std::make_unique<tcp_node_pair>(ring_bytes, tcp::tls_is_built_in(), later_node);
}

} // namespace farcall::conformance
