#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/tcp/remote_target.hpp>
#include <farcall/transport/tcp/address.hpp>
#include <farcall/transport/tcp/opening.hpp>
#include <farcall/transport/tcp/socket.hpp>
#include <farcall/transport/tcp/stream.hpp>

#include <array>
#include <cerrno>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>

namespace farcall {
namespace {

constexpr std::chrono::milliseconds shortest_liveness{settings::row("liveness-ms").low};
constexpr std::chrono::milliseconds longest_liveness{settings::row("liveness-ms").high};

/// Exactly one welcome. Throws error.
tcp::welcome receive_welcome(int socket, time_point deadline) {
  tcp::welcome_message m;
  std::size_t have = 0;
  while (have < sizeof m) {
    pollfd waiting{socket, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, poll_timeout(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) throw error("it takes connections and does not answer");
    const ssize_t got =
        ::recv(socket, reinterpret_cast<std::byte*>(&m) + have, sizeof m - have, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got < 0) throw_system_error("it has cut the connection", errno);
    if (got == 0) throw error("it ended the connection; is it a server of farcall?");
    have += static_cast<std::size_t>(got);
  }
  if (m.magic != tcp::preamble_magic) throw error("it is no server of farcall");
  if (m.version != tcp::connection_version) return tcp::welcome::other_version;
  return m.word;
}

} // namespace

std::vector<std::byte> encode_credentials(const target_request& request) {
  byte_writer w;
  w.number(request.credentials.name);
  std::array<std::byte, tcp::job_secret_bytes> proof{};
  std::memcpy(proof.data(), request.credentials.proof.bytes().data(), proof.size());
  w.number(proof);
  w.number(std::uint32_t{request.credentials.is_encrypted ? 1U : 0U});
  w.number(static_cast<std::uint32_t>(request.liveness.count()));
  return std::move(w).bytes();
}

target_request decode_credentials(std::span<const std::byte> body) {
  byte_reader r(body, "the job's credentials");
  target_request request;
  request.credentials.name = r.number<tcp::job_name>();
  const auto proof = r.number<std::array<std::byte, tcp::job_secret_bytes>>();
  request.credentials.proof = tcp::secret::copy_of(proof);
  request.credentials.is_encrypted = r.number<std::uint32_t>() != 0;
  request.liveness = std::chrono::milliseconds(r.number<std::uint32_t>());
  if (request.liveness < shortest_liveness || request.liveness > longest_liveness || !r.empty()) {
    throw malformed_message("the job's credentials make no sense");
  }
  return request;
}

target_request decode_request(std::span<const std::byte> frame) {
  byte_reader r(frame, "a host's request");
  const auto header = r.number<frame_header>();
  if (header.bytes != request_body_bytes ||
      header.kind != static_cast<std::uint32_t>(control::credentials)) {
    throw malformed_message("it sent something else than a request for a target");
  }
  return decode_credentials(frame.subspan(sizeof header));
}

std::pair<control_socket, std::shared_ptr<relay>>
start_remote_target(tcp::reactor& loop, const target_url& url, node_id node,
                    const target_request& request,
                    const std::shared_ptr<const tcp::tls_identity>& identity, time_point deadline) {
  const std::string who = node_text(node) + " (tcp://" + url.address + ")";
  try {
    unique_fd socket =
        tcp::connect_to(tcp::parse_address(url.address, "the address of a server"), deadline);
    tcp::set_options(socket.get(), request.liveness);
    tcp::preamble p;
    p.kind = tcp::connection_kind::control;
    p.is_encrypted = identity ? 1 : 0;
    p.to = node;
    p.job = request.credentials.name;
    if (::send(socket.get(), &p, sizeof p, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof p)) {
      throw_system_error("it has cut the connection", errno);
    }
    const tcp::welcome word = receive_welcome(socket.get(), deadline);
    if (word != tcp::welcome::come_in) throw error(tcp::refusal_text(word));
    auto connection = identity ? tcp::tls_client(std::move(socket), identity)
                               : tcp::plain_stream(std::move(socket));
    auto [ours, theirs] = control_socket::make_pair();
    auto link = std::make_shared<relay>(
        loop, std::move(theirs), std::move(connection), request.liveness,
        [url](control_socket& near, const std::string& why) {
          if (why.empty()) return;
          (void)messages::try_send(
              near, messages::ended{"tcp://" + url.address + " can no longer be reached: " + why});
        });
    link->start();
    if (!ours.send(control::credentials, encode_credentials(request), {}, deadline)) {
      const auto last = ours.receive(clock::now());
      if (!last || last->kind != control::ended) throw error("the connection ended at once");
      throw error(messages::ended::decode(last->body).how);
    }
    return {std::move(ours), std::move(link)};
  } catch (const error& e) {
    throw start_failed(who + " cannot be started: " + e.what(), node);
  }
}

} // namespace farcall
