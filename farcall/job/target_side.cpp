// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/fault_report.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/node_table.hpp>
#include <farcall/base/wipe.hpp>
#include <farcall/job/make_memory.hpp>
#include <farcall/job/rank_launcher.hpp>
#include <farcall/job/started_target.hpp>
#include <farcall/job/target_side.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

namespace farcall {
namespace {

/// If the socket to the host is full, a message waits for this time.
constexpr std::chrono::seconds tell_time{1};
/// Exit status with which a node ends if it has lost a lane to another node of its job of equals.
constexpr int lost_lane_status = 1;

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

node_memory map_memory(control_message message) {
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

} // namespace

/// When this process crashes, tells the host the signal and the place in the code.
class target_side::fault_teller final : public fault_listener {
 public:
  explicit fault_teller(control_socket& to_host) : to_host_(to_host) {}
  fault_teller(const fault_teller&) = delete;
  fault_teller& operator=(const fault_teller&) = delete;
  ~fault_teller() { tell_faults_to(nullptr); }

  void receive_fault(int signal, std::string_view where, bool has_names) noexcept override {
    // Writes the same bytes as messages::faulted::encode(), but allocates no memory, because the
    // process has crashed. The message is lost if the socket to the host is full.
    std::size_t size = 0;
    const auto add = [&](const void* from, std::size_t bytes) {
      std::memcpy(body_.data() + size, from, bytes);
      size += bytes;
    };
    const std::int32_t number = signal;
    const std::uint8_t nothing_follows = has_names ? 1 : 0;
    const auto bytes = static_cast<std::uint32_t>(std::min(where.size(), max_fault_text));
    add(&number, sizeof number);
    add(&nothing_follows, sizeof nothing_follows);
    add(&bytes, sizeof bytes);
    add(where.data(), bytes);
    (void)to_host_.try_send(messages::faulted::kind, std::span(body_).first(size));
  }

 private:
  static_assert(max_fault_text <= byte_reader::max_text);

