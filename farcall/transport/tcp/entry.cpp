// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/tcp/address.hpp>
#include <farcall/transport/tcp/entry.hpp>
#include <farcall/transport/tcp/rank_port.hpp>
#include <farcall/transport/tcp/remote_target.hpp>
#include <farcall/transport/tcp/tcp.hpp>

#include <algorithm>

namespace farcall::tcp {
namespace {

/// Factor by which the rings of tcp lanes are larger than the rings of other transports. A record
/// that does not fit the ring costs another round trip and a wake-up, which justifies more memory.
constexpr std::uint32_t ring_factor = 4;

std::uint64_t read_address(std::string_view place, const std::string& what, target_url& url) {
  for (const std::string_view prefix : {"tcp://", "unix://"}) {
    if (!place.starts_with(prefix)) continue;
    const address where = parse_server_address(place.substr(prefix.size()), "target " + what);
    if (!where.url().starts_with(prefix)) break;
    url.address = where.text();
    return 1;
  }
  throw setting_error("target " + what + ": an address follows: tcp://host:port, or unix:///path");
}

std::vector<availability> available() {
  return {{std::string(scheme), true,
           tls_is_built_in() ? "other machines, encrypted or not"
                             : "other machines, unencrypted: built without TLS"}};
}

/// Returns the addresses that the server of this process has put into the process's environment.
/// The host's address of the server may be another one, for instance the address of a tunnel.
std::vector<node_address> addresses_of_our_server(const std::string& network) {
  std::vector<node_address> all;
  std::string_view rest;
  const std::string told = environment(server_addresses_variable).value_or("");
  for (rest = told; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    all.push_back(
        address_in(network, numeric_address(std::string(one), server_addresses_variable)));
  }
  return all;
}

std::unique_ptr<transport> make_here(transport_site& site) {
  if (site.setup.empty()) return nullptr;
  tcp_setup setup = decode_setup(site.setup);
  options o;
  o.self = site.self;
  o.nodes = site.nodes;
  o.ring_bytes = std::min(site.lane_bytes * ring_factor, static_cast<std::uint32_t>(max_ring));
  o.machine = site.machine;
  o.network = network_identity();
  o.server = std::move(setup.server);
  o.addresses = std::move(setup.addresses);
  if (!o.server.empty()) add_addresses(o.addresses, addresses_of_our_server(o.network));
  o.doorbells = site.doorbells;
  o.windows = site.windows;
  o.credentials = std::move(setup.job.credentials);
  o.heartbeat_timeout = setup.job.heartbeat_timeout;
  o.ask_to_dial = [tell = site.tell](node_id peer, const dial_request& request) {
    if (!tell(peer, encode(request), {})) {
      static auto& lines = *new log::limited_log("more connections could not be asked for");
      lines.error(node_text(peer) + " cannot be asked for a connection");
    }
  };
  // Ignore a failure to send these two kinds of messages, because a peer that cannot be told has
  // ended, or is about to end.
  o.tell_of_delivery = [tell = site.tell](node_id peer, const delivery_message& message) {
    (void)tell(peer, encode(message), {});
  };
  o.tell_of_end = [tell = site.tell](node_id peer, const dial_request& request) {
    (void)tell(peer, encode(request), {});
  };
  if (!o.server.empty()) {
    o.tell_taken = [tell = site.tell](socket_number socket) {
      if (!tell(no_node, encode_taken(socket), {})) {
        static auto& lines = *new log::limited_log("more connections could not be told of");
        lines.error("our server cannot be told of a connection");
      }
    };
  }
  if (const auto* const host = static_cast<const server_launcher*>(site.started_by)) {
    o.loop = host->loop();
    o.listener = host->listener();
  } else {
    // Make an event loop for the lanes and copies that is embedded in the process's loop. The
    // process's loop may live longer than the memory that lanes and copies use.
    o.loop = std::make_shared<event_loop>(common_event_loop());
    if (setup.listens) {
      o.listener = std::make_shared<own_listener>(*o.loop, o.credentials.name, o.heartbeat_timeout);
    }
  }
  if (o.listener) {
    for (const socket_address& a : o.listener->addresses())
      add_addresses(o.addresses, {address_in(o.network, a)});
  }
  event_loop& loop = *o.loop;
  return tcp::make(loop, std::move(o));
}

} // namespace

transport_entry entry() {
  url_option plain{"plain", "yes: unencrypted beyond loopback too", 0, 0, 1, "yes", ""};
  url_option sampler{
      "sampler", "yes: what samples the server's targets for 'farcall prof'", 0, 0, 1, "yes", ""};
  url_option program{"program",
                     "",
                     0,
                     0,
                     1,
                     "",
                     "what a server runs is said where it is started ('farcall serve … PROGRAM')"};
  transport_entry row;
  row.scheme = scheme;
  row.example = "tcp://host:port?count=2, unix:///path";
  row.other_schemes = {"unix"};
  row.options = {cpu_option(), count_option(), plain, sampler, program};
  row.read_place = &read_address;
  row.available = &available;
  row.make = &make_here;
  row.make_launcher = [](const launch_site& site) {
    return std::make_unique<server_launcher>(site);
  };
  row.connect_port = &connect_rank_port;
  return row;
}

} // namespace farcall::tcp
