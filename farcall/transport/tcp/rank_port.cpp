// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/log.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/tcp/connection.hpp>
#include <farcall/transport/tcp/node_addresses.hpp>
#include <farcall/transport/tcp/rank_port.hpp>
#include <farcall/transport/tcp/relay.hpp>
#include <farcall/transport/tcp/socket.hpp>
#include <farcall/transport/tcp/unproved_arrivals.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <future>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace farcall::tcp {
namespace {

struct port_name {
  target_request job;
  std::vector<node_address> addresses;
};

port_name decode(std::span<const std::byte> name) {
  byte_reader r(name, "the name of a port");
  port_name told;
  told.job = decode_credentials(r.block());
  told.addresses = read_addresses(r);
  if (!r.empty()) throw malformed_message("the name of a port is followed by something else");
  return told;
}

connection_security security_of(const target_request& job) {
  return {std::make_shared<const job_credentials>(job.credentials.copy()),
          job.credentials.identity()};
}

/// Processes that have connected. The object is shared with functions that may still run on the
/// loop's thread.
struct arrivals {
  std::mutex mutex;
  struct entry {
    arrival what;
    std::shared_ptr<relay> link;
  };
  std::deque<entry> come;
  /// Readable while processes wait to be accepted. May stay readable for a while if none waits any
  /// more.
  unique_fd signal;
  log::limited_log refusals{"more processes were refused"};
};

/// Returns an owner of the loop and the relay, which destroys the relay first. The owner must be
/// destroyed on another thread than the loop's, because the loop's destructor waits for that
/// thread.
std::shared_ptr<void> keep(std::shared_ptr<event_loop> loop, std::shared_ptr<relay> link) {
  return std::make_shared<std::pair<std::shared_ptr<event_loop>, std::shared_ptr<relay>>>(
      std::move(loop), std::move(link));
}

class rank_port final : public port {
 public:
  rank_port(std::shared_ptr<event_loop> loop, std::shared_ptr<own_listener> listener,
            target_request job)
      : loop_(std::move(loop)), listener_(std::move(listener)), job_(std::move(job)) {
    arrivals_->signal = unique_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!arrivals_->signal) throw_system_error("waiting for processes (descriptor limit?)", errno);
    arrivals_->signal.close_on_fork();
    listener_->on_join([all = arrivals_, unproved = std::make_shared<unproved_arrivals>(),
                        loop = loop_.get(), security = security_of(job_),
                        timeout = job_.heartbeat_timeout](unique_fd socket) {
      const std::string from = peer_text(socket.get());
      unproved->add(from, [&](std::function<void()> decided) {
        return receive_connect_request(
            *loop, std::move(socket), security, host_id, clock::now() + timeout,
            [all, unproved, decided = std::move(decided), loop, timeout,
             from](std::unique_ptr<stream> s, const connect_request& o, const std::string& why) {
              decided();
              if (!s && why.empty()) {
                static auto& lines = *new log::limited_log("more connections ended early");
                lines.info("a connection from " + from + " ended before it sent a request");
                return;
              }
              if (!s) {
                all->refusals.warning("a connection from " + from + " is refused: " + why);
                return;
              }
              if (o.kind != connection_kind::join) {
                all->refusals.warning("a connection from " + from +
                                      " is refused: it is none of a process that joins");
                return;
              }
              let_in(*all, *loop, std::move(s), o.from, from, timeout);
            });
      });
    });
  }
  ~rank_port() override { listener_->on_join({}); }
  rank_port(const rank_port&) = delete;
  rank_port& operator=(const rank_port&) = delete;

  std::vector<std::byte> name() const override {
    byte_writer w;
    w.block(encode_credentials(job_));
    std::vector<node_address> addresses;
    for (const socket_address& a : listener_->addresses())
      addresses.push_back(address_in(network_identity(), a));
    write_addresses(w, addresses);
    return std::move(w).bytes();
  }

  int wait_fd() const noexcept override { return arrivals_->signal.get(); }

  std::optional<arrival> accept() override {
    const std::lock_guard guard(arrivals_->mutex);
    if (arrivals_->come.empty()) {
      std::uint64_t count = 0;
      // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection): it does not block
      [[maybe_unused]] const auto got = ::read(arrivals_->signal.get(), &count, sizeof count);
      return std::nullopt;
    }
    auto [next, link] = std::move(arrivals_->come.front());
    arrivals_->come.pop_front();
    next.keeps = keep(loop_, std::move(link));
    return std::move(next);
  }

