#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/job/membership.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
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

class target_membership final : public membership {
 public:
  explicit target_membership(unique_fd host)
      : to_host_(std::move(host)), host_process_(process_behind(to_host_.fd())) {
    to_host_.close_on_fork();
    host_process_.close_on_fork();
  }

  ~target_membership() override {
    stop_watching();
    drop_transports();
  }

  /// Blocks until the host says that all have joined.
  void enter(std::span<const transport_entry> table, const program_identity& program);

  void give_up(const std::string& why) override {
    (void)messages::try_send(to_host_, messages::refused{why});
  }
  void shut_down(const std::function<void()>& /*meanwhile*/) override { stop_watching(); }

 private:
  /// What has come before the transports were there.
  struct early_message {
    messages::transport what;
    std::vector<unique_fd> files;
  };

  void watch_others(int stop_signal) override;
  bool tell(node_id peer, const std::string& scheme, std::span<const std::byte> bytes,
            std::span<const int> files) noexcept override;

  void take_memory(control_message message);
  void take_part(const messages::hello& hello, std::span<const transport_entry> table,
                 const program_identity& program);
  void take_card(card c);
  void take_message(control_message message);

  control_socket to_host_;
  unique_fd host_process_; ///< none where the system cannot tell
  // While joining.
  part own_;
  std::vector<node_memory> memory_;
  std::vector<early_message> early_;
};

void target_membership::take_memory(control_message message) {
  const auto told = messages::memory::decode(message.body);
  if (told.node > most_targets) throw malformed_message("there are not so many nodes");
  if (message.files.size() != told.window_bytes.size() + 1) {
    throw malformed_message("a node's memory came without its descriptors");
  }
  node_memory m;
  m.node = told.node;
  m.receive_segment = segment::map(std::move(message.files[0]), told.receive_segment_bytes);
  for (std::size_t i = 0; i < told.window_bytes.size(); ++i) {
    m.windows.push_back(segment::map(std::move(message.files[i + 1]), told.window_bytes[i]));
  }
  std::erase_if(memory_, [&](const node_memory& other) { return other.node == m.node; });
  memory_.push_back(std::move(m));
}

void target_membership::take_part(const messages::hello& hello,
                                  std::span<const transport_entry> table,
                                  const program_identity& program) {
  if (nodes() != 0) throw malformed_message("the host greets us twice");
  if (hello.nodes > most_targets + 1 ||
      std::any_of(memory_.begin(), memory_.end(),
                  [&](const node_memory& m) { return m.node >= hello.nodes; })) {
    throw malformed_message("the host's greeting is inconsistent");
  }
  roster_ = roster(hello.node, hello.nodes);
  if (std::none_of(memory_.begin(), memory_.end(),
                   [&](const node_memory& m) { return m.node == hello.node; })) {
    memory_.push_back(make_memory(hello.node, {hello.lane_bytes, hello.heap_bytes, 1}));
  }
  if (hello.cpu) pin_to(*hello.cpu);
  settings_ = hello.settings;
  own_.lane_bytes = hello.lane_bytes;
  own_.workers = hello.workers;
  own_.name = hello.name;
  own_.scheme = hello.scheme;
  set_up(std::move(memory_), table, own_, program);
  messages::send(to_host_, messages::joined{card_of(self())});
}

void target_membership::take_card(card c) {
  if (c.id != self()) roster_.add(std::move(c));
}

void target_membership::take_message(control_message message) {
  const messages::transport m = messages::transport::decode(message.body);
  deliver(m.peer, m.scheme, m.bytes, std::move(message.files));
}

