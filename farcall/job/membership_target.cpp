#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/fault_report.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/node_table.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/wipe.hpp>
#include <farcall/job/membership.hpp>
#include <farcall/job/rank_launcher.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/start_mark.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/// A target's part: joining, getting to know other nodes, and noticing that the host has gone.
namespace farcall {
namespace {

/// How long a call without a deadline waits until another node is known. The host answers at once,
/// and so does the node, unless it is stopped.
constexpr std::chrono::seconds longest_introduction{10};
/// For the host to have space for what it is told.
constexpr std::chrono::seconds tell_time{1};
/// What a node of a job of equals ends with that has lost another.
constexpr int cut_off_status = 1;

/// Started by way of /proc, it would appear as "exe" in lists of processes.
void name_process() {
  const std::string name = std::filesystem::path(own_program()).filename().string();
  ::prctl(PR_SET_NAME, name.c_str());
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

/// Process group that the host has made for this target and its children; 0 if there is none.
constinit std::atomic<pid_t> own_group{0};

/// Takes the process group of this target for its own if its host is in another one.
void find_own_group(int socket_to_host) noexcept {
  ucred host{};
  socklen_t bytes = sizeof host;
  if (::getsockopt(socket_to_host, SOL_SOCKET, SO_PEERCRED, &host, &bytes) != 0 || host.pid <= 0)
    return;
  const pid_t group = ::getpgid(host.pid);
  if (group > 0 && group != ::getpgrp()) own_group.store(::getpgrp());
}

/// Ends what this target has started, which the terminal's signals to the host have not reached.
void hang_up_own_group() noexcept {
  if (own_group.load() != ::getpgrp()) return;
  (void)std::signal(SIGHUP, SIG_IGN);
  (void)::kill(0, SIGHUP);
}

/// Lets this process, in the background of the terminal, write there despite `stty tostop`.
void write_from_background() noexcept {
  struct sigaction now{};
  if (::sigaction(SIGTTOU, nullptr, &now) == 0 && now.sa_handler == SIG_DFL)
    (void)std::signal(SIGTTOU, SIG_IGN);
}

/// Has the host hear where this process faults.
class fault_teller final : public fault_listener {
 public:
  explicit fault_teller(control_socket& to_host) : to_host_(to_host) {}
  fault_teller(const fault_teller&) = delete;
  fault_teller& operator=(const fault_teller&) = delete;
  ~fault_teller() { tell_faults_to(nullptr); }

  void hear_fault(int signal, std::string_view where, bool has_names) noexcept override {
    // As messages::faulted::encode(), which may have to allocate. A host that does not read hears
    // nothing.
    std::size_t size = 0;
    const auto add = [&](const void* from, std::size_t bytes) {
      std::memcpy(body_.data() + size, from, bytes);
      size += bytes;
    };
    const std::int32_t number = signal;
    const std::uint8_t nothing_follows = has_names ? 1 : 0;
    const auto bytes = static_cast<std::uint32_t>(std::min(where.size(), longest_fault_text));
    add(&number, sizeof number);
    add(&nothing_follows, sizeof nothing_follows);
    add(&bytes, sizeof bytes);
    add(where.data(), bytes);
    (void)to_host_.try_send(messages::faulted::kind, std::span(body_).first(size));
  }

 private:
  static_assert(longest_fault_text <= byte_reader::longest_text);

  control_socket& to_host_;
  std::array<std::byte, sizeof(std::int32_t) + sizeof(std::uint8_t) + sizeof(std::uint32_t) +
                            longest_fault_text>
      body_{};
};

class target_membership final : public membership {
 public:
  target_membership(port_connection host, std::optional<group_place> group)
      : link_(std::move(host.keeps)), to_host_(std::move(host.socket)),
        host_process_(process_behind(to_host_.fd())) {
    to_host_.close_on_fork();
    host_process_.close_on_fork();
    own_.group = group;
  }

  ~target_membership() override {
    faults_.reset();
    end_meetings();
    stop_watching();
    drop_transports();
    // A server takes its end for that of the process.
    if (is_over() && events_.round_changed) to_host_.leave_open();
  }

  /// Blocks until the host says that all have joined.
  void enter(std::span<const transport_entry> table, const program_identity& program,
             const join_check& check);

  void give_up(const std::string& why) override {
    (void)messages::try_send(to_host_, messages::refused{why});
  }
  void cut_off(node_id node) override {
    if (is_over() || roster_.has_failed(node)) return;
    const std::string why = "the connection of a lane between it and " + node_text(node) +
                            " ended, and messages with it";
    log::error(node_text(self()) + " cannot go on: " + why);
    give_up(why);
    ::_exit(cut_off_status);
  }
  void be_quiet(bool was_active) override {
    (void)messages::send(to_host_, messages::quiet{round(), was_active});
  }
  void shut_down(const std::function<void()>& /*meanwhile*/) override {
    end_meetings();
    stop_watching();
  }

 private:
  /// Threads that wait until a node is known.
  struct meeting {
    unsigned waiting = 0;
    bool is_absent = false; ///< there is none, the host says
  };

  /// What has come before the transports were there.
  struct early_message {
    messages::transport what;
    std::vector<unique_fd> files;
  };

  void watch_others(int stop_signal) override;
  void lose_host();
  bool tell(node_id peer, const std::string& scheme, std::span<const std::byte> bytes,
            std::span<const int> files) noexcept override;

  void ask_for(node_id node, time_point deadline) const override;
  [[nodiscard]] static node_memory map_memory(control_message message);
  void take_part(const messages::hello& hello, std::span<const transport_entry> table,
                 const program_identity& program);
  void meet_member(messages::member m);
  void end_meetings() noexcept {
    {
      const std::lock_guard guard(meeting_mutex_);
      is_ending_ = true;
    }
    met_.notify_all();
  }
  void take_failure(const messages::node_failed& what);
  void take_absence(const messages::absent& what);
  void take_message(control_message message);
  /// What the host has said after the start.
  void take(control_message message);

  std::shared_ptr<void> link_; ///< lengthens the socket
  mutable control_socket to_host_;
  std::unique_ptr<fault_teller> faults_; ///< once it has joined
  unique_fd host_process_;               ///< none where the system cannot tell
  // While joining.
  part own_;
  std::vector<node_memory> memory_;
  std::vector<early_message> early_;
  // Who waits until a node is known.
  mutable std::mutex meeting_mutex_;
  mutable std::condition_variable met_;
  mutable std::map<node_id, meeting> meetings_;
  std::map<node_id, std::string> failures_; ///< by node: why
  bool is_ending_ = false;                  ///< nobody reads what the host says any more
};

node_memory target_membership::map_memory(control_message message) {
  const auto told = messages::memory::decode(message.body);
  if (message.files.size() != told.window_bytes.size() + 1) {
    throw malformed_message("a node's memory came without its descriptors");
  }
  node_memory m;
  m.node = told.node;
  m.receive_segment = segment::map(std::move(message.files[0]), told.receive_segment_bytes);
  for (std::size_t i = 0; i < told.window_bytes.size(); ++i) {
    m.windows.push_back(segment::map(std::move(message.files[i + 1]), told.window_bytes[i]));
  }
  return m;
}

void target_membership::take_part(const messages::hello& hello,
                                  std::span<const transport_entry> table,
                                  const program_identity& program) {
  if (nodes() != 0) throw malformed_message("the host greets us twice");
  // A host that is none must not have us take any amount of memory.
  if (hello.capacity > most_node_numbers) throw malformed_message("there are not so many nodes");
  roster_ = roster(hello.node, hello.nodes, hello.capacity);
  const auto ours = std::find_if(memory_.begin(), memory_.end(),
                                 [&](const node_memory& m) { return m.node == hello.node; });
  const bool has_theirs = ours != memory_.end();
  node_memory own = has_theirs ? std::move(*ours)
                               : make_memory(hello.node, {hello.lane_bytes, hello.heap_bytes, 1});
  if (has_theirs) memory_.erase(ours);
  if (hello.cpu) pin_to(*hello.cpu);
  settings_ = hello.settings;
  own_.lane_bytes = hello.lane_bytes;
  own_.workers = hello.workers;
  own_.name = hello.name;
  own_.scheme = hello.scheme;
  own_.hands_out_memory = !has_theirs;
  set_up(std::move(own), table, own_, program);
  own_.forget_setups();
  for (node_memory& other : std::exchange(memory_, {}))
    take_memory(std::move(other));
  messages::send(to_host_, messages::joined{roster_.card_of(self())});
}

// ---- getting to know others ---------------------------------------------------------------------

void target_membership::ask_for(node_id node, time_point deadline) const {
  if (node >= capacity()) membership::ask_for(node, deadline);
  const time_point end = std::min(deadline, clock::now() + longest_introduction);
  std::unique_lock guard(meeting_mutex_);
  meeting& m = meetings_[node];
  if (m.waiting++ == 0) {
    m.is_absent = false;
    // The host reads without waiting for anybody. When it is gone, so are we.
    guard.unlock();
    try {
      (void)messages::send(to_host_, messages::introduce{node}, end);
    } catch (const std::exception& e) {
      log::error(e.what());
    }
    guard.lock();
  }
  met_.wait_until(guard, end, [&] {
    return roster_.knows(node) || failures_.contains(node) || m.is_absent || is_ending_;
  });
  const bool is_absent = m.is_absent;
  const std::string why = failures_.contains(node) ? failures_.at(node)
                          : is_ending_             ? "the job is ending"
                                                   : "";
  if (--m.waiting == 0) meetings_.erase(node);
  guard.unlock();
  if (roster_.knows(node)) return;
  if (!why.empty()) throw node_failed(why, node);
  if (is_absent) membership::ask_for(node, deadline);
  throw timeout(node_text(node) + " could not be met before the deadline, or within " +
                    std::to_string(longest_introduction.count()) +
                    " s: it, or the host, may be stopped",
                node);
}

void target_membership::meet_member(messages::member m) {
  const node_id node = m.node.id;
  if (!roster_.knows(node)) {
    roster_.add(std::move(m.node), m.knows_you);
    roster_.grow(std::size_t{node} + 1);
    choose_routes();
    if (m.knows_you) {
      {
        const std::lock_guard guard(meeting_mutex_);
      }
      met_.notify_all();
    }
  }
  // Also of one that is known: what was sent before may be lost. The host soon reads it.
  (void)messages::send(to_host_, messages::introduced{node}, clock::now() + tell_time);
}

void target_membership::take_failure(const messages::node_failed& what) {
  if (what.node >= capacity() || what.node == self()) return;
  roster_.fail(what.node);
  events_.node_failed(what.node, what.why);
  {
    const std::lock_guard guard(meeting_mutex_);
    failures_.emplace(what.node, what.why);
  }
  met_.notify_all();
}

void target_membership::take_absence(const messages::absent& what) {
  if (what.nodes <= capacity()) roster_.grow(what.nodes);
  {
    const std::lock_guard guard(meeting_mutex_);
    if (const auto at = meetings_.find(what.node); at != meetings_.end()) {
      at->second.is_absent = true;
    }
  }
  met_.notify_all();
}

void target_membership::take_message(control_message message) {
  const messages::transport m = messages::transport::decode(message.body);
  deliver(m.peer, m.scheme, m.bytes, std::move(message.files));
}

void target_membership::enter(std::span<const transport_entry> table,
                              const program_identity& program, const join_check& check) {
  messages::send(to_host_, messages::present{});
  for (;;) {
    std::optional<control_message> message = to_host_.receive(time_point::max());
    // The host went away while we started; there is nobody to tell.
    if (!message) ::_exit(1);
    switch (message->kind) {
    case control::setup: {
      messages::setup m = messages::setup::decode(message->body);
      own_.setups[m.scheme] = std::move(m.bytes);
      // There may be secrets in it, and that was a copy.
      wipe(std::span(message->body));
      continue;
    }
    case control::memory:
      // For what becomes of us; transports for others are to come.
      if (nodes() != 0) throw malformed_message("a node's memory comes behind the greeting");
      memory_.push_back(map_memory(std::move(*message)));
      continue;
    case control::transport:
      early_.push_back({messages::transport::decode(message->body), std::move(message->files)});
      continue;
    case control::hello: {
      const auto hello = messages::hello::decode(message->body);
      check(hello.settings, hello.scheme, hello.workers);
      take_part(hello, table, program);
      continue;
    }
    case control::member:
      roster_.add(messages::member::decode(message->body).node);
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
  faults_ = std::make_unique<fault_teller>(to_host_);
  tell_faults_to(faults_.get());
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
                          clock::now() + tell_time, files);
  } catch (const std::exception& e) {
    // Peers cause replies as often as they like. Never destroyed: threads may outlive static
    // objects.
    static auto& lines = *new log::limited_log("more messages could not be sent");
    lines.error(e.what());
    return false;
  }
}

void target_membership::lose_host() {
  // An equal goes on after its job.
  if (!events_.host_ended || !is_over()) hang_up_own_group();
  if (!events_.host_ended) ::_exit(1);
  events_.host_ended();
}

void target_membership::watch_others(int stop_signal) {
  for (;;) {
    pollfd watched[3] = {
        {stop_signal, POLLIN, 0}, {to_host_.fd(), POLLIN, 0}, {host_process_.get(), POLLIN, 0}};
    if (::poll(watched, 3, -1) < 0) continue;
    if (watched[0].revents != 0) return;
    // A child that the host has forked may hold the socket.
    if (watched[2].revents != 0) return lose_host();
    std::optional<control_message> message;
    try {
      message = to_host_.receive(clock::now());
      // The host has gone. Handlers may be anywhere, so there is no orderly end; nothing of ours
      // outlives the process.
      if (!message) return lose_host();
      take(std::move(*message));
    } catch (const malformed_message& e) {
      log::error(std::string("the host's control socket: ") + e.what());
      // Who talks like this is no host.
      if (!message) return lose_host();
    } catch (const std::exception& e) {
      // No descriptor, or no memory, was left for it: others may be told of more.
      static auto& lines = *new log::limited_log("more messages from the host are lost");
      lines.error(std::string("a message from the host is lost: ") + e.what());
    }
  }
}

void target_membership::take(control_message message) {
  switch (message.kind) {
  case control::node_failed:
    take_failure(messages::node_failed::decode(message.body));
    return;
  case control::shut_down:
    // Release, as below; partners: is_over() and round().
    is_over_.store(true, std::memory_order_release);
    events_.shut_down();
    return;
  case control::round:
    round_.store(messages::round::decode(message.body).number, std::memory_order_release);
    if (events_.round_changed) events_.round_changed();
    return;
  case control::heartbeat:
    // A host that does not read is asked again, or has gone.
    (void)messages::try_send(to_host_, messages::heartbeat::decode(message.body));
    return;
  case control::transport:
    take_message(std::move(message));
    return;
  case control::file:
    if (message.files.size() == 1 && events_.file_came) {
      events_.file_came(messages::file::decode(message.body).number,
                        std::move(message.files.front()));
    }
    return;
  case control::memory:
    membership::take_memory(map_memory(std::move(message)));
    return;
  case control::member:
    meet_member(messages::member::decode(message.body));
    return;
  case control::absent:
    take_absence(messages::absent::decode(message.body));
    return;
  default:
    return;
  }
}

/// Refuses to be a target without a mark that the host has given; throws error.
[[noreturn]] void refuse_to_join(lost_mark lost) {
  const std::string why = text_of(lost);
  if (const int socket = find_target_socket(); socket >= 0) {
    control_socket to_host{unique_fd(socket)};
    (void)messages::try_send(to_host, messages::refused{why});
  } else if (!tell_lost_mark(lost)) {
    throw setting_error("this target cannot join: " + why); // the host has ended meanwhile
  }
  throw error(why);
}

/// Takes the socket that the host has left to this process. Throws setting_error if no host can be
/// told of a failure, else error.
unique_fd inherited_socket() {
  const auto given = environment(bootstrap_variable);
  if (!given) refuse_to_join(lost_mark::variable);
  // Our own children must not take themselves for targets.
  ::unsetenv(bootstrap_variable);
  unique_fd socket(static_cast<int>(parse_number(*given, bootstrap_variable, 3, 1'000'000)));
  struct stat status{};
  if (::fstat(socket.get(), &status) != 0 || !S_ISSOCK(status.st_mode)) {
    // It is somebody else's.
    (void)socket.release();
    if (tell_lost_mark(lost_mark::none)) refuse_to_join(lost_mark::socket);
    throw setting_error(std::string(bootstrap_variable) + " is set to " + *given +
                        ", which is no socket of a farcall host: if the program, or what starts "
                        "it, closes descriptors before its farcall::job, leave them open; if the "
                        "variable was set by hand, leave it out");
  }
  if (!claim_target_socket(socket.get())) {
    const std::string why =
        "another process has taken its place in the job: this program forks before its "
        "farcall::job, so that several processes of one target make one; call "
        "farcall::serve_if_target() first in main()";
    control_socket to_host{std::move(socket)};
    (void)messages::try_send(to_host, messages::refused{why});
    throw setting_error("this process cannot be a target: " + why); // the host may have started
  }
  drop_limit_mark();
  return socket;
}

} // namespace

namespace {

std::unique_ptr<membership> join_as(std::optional<group_place> group, port_connection to_host,
                                    std::span<const transport_entry> table,
                                    const program_identity& program,
                                    const membership::join_check& check) {
  ::fcntl(to_host.socket.get(), F_SETFD, FD_CLOEXEC);
  auto made = std::make_unique<target_membership>(std::move(to_host), group);
  try {
    made->enter(table, program, check);
  } catch (const std::exception& e) {
    made->give_up(e.what());
    throw;
  }
  return made;
}

} // namespace

std::unique_ptr<membership> membership::join(port_connection to_host,
                                             std::span<const transport_entry> table,
                                             const program_identity& program,
                                             const join_check& check) {
  return join_as(std::nullopt, std::move(to_host), table, program, check);
}

std::unique_ptr<membership> membership::join(std::span<const transport_entry> table,
                                             const program_identity& program,
                                             const join_check& check) {
  unique_fd socket;
  try {
    socket = inherited_socket();
  } catch (const setting_error& e) {
    log::error(e.what()); // there is no host that would
    throw;
  }
  name_process();
  find_own_group(socket.get());
  write_from_background();
  print_lines_into_pipes();
  return join(port_connection{std::move(socket), nullptr}, table, program, check);
}

std::unique_ptr<membership> membership::join(const process_group& group,
                                             std::chrono::milliseconds patience,
                                             std::span<const transport_entry> table,
                                             const program_identity& program,
                                             const join_check& check) {
  return join_as(place_in(group), connect_to_host(group, table, deadline_after(patience)), table,
                 program, check);
}

} // namespace farcall
