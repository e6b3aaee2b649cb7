// SPDX-License-Identifier: Apache-2.0
#include <tests/child.hpp>
#include <tests/conformance/conformance.hpp>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace farcall::conformance {

side::side(node_end& own, unique_fd talk) : own_(own), talk_(std::move(talk)) {}

card side::own_card() {
  card c;
  c.id = own_.id();
  c.pid = static_cast<std::uint64_t>(::getpid());
  c.workers = 1;
  if (const std::span<std::byte> w = own_.window(); !w.empty()) {
    c.windows.push_back({reinterpret_cast<std::uintptr_t>(w.data()), w.size()});
  }
  own_.link().describe(c);
  return c;
}

void side::meet() {
  tell_bytes(encode(own_card()));
  peer_ = decode_card(receive_bytes());
  own_.meet(peer_);
}

void side::tell_bytes(std::span<const std::byte> bytes) {
  if (::send(talk_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(bytes.size())) {
    throw std::runtime_error("the other side has ended before its time");
  }
}

std::vector<std::byte> side::receive_bytes() {
  pollfd watched{talk_.get(), POLLIN, 0};
  const auto something = [&] {
    link().progress();
    return ::poll(&watched, 1, 1) > 0;
  };
  if (!test::eventually(something)) throw std::runtime_error("the other side sends nothing");
  std::vector<std::byte> bytes(65536);
  const ssize_t got = ::recv(talk_.get(), bytes.data(), bytes.size(), 0);
  if (got <= 0) throw std::runtime_error("the other side has ended before its time");
  bytes.resize(static_cast<std::size_t>(got));
  return bytes;
}

void side::tell(std::uint64_t number) { tell_bytes(std::as_bytes(std::span(&number, 1))); }

std::uint64_t side::receive_number() {
  const auto bytes = receive_bytes();
  std::uint64_t number = 0;
  if (bytes.size() != sizeof number) throw std::runtime_error("the other side sent no number");
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

void side::step() {
  tell(0);
  (void)receive_number();
}

endpoint side::accept() {
  std::optional<endpoint> accepted;
  wait([&] { return (accepted = link().accept()).has_value(); }, "lane arrived");
  return *accepted;
}

void side::accept_end(const endpoint& accepted) {
  wait([&] { return link().is_closed(accepted); }, "end of a lane was seen");
  link().close(accepted);
}

void side::send(endpoint& c, std::uint32_t bytes, std::uint64_t n) {
  wait([&] { return test::send(c.out, bytes, n); }, "space in the ring");
}

void side::receive(endpoint& c, std::uint32_t bytes, std::uint64_t n) {
  record_view record;
  wait([&] { return static_cast<bool>(record = peek(c.in)); }, "record arrived");
  const std::string wrong = test::wrong_with(record, bytes, n);
  if (!wrong.empty()) throw std::runtime_error("record " + std::to_string(n) + ": " + wrong);
  release(c.in, record);
}

// ---- the fixture --------------------------------------------------------------------------------

void transport_conformance::make_pair(std::uint32_t ring_bytes) {
  pair_ = GetParam().make(ring_bytes);
  end_0_ = pair_->make_end(0);
}

namespace {

void run_side(node_end& own, unique_fd talk, const std::function<void(side&)>& body) {
  try {
    side s(own, std::move(talk));
    s.meet();
    body(s);
  } catch (const std::exception& e) {
    ADD_FAILURE() << "node " << own.id() << ": " << e.what();
  }
}

} // namespace

void transport_conformance::run(const body& here, const body& there) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    throw std::system_error(errno, std::generic_category(), "socketpair");
  }
  unique_fd ours(ends[0]);
  unique_fd theirs(ends[1]);
  const auto run_there = [&] {
    const std::unique_ptr<node_end> end_1 = pair_->make_end(1);
    run_side(*end_1, std::move(theirs), there);
  };
  if (std::string(GetParam().place) == "threads") {
    std::thread other(run_there);
    run_side(*end_0_, std::move(ours), here);
    other.join();
    return;
  }
  test::forked_child other([&] {
    ours.reset();
    run_there();
    return HasFailure() ? 1 : 0;
  });
  theirs.reset();
  run_side(*end_0_, std::move(ours), here);
  EXPECT_EQ(other.wait(), 0) << "node 1 has failed, see above";
}

} // namespace farcall::conformance