void target_membership::enter(std::span<const transport_entry> table,
                              const program_identity& program) {
  messages::send(to_host_, messages::present{});
  for (;;) {
    std::optional<control_message> message = to_host_.receive(time_point::max());
    // The host went away while we started; there is nobody to tell.
    if (!message) ::_exit(1);
    switch (message->kind) {
    case control::setup: {
      messages::setup m = messages::setup::decode(message->body);
      own_.setups[m.scheme] = std::move(m.bytes);
      continue;
    }
    case control::memory:
      take_memory(std::move(*message));
      continue;
    case control::transport:
      early_.push_back({messages::transport::decode(message->body), std::move(message->files)});
      continue;
    case control::hello:
      take_part(messages::hello::decode(message->body), table, program);
      continue;
    case control::member:
      take_card(messages::member::decode(message->body).node);
      continue;
    case control::start:
      (void)messages::start::decode(message->body);
      break;
    default:
      throw malformed_message("the host sent something unexpected while we joined");
    }
    break;
  }
  if (nodes() == 0) throw malformed_message("the host starts before it has greeted us");
  choose_routes();
  for (early_message& m : std::exchange(early_, {}))
    deliver(m.what.peer, m.what.scheme, m.what.bytes, std::move(m.files));
}

bool target_membership::tell(node_id peer, const std::string& scheme,
                             std::span<const std::byte> bytes,
                             std::span<const int> files) noexcept {
  try {
    // Through the host, which soon reads it.
    return messages::send(to_host_, messages::transport{peer, scheme, {bytes.begin(), bytes.end()}},
                          clock::now() + std::chrono::seconds(1), files);
  } catch (const std::exception& e) {
    log::error(e.what());
    return false;
  }
}

void target_membership::watch_others(int stop_signal) {
  for (;;) {
    pollfd watched[3] = {
        {stop_signal, POLLIN, 0}, {to_host_.fd(), POLLIN, 0}, {host_process_.get(), POLLIN, 0}};
    if (::poll(watched, 3, -1) < 0) continue;
    if (watched[0].revents != 0) return;
    // A child that the host has forked may hold the socket.
    if (watched[2].revents != 0) ::_exit(1);
    std::optional<control_message> message;
    try {
      message = to_host_.receive(clock::now());
      if (message && message->kind == control::node_failed) {
        const auto [node, why] = messages::node_failed::decode(message->body);
        if (node < nodes() && node != self()) events_.node_failed(node, why);
      } else if (message && message->kind == control::shut_down) {
        events_.shut_down();
      } else if (message && message->kind == control::heartbeat) {
        // A host that does not read is asked again, or has gone.
        (void)messages::try_send(to_host_, messages::heartbeat::decode(message->body));
      } else if (message && message->kind == control::transport) {
        take_message(std::move(*message));
        continue;
      }
    } catch (const std::exception& e) {
      log::error(std::string("the host's control socket: ") + e.what());
    }
    // The host has gone. Handlers may be anywhere, so there is no orderly end; nothing of ours
    // outlives the process.
    if (!message) ::_exit(1);
  }
}

/// The socket that the host has left to us.
unique_fd inherited_socket() {
  const std::string text = environment(bootstrap_variable).value_or("");
  // Our own children must not take themselves for targets.
  ::unsetenv(bootstrap_variable);
  unique_fd socket(static_cast<int>(parse_number(text, bootstrap_variable, 3, 1'000'000)));
  struct stat status{};
  if (::fstat(socket.get(), &status) != 0 || !S_ISSOCK(status.st_mode)) {
    // It is somebody else's.
    (void)socket.release();
    throw setting_error(std::string(bootstrap_variable) + " is set to " + text +
                        ", which is no socket of a farcall host; only farcall sets this variable: "
                        "unset it");
  }
  return socket;
}

} // namespace

std::unique_ptr<membership> membership::join(unique_fd socket,
                                             std::span<const transport_entry> table,
                                             const program_identity& program) {
  ::fcntl(socket.get(), F_SETFD, FD_CLOEXEC);
  auto made = std::make_unique<target_membership>(std::move(socket));
  try {
    made->enter(table, program);
  } catch (const std::exception& e) {
    made->give_up(e.what());
    throw;
  }
  return made;
}

std::unique_ptr<membership> membership::join(std::span<const transport_entry> table,
                                             const program_identity& program) {
  unique_fd socket = inherited_socket();
  name_process();
  return join(std::move(socket), table, program);
}

} // namespace farcall
