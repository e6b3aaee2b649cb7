// SPDX-License-Identifier: Apache-2.0

// Round trips between a REQ and a REP socket of ZeroMQ, for `farcall bench rivals`.
#include "rival_program.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#include <unistd.h>
#include <zmq.h>

namespace {

void check(bool succeeded) {
  if (!succeeded) throw std::runtime_error(zmq_strerror(zmq_errno()));
}

void serve(bool over_tcp, rival_program::announcement& parent) {
  void* socket = zmq_socket(zmq_ctx_new(), ZMQ_REP);
  check(socket != nullptr);
  // An abstract address leaves no file behind.
  const std::string address =
      over_tcp ? "tcp://127.0.0.1:*" : "ipc://@farcall-rival-" + std::to_string(getpid());
  check(zmq_bind(socket, address.c_str()) == 0);
  std::array<char, 256> bound{};
  std::size_t size = bound.size();
  check(zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, bound.data(), &size) == 0);
  parent.send(bound.data());
  for (std::uint64_t value = 0;;) {
    check(zmq_recv(socket, &value, sizeof value, 0) == sizeof value);
    check(zmq_send(socket, &value, sizeof value, 0) == sizeof value);
  }
}

class client {
 public:
  explicit client(const std::string& address)
      : context_(zmq_ctx_new()), socket_(zmq_socket(context_, ZMQ_REQ)) {
    check(socket_ != nullptr);
    check(zmq_connect(socket_, address.c_str()) == 0);
  }
  client(const client&) = delete;
  client& operator=(const client&) = delete;
  ~client() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }

  std::uint64_t round_trip(std::uint64_t value) {
    check(zmq_send(socket_, &value, sizeof value, 0) == sizeof value);
    check(zmq_recv(socket_, &value, sizeof value, 0) == sizeof value);
    return value;
  }

 private:
  void* context_;
  void* socket_;
};

} // namespace

int main(int argc, char** argv) {
  int major = 0;
  int minor = 0;
  int patch = 0;
  zmq_version(&major, &minor, &patch);
  const std::string library =
      "ZeroMQ " + std::to_string(major) + '.' + std::to_string(minor) + '.' + std::to_string(patch);
  return rival_program::run<client>(argc, argv, library, serve);
}