  control_socket& to_host_;
  std::array<std::byte,
             sizeof(std::int32_t) + sizeof(std::uint8_t) + sizeof(std::uint32_t) + max_fault_text>
      body_{};
};

target_side::target_side(port_connection host, std::optional<group_place> group)
    : members_([this](node_id peer, const std::string& scheme, std::span<const std::byte> bytes,
                      std::span<const int> files) { return tell(peer, scheme, bytes, files); },
               [this](node_id node, time_point deadline) { ask_for(node, deadline); }),
      roster_(members_.roster()), link_(std::move(host.keeps)), to_host_(std::move(host.socket)),
      host_process_(process_behind(to_host_.fd())) {
  to_host_.close_on_fork();
  host_process_.close_on_fork();
  own_.group = group;
}

target_side::~target_side() {
  faults_.reset();
  stop();
  members_.drop_transports();
  // In a job of equals, leave the socket to the host open, because this process goes on after the
  // job. A server would take the end of the socket for the end of this process.
  if (members_.is_over() && events_.round_changed) to_host_.leave_open();
}

// ---- joining ------------------------------------------------------------------------------------

std::unique_ptr<target_side> target_side::join(port_connection to_host,
                                               std::span<const transport_entry> table,
                                               const program_identity& program,
                                               const join_check& check) {
  return join_as(std::nullopt, std::move(to_host), table, program, check);
}

std::unique_ptr<target_side> target_side::join(std::span<const transport_entry> table,
                                               const program_identity& program,
                                               const join_check& check) {
  return join(port_connection{take_target_socket(), nullptr}, table, program, check);
}

std::unique_ptr<target_side> target_side::join(const process_group& group,
                                               std::chrono::milliseconds timeout,
                                               std::span<const transport_entry> table,
                                               const program_identity& program,
                                               const join_check& check) {
  return join_as(place_in(group), connect_to_host(group, table, deadline_after(timeout)), table,
                 program, check);
}

std::unique_ptr<target_side> target_side::join_as(std::optional<group_place> group,
                                                  port_connection to_host,
                                                  std::span<const transport_entry> table,
                                                  const program_identity& program,
                                                  const join_check& check) {
  ::fcntl(to_host.socket.get(), F_SETFD, FD_CLOEXEC);
  auto made = std::make_unique<target_side>(std::move(to_host), group);
  try {
    made->enter(table, program, check);
  } catch (const std::exception& e) {
    made->give_up(e.what());
    throw;
  }
  return made;
}

void target_side::enter(std::span<const transport_entry> table, const program_identity& program,
                        const join_check& check) {
  messages::send(to_host_, messages::present{});
  for (;;) {
    std::optional<control_message> message = to_host_.receive(time_point::max());
    // The host has ended while this process was joining. Do not print or throw an error, because no
    // host could report it.
    if (!message) ::_exit(1);
    switch (message->kind) {
    case control::setup: {
      messages::setup m = messages::setup::decode(message->body);
      own_.setups[m.scheme] = std::move(m.bytes);
      // Overwrite the message's body, because it may contain secrets, and decode() has copied them.
      wipe(std::span(message->body));
      continue;
    }
    case control::memory:
      // Before the greeting (hello), the host sends the memory of this node and its own. Memory of
      // other nodes can come only later, because the transports that use it are made after the
      // greeting.
      if (roster_.size() != 0) throw malformed_message("a node's memory comes behind the greeting");
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
  if (roster_.size() == 0) throw malformed_message("the host starts before it has greeted us");
  faults_ = std::make_unique<fault_teller>(to_host_);
  tell_faults_to(faults_.get());
  members_.choose_routes();
  for (early_message& m : std::exchange(early_, {}))
    members_.deliver(m.what.peer, m.what.scheme, m.what.bytes, std::move(m.files));
}

void target_side::take_part(const messages::hello& hello, std::span<const transport_entry> table,
                            const program_identity& program) {
  if (roster_.size() != 0) throw malformed_message("the host greets us twice");
  // Check the capacity, because otherwise a forged message could make this process allocate any
  // amount of memory.
  if (hello.capacity > max_node_places) throw malformed_message("there are not so many nodes");
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
  members_.set_up(std::move(own), table, own_, program);
  own_.forget_setups();
  for (node_memory& other : std::exchange(memory_, {}))
    members_.take_memory(std::move(other));
  messages::send(to_host_, messages::joined{roster_.card_of(members_.self())});
}

// ---- getting to know others ---------------------------------------------------------------------

void target_side::ask_for(node_id node, time_point deadline) {
  if (!roster_.can_exist(node)) members_.throw_missing(node);
  const time_point end = std::min(deadline, deadline_after(introduction_timeout_));
  const auto ask = [&] {
    // This send does not wait long, because the host reads its sockets without waiting for other
    // nodes. If the host ends meanwhile, this process ends, too.
    try {
      (void)messages::send(to_host_, messages::introduce{node}, end);
    } catch (const std::exception& e) {
      log::error(e.what());
    }
  };
  const meetings::result met = meetings_.wait(node, end, [&] { return roster_.knows(node); }, ask);
  if (roster_.knows(node)) return;
  if (!met.failure.empty()) throw node_failed(met.failure, node);
  if (met.is_absent) members_.throw_missing(node);
  throw timeout(node_text(node) + " could not be met before the deadline, or within " +
                    std::to_string(introduction_timeout_.count()) +
                    " ms (start_timeout): it, or the host, may be stopped",
                node);
}

void target_side::meet_member(messages::member m) {
  const node_id node = m.node.id;
  // If the message with the end of an earlier node was lost, the new node shows that the place was
  // free. Calls to the earlier node must end, and its memory must be unmapped.
  if (const node_id before = roster_.latest_at_place_of(node);
      before != no_node && before < node && !roster_.has_failed(before)) {
    take_failure({before, node_text(before) + " has ended: " + node_text(node) + " has its place"});
  }
  if (!roster_.knows(node)) {
    roster_.add(std::move(m.node), m.knows_you);
    roster_.grow_to(node);
    members_.choose_routes(events_.node_joined);
    if (m.knows_you) meetings_.note_known();
  }
  // Confirm to the host that this node knows the other one, even if it has known it before, because
  // an earlier confirmation may have been lost. This send does not wait long, because the host soon
  // reads its socket.
  (void)messages::send(to_host_, messages::introduced{node}, clock::now() + tell_time);
}

void target_side::take_failure(const messages::node_failed& what) {
  if (!roster_.can_exist(what.node) || what.node == members_.self()) return;
  roster_.fail(what.node);
  events_.node_failed(what.node, what.why);
  meetings_.note_failure(what.node, what.why);
}

void target_side::take_absence(const messages::absent& what) {
  if (what.nodes <= roster_.capacity()) roster_.grow(what.nodes);
  meetings_.note_absence(what.node);
}

// ---- watching -----------------------------------------------------------------------------------

void target_side::watch(membership_events events) {
  events_ = std::move(events);
  detector_.start([this](int stop_signal) { watch_others(stop_signal); });
}

void target_side::stop() {
  meetings_.end();
  detector_.stop();
}

void target_side::watch_others(int stop_signal) {
  for (;;) {
    pollfd watched[3] = {
        {stop_signal, POLLIN, 0}, {to_host_.fd(), POLLIN, 0}, {host_process_.get(), POLLIN, 0}};
    if (::poll(watched, 3, -1) < 0) continue;
    if (watched[0].revents != 0) return;
    // Watch the process of the host, too. Its socket alone is not enough, because a forked child of
    // the host may keep the socket open after the host has ended. First take the messages that the
    // host has sent before its end, because the last one may say that the job is over.
    if (watched[2].revents != 0 && ::poll(&watched[1], 1, 0) == 0) return lose_host();
    if (watched[1].revents == 0) continue;
    std::optional<control_message> message;
    try {
      message = to_host_.receive(clock::now());
      // The host has ended. In a plain job, end this process at once. Its handlers may be in the
      // middle of any code, so that destructors and exit handlers cannot run safely. The system
      // frees all resources of the process.
      if (!message) return lose_host();
      take(std::move(*message));
    } catch (const malformed_message& e) {
      log::error(std::string("the host's control socket: ") + e.what());
      // Without a whole message, the bytes come from something else than a farcall host.
      if (!message) return lose_host();
    } catch (const std::exception& e) {
      // There were not enough file descriptors, or not enough memory, for this message. Later
      // messages may arrive nevertheless.
      static auto& lines = *new log::limited_log("more messages from the host are lost");
      lines.error(std::string("a message from the host is lost: ") + e.what());
    }
  }
}

void target_side::lose_host() {
  // A node of a job of equals goes on after the job is over, and so do the processes that it has
  // started, so send them no SIGHUP.
  if (!events_.host_ended || !members_.is_over()) hang_up_own_group();
  if (!events_.host_ended) ::_exit(1);
  events_.host_ended();
}

void target_side::take(control_message message) {
  switch (message.kind) {
  case control::node_failed:
    take_failure(messages::node_failed::decode(message.body));
    return;
  case control::shut_down:
    members_.note_end();
    events_.shut_down();
    return;
  case control::round:
    members_.begin_round(messages::round::decode(message.body).number);
    if (events_.round_changed) events_.round_changed();
    return;
  case control::heartbeat:
    // Ignore a failure: if the host's socket is full, the host will send another heartbeat;
    // otherwise the host has ended.
    (void)messages::try_send(to_host_, messages::heartbeat::decode(message.body));
    return;
  case control::transport: {
    const messages::transport m = messages::transport::decode(message.body);
    members_.deliver(m.peer, m.scheme, m.bytes, std::move(message.files));
    return;
  }
  case control::file:
    if (message.files.size() == 1 && events_.file_came) {
      events_.file_came(messages::file::decode(message.body).number,
                        std::move(message.files.front()));
    }
    return;
  case control::memory:
    members_.take_memory(map_memory(std::move(message)));
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

bool target_side::tell(node_id peer, const std::string& scheme, std::span<const std::byte> bytes,
                       std::span<const int> files) noexcept {
  try {
    // Send the message to the host, which passes it on to the peer. The host soon reads its socket,
    // so that this send does not wait long.
    return messages::send(to_host_, messages::transport{peer, scheme, {bytes.begin(), bytes.end()}},
                          clock::now() + tell_time, files);
  } catch (const std::exception& e) {
    // Limit the number of log lines, because peers can cause any number of messages. The log is
    // never destroyed, because threads may outlive static objects.
    static auto& lines = *new log::limited_log("more messages could not be sent");
    lines.error(e.what());
    return false;
  }
}

// ---- ending -------------------------------------------------------------------------------------

void target_side::give_up(const std::string& why) {
  (void)messages::try_send(to_host_, messages::refused{why});
}

void target_side::note_lost_lane(node_id node) {
  if (members_.is_over() || roster_.has_failed(node)) return;
  const std::string why =
      "the connection of a lane between it and " + node_text(node) + " ended, and messages with it";
  log::error(node_text(members_.self()) + " cannot go on: " + why);
  give_up(why);
  ::_exit(lost_lane_status);
}

void target_side::be_quiet(bool was_active) {
  (void)messages::send(to_host_, messages::quiet{members_.round(), was_active});
}

} // namespace farcall
