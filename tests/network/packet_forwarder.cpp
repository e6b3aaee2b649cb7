// SPDX-License-Identifier: Apache-2.0
#include "tests/network/packet_forwarder.hpp"

#include "tests/support.hpp"

#include <farcall/base/error.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <set>
#include <utility>

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace farcall::test {
namespace {

constexpr std::size_t max_packet = 65536;
/// Longer packets carry data of copies and calls; heartbeats, acknowledgements and handshakes pass.
constexpr std::size_t max_short = 600;

/// Fields of a packet's TCP header.
struct tcp_head {
  std::uint16_t near_port = 0;
  bool ends = false; ///< FIN or RST
};

bool read_head(std::span<const std::byte> packet, bool is_from_near, tcp_head& head) {
  const auto at = [&](std::size_t i) { return std::to_integer<unsigned>(packet[i]); };
  if (packet.size() < 40 || at(0) >> 4 != 4 || at(9) != IPPROTO_TCP) return false;
  const std::size_t tcp = (at(0) & 15) * std::size_t{4};
  if (packet.size() < tcp + 20) return false;
  const std::size_t port = tcp + (is_from_near ? 0 : 2);
  head.near_port = static_cast<std::uint16_t>(at(port) << 8 | at(port + 1));
  head.ends = (at(tcp + 13) & 5) != 0;
  return true;
}

/// Makes a tun device that is up and has an address.
unique_fd make_device(const std::string& address) {
  unique_fd made(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ifreq request{};
  std::strcpy(request.ifr_name, "wire");
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (!made || ::ioctl(made.get(), TUNSETIFF, &request) != 0)
    throw_system_error("making a tun device", errno);
  const std::string commands = "(ip link set lo up && ip addr add " + address +
                               "/30 dev wire && ip link set wire up) >/dev/null 2>&1";
  if (std::system(commands.c_str()) != 0) throw error("a tun device cannot be set up");
  return made;
}

/// Uses its own thread, as a namespace belongs to a thread.
unique_fd make_device_in(const std::string& name, const std::string& address) {
  unique_fd made;
  std::exception_ptr failure;
  std::thread([&] {
    try {
      const unique_fd there(::open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC));
      if (!there || ::setns(there.get(), CLONE_NEWNET) != 0)
        throw_system_error("entering a network namespace", errno);
      made = make_device(address);
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
  return made;
}

} // namespace

packet_forwarder::packet_forwarder(const std::string& near_namespace,
                                   const std::string& far_namespace)
    : near_(make_device_in(near_namespace, near_address)),
      far_(make_device_in(far_namespace, far_address)), thread_([this] { run(); }) {}

packet_forwarder::~packet_forwarder() {
  stops_ = true;
  thread_.join();
}

void packet_forwarder::run() {
  while (!stops_) {
    std::array<pollfd, 2> waiting{{{near_.get(), POLLIN, 0}, {far_.get(), POLLIN, 0}}};
    if (::poll(waiting.data(), waiting.size(), 20) <= 0) continue;
    pass(near_.get(), far_.get(), true);
    pass(far_.get(), near_.get(), false);
  }
}

void packet_forwarder::pass(int from, int to, bool is_from_near) {
  std::vector<std::byte> packet(max_packet);
  for (;;) {
    const ssize_t got = ::read(from, packet.data(), packet.size());
    if (got <= 0) return;
    const auto bytes = std::span(packet).first(static_cast<std::size_t>(got));
    const std::lock_guard guard(mutex_);
    if (is_kept(bytes, is_from_near)) continue;
    (void)!::write(to, bytes.data(), bytes.size());
  }
}

bool packet_forwarder::is_kept(std::span<const std::byte> bytes, bool is_from_near) {
  tcp_head head;
  if (!read_head(bytes, is_from_near, head)) return false;
  const bool is_broken = flows_[head.near_port];
  if (!is_from_near) {
    ++replies_[head.near_port];
    return false;
  }
  if (!is_broken) return false;
  if (bytes.size() > max_short) {
    held_.emplace_back(bytes.begin(), bytes.end());
    return true;
  }
  return head.ends;
}

void packet_forwarder::break_path() {
  const std::lock_guard guard(mutex_);
  for (auto& [port, is_broken] : flows_)
    is_broken = true;
}

std::size_t packet_forwarder::release_held() {
  std::set<std::uint16_t> ports;
  std::size_t count = 0;
  {
    const std::lock_guard guard(mutex_);
    replies_.clear();
    for (const auto& packet : std::exchange(held_, {})) {
      tcp_head head;
      if (read_head(packet, true, head)) ports.insert(head.near_port);
      (void)!::write(far_.get(), packet.data(), packet.size());
      ++count;
    }
  }
  (void)eventually([&] {
    const std::lock_guard guard(mutex_);
    return std::all_of(ports.begin(), ports.end(),
                       [&](std::uint16_t port) { return replies_[port] != 0; });
  });
  return count;
}

} // namespace farcall::test
