#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/job/membership.hpp>
#include <farcall/transport/control_messages.hpp>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/// A target's part: joining, and noticing that the host has gone.
namespace farcall {
namespace {

/// Started by way of /proc, it would appear as "exe" in lists of processes.
void name_process() {
  const std::string name = std::filesystem::path(own_program()).filename().string();
  ::prctl(PR_SET_NAME, name.c_str());
}

/// A descriptor that becomes readable when the process at the other end of a socket ends.
unique_fd process_behind(int socket) {
  ucred who{};
  socklen_t bytes = sizeof who;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0 || who.pid <= 0) return {};
#ifdef SYS_pidfd_open
  return unique_fd(static_cast<int>(::syscall(SYS_pidfd_open, who.pid, 0)));
#else
  return {};
#endif
}

void pin_to(unsigned cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) {
    throw_system_error("running on processor " + std::to_string(cpu) +
                           " (cpu= of the target; see the numbers in 'farcall info')",
                       errno);
  }
}

} // namespace

std::unique_ptr<membership> membership::join(const program_identity& program) {
  const std::string text = environment(bootstrap_variable).value_or("");
  // Our own children must not take themselves for targets.
  ::unsetenv(bootstrap_variable);
  const auto fd = static_cast<int>(parse_number(text, bootstrap_variable, 3, 1'000'000));
  struct stat status{};
  if (::fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode)) {
    throw setting_error(std::string(bootstrap_variable) + " is set to " + text +
                        ", which is no socket of a farcall host; only farcall sets this variable: "
                        "unset it");
  }
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);

  name_process();
  std::unique_ptr<membership> made(new membership);
  made->to_host_ = control_socket(unique_fd(fd));
  control_socket& host = made->to_host_;
  messages::send(host, messages::present{});
  made->host_process_ = process_behind(host.fd());
  try {
    std::map<node_id, node_memory> given;
    std::vector<unique_fd> early; ///< connections of nodes that are faster than we
    for (;;) {
      std::optional<control_message> message = host.receive(time_point::max());
      // The host went away while we started; there is nobody to tell.
      if (!message) ::_exit(1);
      if (message->kind == control::memory) {
        const auto told = messages::memory::decode(message->body);
        if (told.node > most_targets) throw malformed_message("there are not so many nodes");
        if (message->files.size() != told.window_bytes.size() + 1) {
          throw malformed_message("a node's memory came without its descriptors");
        }
        node_memory m;
        m.home = segment::map(std::move(message->files[0]), told.home_bytes);
        for (std::size_t i = 0; i < told.window_bytes.size(); ++i) {
          m.windows.push_back(segment::map(std::move(message->files[i + 1]), told.window_bytes[i]));
        }
        given[told.node] = std::move(m);
      } else if (message->kind == control::credentials) {
        made->network_.emplace(decode_credentials(message->body));
      } else if (message->kind == control::connection) {
        for (unique_fd& socket : message->files)
          early.push_back(std::move(socket));
      } else if (message->kind == control::hello) {
        auto hello = messages::hello::decode(message->body);
        made->self_ = hello.node;
        if (hello.nodes > most_targets + 1 ||
            (!given.empty() && given.rbegin()->first >= hello.nodes)) {
          throw malformed_message("the host's greeting is inconsistent");
        }
        if (!tcp::is_ring_size(hello.lane_bytes)) {
          throw malformed_message("lanes have no such size");
        }
        made->cards_.resize(hello.nodes);
        std::vector<node_memory> memory(hello.nodes);
        for (auto& [of, m] : given)
          memory[of] = std::move(m);
        if (!memory[made->self_].home) {
          if (!made->network_) throw malformed_message("the host gave us no memory");
          memory[made->self_] = make_memory(made->self_, {hello.lane_bytes, hello.heap_bytes, 1});
        }
        if (hello.cpu) pin_to(*hello.cpu);
        made->settings_ = std::move(hello.settings);
        made->set_up(std::move(memory), program, hello.lane_bytes, hello.name, hello.scheme,
                     hello.workers, hello.address);
        messages::send(host, messages::joined{made->cards_[made->self_]});
      } else if (message->kind == control::member) {
        card c = messages::member::decode(message->body).node;
        const node_id node = c.id;
        if (node != made->self_) made->cards_.at(node) = std::move(c);
      } else if (message->kind == control::start) {
        (void)messages::start::decode(message->body);
        break;
      } else {
        throw malformed_message("the host sent something unexpected while we joined");
      }
    }
    made->find_ways();
    for (unique_fd& socket : early)
      made->take_connection(std::move(socket));
  } catch (const std::exception& e) {
    made->give_up(e.what());
    throw;
  }
  return made;
}

void membership::take_connection(unique_fd socket) {
  if (tcp_transport_) tcp_transport_->take_connection(std::move(socket));
}

void membership::give_up(const std::string& why) {
  (void)messages::try_send(to_host_, messages::refused{why});
}

void membership::watch_host() {
  for (;;) {
    pollfd watched[3] = {{stop_signal_.get(), POLLIN, 0},
                         {to_host_.fd(), POLLIN, 0},
                         {host_process_.get(), POLLIN, 0}};
    if (::poll(watched, 3, -1) < 0) continue;
    if (watched[0].revents != 0) return;
    // A child that the host has forked may hold the socket.
    if (watched[2].revents != 0) ::_exit(1);
    std::optional<control_message> message;
    try {
      message = to_host_.receive(clock::now());
      if (message && message->kind == control::node_failed) {
        const auto [node, why] = messages::node_failed::decode(message->body);
        if (node < cards_.size() && node != self_) events_.node_failed(node, why);
      } else if (message && message->kind == control::shut_down) {
        events_.shut_down();
      } else if (message && message->kind == control::connection) {
        for (unique_fd& socket : message->files)
          take_connection(std::move(socket));
      } else if (message && message->kind == control::dial && tcp_transport_) {
        const auto [from, bytes] = messages::dial::decode(message->body);
        tcp_transport_->take_request(from, tcp::decode_dial_request(bytes));
      }
    } catch (const std::exception& e) {
      log::error(std::string("the host's control socket: ") + e.what());
    }
    // The host has gone. Handlers may be anywhere, so there is no orderly end; nothing of ours
    // outlives the process.
    if (!message) ::_exit(1);
  }
}

} // namespace farcall