 private:
  static void let_in(arrivals& all, event_loop& loop, std::unique_ptr<stream> far, node_id rank,
                     const std::string& from, std::chrono::milliseconds timeout) {
    auto [ours, theirs] = control_socket::make_pair();
    const std::string process = "a process at " + from;
    auto link = std::make_shared<relay>(
        loop, std::move(theirs), std::move(far), timeout,
        [process](control_socket& near, const std::string& why) {
          if (why.empty()) return;
          (void)messages::try_send(near,
                                   messages::ended{process + " can no longer be reached: " + why});
        });
    link->start();
    arrival come;
    come.rank = rank;
    come.socket = std::move(ours).take();
    come.process = process;
    {
      const std::lock_guard guard(all.mutex);
      all.come.push_back({std::move(come), std::move(link)});
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(all.signal.get(), &one, sizeof one);
  }

  std::shared_ptr<event_loop> loop_;
  std::shared_ptr<own_listener> listener_;
  target_request job_;
  std::shared_ptr<arrivals> arrivals_ = std::make_shared<arrivals>();
};

/// Writes all bytes; blocks until they are written. Throws timeout or error.
void write_all(stream& to, std::span<const std::byte> bytes, time_point deadline) {
  while (!bytes.empty()) {
    const iovec rest{const_cast<std::byte*>(bytes.data()), bytes.size()};
    const io_result done = to.write({&rest, 1});
    if (done.status == io_status::done) {
      bytes = bytes.subspan(done.bytes);
      continue;
    }
    if (done.status != io_status::would_block) throw error(to.failure());
    pollfd waiting{to.fd(), static_cast<short>(to.write_wants_read() ? POLLIN : POLLOUT), 0};
    const int ready = ::poll(&waiting, 1, poll_timeout(deadline));
    if (ready == 0) throw timeout("the host takes connections and does not reply");
    if (ready < 0 && errno != EINTR) throw_system_error("waiting for the host", errno);
  }
}

/// Dials the host, and blocks until the connection is made. Throws error.
std::pair<std::unique_ptr<stream>, connect_request> dial_host(event_loop& loop, const port_name& to,
                                                              node_id rank, time_point deadline) {
  std::vector<socket_address> where = addresses_from(network_identity(), to.addresses);
  if (where.empty()) throw error("the host has no address that leads there from this machine");
  connect_request o;
  o.kind = connection_kind::join;
  o.from = rank;
  o.to = host_id;
  struct outcome {
    std::unique_ptr<stream> connection;
    connect_request request;
    std::string why;
  };
  std::promise<outcome> told;
  dial(loop, std::move(where), security_of(to.job), o, to.job.heartbeat_timeout, deadline,
       [&told](std::unique_ptr<stream> s, const connect_request& request, const std::string& why) {
         told.set_value({std::move(s), request, why});
       });
  std::future<outcome> awaited = told.get_future();
  outcome got = awaited.get();
  if (!got.connection) throw error("cannot connect to the host (" + got.why + ")");
  return {std::move(got.connection), got.request};
}

} // namespace

std::unique_ptr<port> open_rank_port(std::shared_ptr<event_loop> loop,
                                     std::shared_ptr<own_listener> listener, target_request job) {
  return std::make_unique<rank_port>(std::move(loop), std::move(listener), std::move(job));
}

port_connection connect_rank_port(std::span<const std::byte> name, node_id rank,
                                  time_point deadline) {
  const port_name to = decode(name);
  const std::shared_ptr<event_loop> loop = common_event_loop();
  auto [far, request] = dial_host(*loop, to, rank, deadline);
  write_all(*far, std::as_bytes(std::span(&request, 1)), deadline);
  auto [ours, theirs] = control_socket::make_pair();
  // When the relay ends, it closes the control socket, and this process ends because of that. If
  // the connection to the host has failed, print the reason to this process's standard error.
  auto link =
      std::make_shared<relay>(*loop, std::move(theirs), std::move(far), to.job.heartbeat_timeout,
                              [](control_socket& /*near*/, const std::string& why) {
                                if (!why.empty())
                                  log::error("the host can no longer be reached: " + why);
                              });
  link->start();
  return {std::move(ours).take(), keep(loop, std::move(link))};
}

} // namespace farcall::tcp
