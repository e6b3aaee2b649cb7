// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/server/server_safety.hpp>
#include <farcall/transport/tcp/socket.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace farcall::detail {
namespace {

/// Returns all addresses at which the server listens: from the options, or of sockets that already
/// listen.
std::vector<tcp::address> listening(const server_options& o) {
  if (o.listeners.empty()) return o.places();
  std::vector<tcp::address> all;
  for (const int fd : o.listeners)
    all.push_back(tcp::local_address(fd));
  return all;
}

void check_port_without_key(const server_options& o, const tcp::address& at) {
  if (!o.plain) {
    throw setting_error("without a key a server listens at a Unix socket, which is its user's "
                        "only (--listen /path, --farcall-serve=/path); " +
                        at.text() +
                        " needs --key FILE, with --farcall-serve --farcall-key FILE "
                        "('farcall keygen FILE' makes one), --clients FILE, or certificates; "
                        "--plain, --farcall-plain=yes, lets everybody who can reach it run " +
                        o.program);
  }
  const std::vector<tcp::socket_address> all = tcp::resolve(at);
  if (!o.trusts_network && !std::ranges::all_of(all, &tcp::socket_address::is_loopback)) {
    throw setting_error("--plain at " + at.text() + " lets everybody who can reach it run " +
                        o.program +
                        "; use --key FILE, or add --i-trust-this-network if nobody else can");
  }
}

} // namespace

void require_safe(const server_options& o, bool is_encrypted) {
  if (is_encrypted && o.plain) {
    throw setting_error("--plain and a key contradict each other; leave one of them out");
  }
  if (is_encrypted) return;
  for (const tcp::address& at : listening(o)) {
    if (!at.is_path()) check_port_without_key(o, at);
  }
}

} // namespace farcall::detail
