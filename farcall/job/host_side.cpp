// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/fault_report.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/job/host_side.hpp>
#include <farcall/transport/hosted_node.hpp>
#include <farcall/transport/process.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace farcall {
namespace {

/// Interval, in milliseconds, at which the host calls `meanwhile` while it waits for its targets to
/// end.
constexpr int poll_interval_ms = 1;
/// Interval, in milliseconds, at which the host retries to send notices to a target whose socket
/// was full.
constexpr int notice_interval = 10;
/// Maximum number of messages that the host takes from one target before it checks the next target.
constexpr int max_messages = 64;
/// Maximum number of messages that the host still reads from the socket of a target that has ended.
constexpr int max_last_messages_of_target = 4096;

/// A target that crashes may send the host several reports: the first has the signal, and a later
/// one the names of the functions that were running. While the host waits for the names, it wakes
/// at this interval, in milliseconds, to check the time limit `names_until`.
constexpr int names_interval = 10;
/// Time, from the first report of a crash on, for which the host waits for the names of the
/// functions that were running. After this time it reports the crash without the names.
constexpr std::chrono::milliseconds names_time{200};
/// When the host ends the job, it waits for the end of a crashed process until this time has passed
/// since the first report of the crash. Afterwards it kills the process.
constexpr std::chrono::milliseconds report_time{5000};

/// If the start of the job fails, targets that have not joined get this time to end by themselves
/// and to send their reason. After this time the host kills them.
constexpr std::chrono::milliseconds unjoined_time{500};

/// Time for which the host waits for the end of a process that it has killed. The time is long
/// because the kernel may have to free much memory of the process.
constexpr std::chrono::seconds kill_time{30};

} // namespace

// ---- starting -----------------------------------------------------------------------------------

std::unique_ptr<host_side> host_side::launch(membership_options o,
                                             const program_identity& program) {
  settings::check(settings::row("lane-bytes"), "the size of a lane", std::to_string(o.lane_bytes));
  open_standard_descriptors();
  const time_point deadline = clock::now() + o.start_timeout;
  std::unique_ptr<host_side> made;
  try {
    made = std::make_unique<host_side>(std::move(o), program);
    made->start(deadline);
  } catch (const start_failed&) {
    // Destroy the object, and with it the targets, now. If the program does not catch the
    // exception, the stack may never be unwound, and the destructor would not run.
    made.reset();
    throw;
  } catch (const std::exception& e) {
    made.reset();
    throw start_failed(std::string("the job cannot be started: ") + e.what());
  }
  return made;
}

host_side::host_side(membership_options o, const program_identity& program)
    : members_([this](node_id peer, const std::string& scheme, std::span<const std::byte> bytes,
                      std::span<const int> files) { return tell(peer, scheme, bytes, files); },
               [this](node_id node, time_point /*deadline*/) { members_.throw_missing(node); }),
      roster_(members_.roster()), options_(std::move(o)), survives_(options_.survives),
      output_(ends_for_lines(), options_.labels, options_.output),
      starter_({options_, members_, targets_, output_, [this] { look_around(); }}, program),
      heartbeats_(options_.peer_timeout), rounds_(roster_.size()) {
  look_around_ = unique_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!look_around_) throw_system_error("watching the nodes (descriptor limit?)", errno);
  look_around_.close_on_fork();
}

host_side::~host_side() {
  shut_down([] {});
  // Destroy the transports first, because until then other threads may call transports, and these
  // calls use `members_`.
  members_.drop_transports();
  targets_ = node_table<target>();
}

void host_side::start(time_point deadline) {
  starter_.start(deadline);
  is_started_ = true;
}

std::vector<node_id> host_side::add(const std::vector<target_url>& urls, time_point deadline) {
  std::vector<node_id> added = starter_.add(urls, deadline, events_.node_joined);
  look_around();
  return added;
}

node_id host_side::add_existing(unique_fd socket, std::uint32_t workers, time_point deadline) {
  const node_id added =
      starter_.add_existing(std::move(socket), workers, deadline, events_.node_joined);
  look_around();
  return added;
}

// ---- introducing --------------------------------------------------------------------------------

void host_side::introduce(node_id asker, node_id other) {
  target& a = *targets_.find(asker);
  const target* const b = targets_.find(other);
  if (other == asker || other == host_id) throw malformed_message("it knows that node");
  // Limit the number of notices that wait for this target, because a faulty target may send
  // requests without ever reading the notices. For a target that reads its socket, at most a few
  // notices per node wait, and one for each of its threads that has sent a request.
  if (a.notices.size() > 8 * (roster_.size() + 1024))
    throw malformed_message("it asks, and does not read");
  if (b == nullptr || !roster_.knows(other)) {
    notify(a, messages::absent{other, static_cast<std::uint32_t>(roster_.size())});
  } else if (roster_.has_failed(other)) {
    notify(a, messages::node_failed{other, b->ending.failure});
  } else {
    send(b->process ? introductions_.ask(asker, other)
                    : introductions_.ask_for_hosted(asker, other));
  }
}

void host_side::send(const std::optional<introduction>& next) {
  if (!next) return;
  target& to = *targets_.find(next->to);
  const target& of = *targets_.find(next->of);
  if (next->brings_memory && to.maps_memory && of.maps_memory) {
    notify(to, of.memory.message(next->of), next->of);
  }
  notify(to, messages::member{roster_.card_of(next->of), next->knows_receiver});
}

// ---- watching -----------------------------------------------------------------------------------

template <class Message>
bool host_side::tell_now(node_id node, const Message& m, std::span<const int> files) noexcept {
  try {
    target* const t = targets_.find(node);
    return t != nullptr && t->process && t->send_now(m, files);
  } catch (const std::exception& e) {
    // Limit the number of log lines, because targets can cause any number of failures here. The
    // object is never destroyed, because threads may use it after static objects were destroyed.
    static auto& lines = *new log::limited_log("more messages could not be sent");
    lines.error(e.what());
    return false;
  }
}

bool host_side::tell(node_id peer, const std::string& scheme, std::span<const std::byte> bytes,
                     std::span<const int> files) noexcept {
  const messages::transport m{host_id, scheme, {bytes.begin(), bytes.end()}};
  return tell_now(peer, m, files);
}

bool host_side::send_file(node_id to, std::uint64_t number, int file) noexcept {
  return tell_now(to, messages::file{number}, std::span(&file, 1));
}

bool host_side::receive(node_id node, target& t, int most) {
  control_socket& socket = t.process->socket();
  for (int n = 0; !t.is_closed; ++n) {
    if (n == most) return true;
    if (!socket.is_ready()) return true;
    try {
      std::optional<control_message> message = socket.receive(clock::now());
      t.is_closed = !message;
      heartbeats_.note_message(node);
      if (message) take_message(node, t, std::move(*message));
    } catch (const std::exception& e) {
      t.ending.reason = std::string("it sent what cannot be read, and was killed: ") + e.what();
      t.is_closed = true;
      // Kill the process, because its socket is not read any more, and without the socket the host
      // might never notice its end.
      t.kill();
    }
  }
  return false;
}

bool host_side::receive_or_lose(node_id node, target& t) {
  if (receive(node, t, max_messages)) return true;
  // If the process has an end_fd(), do not handle its end here, because this descriptor becomes
  // readable when the process ends.
  if (t.process->end_fd() < 0) lose(node, t);
  return false;
}

void host_side::kill(node_id node, target& t) {
  t.kill();
  if (t.process->end_fd() < 0) lose(node, t);
}

void host_side::take_message(node_id from, target& t, control_message message) {
  std::string& words = t.ending.reason;
  // If the end of this target was already reported, because it has crashed, ignore its messages.
  // The exception is the message in which a server reports the end of the process.
  if (t.ending.is_reporting && message.kind != control::ended) return;
  if (message.kind == control::transport) {
    pass_on(from, messages::transport::decode(message.body), std::move(message.files));
  } else if (message.kind == control::introduce) {
    introduce(from, messages::introduce::decode(message.body).node);
  } else if (message.kind == control::introduced) {
    send(introductions_.confirm(from, messages::introduced::decode(message.body).node));
  } else if (message.kind == control::ended) {
    if (t.process->is_near())
      throw malformed_message("it tells of its end, which only servers do for their targets");
    const auto m = messages::ended::decode(message.body);
    // Receive no further message from this target, because this is the last one.
    t.is_closed = true;
    words = words.empty() ? m.how : m.how + ": " + words;
    t.ending.server_code = m.code;
  } else if (message.kind == control::faulted) {
    auto m = messages::faulted::decode(message.body);
    const time_point now = clock::now();
    if (!t.ending.fault) t.ending.fault = told_fault{now + names_time, now + report_time};
    t.ending.fault->signal = m.signal;
    t.ending.fault->where = readable_fault(m.where);
    t.ending.fault->is_whole = m.has_names;
  } else if (message.kind == control::refused && words.empty()) {
    words = messages::refused::decode(message.body).why;
    if (options_.are_equals) take_leave(from, t);
  } else if (message.kind == control::quiet && options_.are_equals) {
    const auto m = messages::quiet::decode(message.body);
    rounds_.note_quiet(from, m.round, m.was_active);
  }
}

void host_side::pass_on(node_id from, const messages::transport& m, std::vector<unique_fd> files) {
  if (m.peer == host_id) {
    members_.deliver(from, m.scheme, m.bytes, std::move(files));
    return;
  }
  const target* const t = targets_.find(m.peer);
  if (t == nullptr || !t->process) {
    throw malformed_message("it asks for a node that does not exist");
  }
  target_process& to = *t->process;
  std::vector<int> numbers;
  for (const unique_fd& file : files)
    numbers.push_back(file.get());
  const bool is_sent = (numbers.empty() || to.is_near()) &&
                       messages::send(to.socket(), messages::transport{from, m.scheme, m.bytes},
                                      clock::now(), numbers);
  // If the socket to the receiver is closed, do not warn. The receiver has ended, and all nodes
  // that know the receiver will be told of its end.
  if (!is_sent && !to.socket().is_disconnected()) {
    lost_messages_.warning(node_text(m.peer) + " cannot be asked for a connection to " +
                           node_text(from));
  }
}

void host_side::spread_end(node_id node, const target& t, std::span<const node_id> peers) {
  const auto tell = [&](node_id other, target& to) {
    if (!roster_.has_failed(other) && to.process)
      notify(to, messages::node_failed{node, t.ending.failure});
  };
  if (options_.are_equals) {
    // In a job of equals, tell all nodes, and not only the peers that know the node. In a barrier,
    // for instance, each node waits for all others, also for nodes that it has never used.
    targets_.for_each(tell);
    return;
  }
  for (const node_id other : peers)
    tell(other, *targets_.find(other));
}

void host_side::send_notices(target& to) noexcept {
  while (!to.notices.empty() && send_notice(to, to.notices.front()))
    to.notices.pop_front();
}

/// Sends a notice without waiting, because otherwise a target that does not read its socket would
/// block the failure detector's thread. Returns false if the socket is full.
bool host_side::send_notice(target& to, const notice& n) noexcept {
  if (n.memory_of == no_node) return to.process->socket().try_send(n.kind, n.body);
  const memory_files& memory = targets_.find(n.memory_of)->memory;
  // The notice contains descriptors of a node's memory. If that node has failed, the descriptors
  // are closed, so drop the notice; the next notice tells the target of the failure.
  if (memory.files.empty()) return true;
  try {
    return to.process->socket().send(n.kind, n.body, memory.descriptors(), clock::now());
  } catch (const std::exception& e) {
    log::error(e.what());
    return true;
  }
}

std::string host_side::end_text(node_id node, target& t) const {
  std::string why = node_text(node);
  if (t.hosted) {
    why += " (" + roster_.card_of(node).transport + "): " + t.hosted->failure();
  } else if (t.ending.fault && roster_.knows(node)) {
    const std::string process = "process " + std::to_string(roster_.card_of(node).pid);
    why += t.process->is_near() ? " (" + process + ") "
                                : " (" + t.process->program() + "): " + process + " there ";
    why += "was killed by " + signal_text(t.ending.fault->signal) +
           (t.ending.fault->where.empty() ? "" : ": " + t.ending.fault->where);
  } else {
    // Once the node has joined, check whether another process has taken the place of the started
    // one. Before that, the start of the job makes this check and reports its result.
    const auto replaced = roster_.knows(node) && !t.ending.is_told_to_stop
                              ? t.process->replacement_text(roster_.card_of(node).pid)
                              : std::nullopt;
    why += replaced ? *replaced : t.process->end_text(t.ending.reason);
  }
  if (t.is_removed.load(std::memory_order_relaxed)) {
    why += "; it was removed from the job";
  } else if (t.ending.is_told_to_stop && !options_.are_equals) {
    why += "; the job was ending";
  }
  return why;
}

bool host_side::tell_end(node_id node, target& t) {
  // Call this before other threads learn of the end, because such a thread may need the place.
  if (t.process) starter_.note_ending(node);
  roster_.fail(node);
  rounds_.leave(node);
  t.ending.failure = end_text(node, t);
  const bool is_told = !options_.are_equals || lose_equal(node, t, t.ending.failure);
  if (is_told && events_.node_failed) events_.node_failed(node, t.ending.failure);
  return is_told;
}

void host_side::finish_end(node_id node, target& t, bool is_told) {
  t.notices.clear();
  t.memory.files.clear();
  const std::vector<node_id> peers = introductions_.forget(node);
  if (is_told) spread_end(node, t, peers);
  {
    const std::lock_guard guard(lost_mutex_);
    // Release, paired with the acquire loads in remove(), so that remove() sees how the target has
    // ended.
    t.is_lost.store(true, std::memory_order_release);
  }
  lost_.notify_all();
}

void host_side::lose(node_id node, target& t) {
  // Receive the messages that the process has sent before it ended.
  if (t.process) (void)receive(node, t, max_last_messages_of_target);
  const bool was_told = std::exchange(t.ending.is_reporting, false);
  const bool is_told = !was_told && tell_end(node, t);
  // Reap the process only after its end was reported. Afterwards the kernel may give its process id
  // to another process, and copies that still run address the process by this id.
  if (t.process) {
    t.process->reap();
    t.close();
  }
  output_.end(node);
  if (!was_told) finish_end(node, t, is_told);
  // Give the place to another node only now. The process has ended, so that nothing of it can take
  // effect, and this thread uses the target no more. Messages of the end are in the queues of all
  // nodes that know the node, so that these nodes learn of the end before they learn of a new node.
  if (t.process) starter_.note_ended(node);
}

void host_side::end_faulted(node_id node, target& t) {
  if (!t.ending.fault || t.ending.is_reporting || roster_.has_failed(node)) return;
  if (!t.ending.fault->is_whole && clock::now() < t.ending.fault->names_until) return;
  // In a job of equals that is over, do not report the end of this node early, because the host
  // waits for the real end of its process.
  if (options_.are_equals && t.ending.is_told_to_stop) return;
  t.ending.is_reporting = true;
  finish_end(node, t, tell_end(node, t));
}

void host_side::send_heartbeats() {
  // In a job of equals that is over, send no heartbeats, because nodes that have closed the job do
  // not reply to heartbeats any more.
  if (options_.are_equals && members_.is_over()) return;
  targets_.for_each([this](node_id node, target& t) {
    if (roster_.has_failed(node) || !t.process || t.is_closed) return;
    if (!receive_or_lose(node, t)) return;
    if (heartbeats_.count(node)) {
      (void)messages::try_send(t.process->socket(), messages::heartbeat{});
      return;
    }
    t.ending.reason = "it did not reply for " + std::to_string(options_.peer_timeout.count()) +
                      " ms (peer_timeout) and was " +
                      (t.process->can_be_killed() ? "killed" : "disconnected") +
                      "; it may have been stopped, by SIGSTOP or a debugger";
    kill(node, t);
  });
}

void host_side::look_around() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(look_around_.get(), &one, sizeof one);
}

void host_side::note_look_around() noexcept {
  std::uint64_t times = 0;
  [[maybe_unused]] const auto got = ::read(look_around_.get(), &times, sizeof times);
}

void host_side::end_removed(node_id node, target& t) {
  // Acquire, paired with the release store of is_removed in remove().
  if (!t.is_removed.load(std::memory_order_acquire)) return;
  if (!t.ending.is_told_to_stop) {
    t.ending.is_told_to_stop = messages::try_send(t.process->socket(), messages::shut_down{});
  }
  if (!t.is_overdue.exchange(false, std::memory_order_acq_rel)) return;
  log::warning(node_text(node) + " was removed, did not finish in time, and is " +
               (t.process->can_be_killed() ? "killed" : "disconnected"));
  kill(node, t);
}

void host_side::remove(node_id node, time_point deadline, const std::function<void()>& meanwhile) {
  target* const t = targets_.find(node);
  if (t == nullptr || !t->process) {
    throw error(node == host_id ? "the host (node 0) cannot be removed from its job"
                                : node_text(node) + " is no process, and cannot be removed",
                node);
  }
  // Release, paired with the acquire load in end_removed(), which the failure detector's thread
  // calls.
  t->is_removed.store(true, std::memory_order_release);
  look_around();
  const auto is_lost = [t] { return t->is_lost.load(std::memory_order_acquire); };
  bool is_overdue = false;
  std::unique_lock guard(lost_mutex_);
  while (!is_lost()) {
    guard.unlock();
    meanwhile();
    const time_point now = clock::now();
    if (!is_overdue && now >= deadline) {
      is_overdue = true;
      t->is_overdue.store(true, std::memory_order_release);
      look_around();
    }
    if (now >= deadline + kill_time) throw error(node_text(node) + " cannot be ended", node);
    guard.lock();
    lost_.wait_for(guard, std::chrono::milliseconds(poll_interval_ms), is_lost);
  }
}

void host_side::watch(membership_events events) {
  events_ = std::move(events);
  detector_.start([this](int stop_signal) { watch_others(stop_signal); });
}

void host_side::watch_others(int stop_signal) {
  heartbeats_.begin(clock::now());
  for (;;) {
    const time_point now = clock::now();
    if (heartbeats_.is_due(now)) send_heartbeats();
    int timeout = -1;
    if (heartbeats_.next() != no_deadline) {
      timeout = static_cast<int>(
          std::chrono::ceil<std::chrono::milliseconds>(heartbeats_.next() - now).count());
    }
    std::vector<pollfd> watched{{stop_signal, POLLIN, 0}, {look_around_.get(), POLLIN, 0}};
    std::vector<node_id> whose{host_id, host_id};
    const auto add = [&](int fd, node_id node) {
      watched.push_back({fd, POLLIN, 0});
      whose.push_back(node);
    };
    bool has_notices = false;
    /// Nodes whose sockets have no file descriptor for poll(). When a message of such a node
    /// arrives, look_around() is called.
    std::vector<node_id> without_descriptor;
    targets_.for_each([&](node_id node, target& t) {
      if (has_gone(node, t)) return;
      if (t.hosted) {
        add(t.hosted->failure_fd(), node);
        return;
      }
      end_faulted(node, t);
      if (!t.ending.is_reporting) {
        send_notices(t);
        end_removed(node, t);
        end_after_lost_lane(node, t);
      }
      if (has_gone(node, t)) return;
      if (t.ending.fault && !t.ending.is_reporting)
        timeout = timeout < 0 ? names_interval : std::min(timeout, names_interval);
      has_notices = has_notices || !t.notices.empty() ||
                    (t.is_removed.load(std::memory_order_relaxed) && !t.ending.is_told_to_stop &&
                     !t.ending.is_reporting);
      if (t.process->end_fd() >= 0) add(t.process->end_fd(), node);
      if (t.is_closed) return;
      control_socket& socket = t.process->socket();
      if (socket.fd() >= 0) {
        add(socket.fd(), node);
      } else {
        without_descriptor.push_back(node);
        // Do not sleep if messages are left in the socket, because a call of receive() takes only a
        // limited number of messages.
        if (socket.is_ready()) timeout = 0;
      }
    });
    if (options_.are_equals) {
      follow_giving_up();
      end_round();
    }
    if (has_notices) timeout = timeout < 0 ? notice_interval : std::min(timeout, notice_interval);
    if (::poll(watched.data(), watched.size(), timeout) < 0) continue;
    if (watched[0].revents != 0) return;
    if (watched[1].revents != 0) note_look_around();
    for (std::size_t i = 2; i < watched.size(); ++i) {
      const node_id node = whose[i];
      target* const found = targets_.find(node);
      if (watched[i].revents == 0 || found == nullptr || has_gone(node, *found)) continue;
      target& t = *found;
      if (t.hosted || watched[i].fd == t.process->end_fd()) {
        lose(node, t);
      } else {
        receive_or_lose(node, t);
      }
    }
    for (const node_id node : without_descriptor) {
      if (target& t = *targets_.find(node); !has_gone(node, t)) receive_or_lose(node, t);
    }
  }
}

// ---- ending -------------------------------------------------------------------------------------

void host_side::stop_hosted() {
  const time_point deadline = clock::now() + options_.stop_timeout;
  targets_.for_each([&](node_id node, target& t) {
    if (!t.hosted) return;
    const bool has_stopped = t.hosted->stop(deadline);
    if (roster_.has_failed(node)) return;
    if (!has_stopped) {
      log::warning(node_text(node) + " did not finish within " +
                   std::to_string(options_.stop_timeout.count()) + " ms and is left behind");
    }
    // Report that this node has ended, because a handler on the host may still call this node, and
    // would wait for a reply. Other nodes may in turn wait for this handler.
    if (events_.node_failed) events_.node_failed(node, node_text(node) + " has ended with the job");
  });
}

bool host_side::has_ended(node_id node, target& t) {
  return (!receive(node, t, max_messages) && t.process->end_fd() < 0) ||
         t.process->wait(clock::now()).has_value();
}

bool host_side::may_be_killed_early(node_id node, const target& t) const noexcept {
  // If the stop timeout is a day, a node runs in a debugger. Do not kill the target early in this
  // case, because the user ends it.
  return !is_started_ && !t.is_existing && !roster_.knows(node) &&
         options_.stop_timeout < std::chrono::milliseconds(settings::day_ms);
}

void host_side::shut_down(const std::function<void()>& meanwhile) {
  if (is_shut_down_) return;
  is_shut_down_ = true;
  detector_.stop();
  stop_hosted();
  const time_point begun = clock::now();
  const time_point deadline = begun + options_.stop_timeout;
  for (;;) {
    meanwhile();
    std::vector<pollfd> running{{look_around_.get(), POLLIN, 0}};
    bool are_running = false;
    targets_.for_each([&](node_id node, target& t) {
      if (has_gone(node, t) || !t.process) return;
      end_faulted(node, t);
      if (!t.ending.is_told_to_stop && !t.ending.is_reporting)
        t.ending.is_told_to_stop = messages::try_send(t.process->socket(), messages::shut_down{});
      if (!t.ending.is_reporting) send_notices(t);
      if (has_ended(node, t)) {
        // Report the end at once, and not only after all targets have ended, because another
        // target, or a handler on the host, may wait for this node.
        lose(node, t);
        return;
      }
      if (may_be_killed_early(node, t) && clock::now() >= begun + unjoined_time) return;
      // Allow more time to a target that writes a fault report, because the report may take longer
      // than the stop timeout.
      if (clock::now() >=
          (t.ending.fault ? std::max(deadline, t.ending.fault->report_until) : deadline))
        return;
      are_running = true;
      if (t.process->end_fd() >= 0) running.push_back({t.process->end_fd(), POLLIN, 0});
      if (!t.is_closed) running.push_back({t.process->socket().fd(), POLLIN, 0});
    });
    if (!are_running) break;
    // Wait until a process ends or a message arrives, at most until `meanwhile` is due again.
    ::poll(running.data(), running.size(), poll_interval_ms);
    note_look_around();
  }
  kill_rest();
}

void host_side::warn_of_report(node_id node) {
  log::warning(node_text(node) + " could not finish the report of its fault, and is ended");
}

void host_side::kill_rest() {
  targets_.for_each([this](node_id node, target& t) {
    if (has_gone(node, t) || !t.process) return;
    if (t.ending.fault) {
      warn_of_report(node);
    } else if (is_started_) {
      log::warning(node_text(node) + " did not finish within " +
                   std::to_string(options_.stop_timeout.count()) + " ms and is " +
                   (t.process->can_be_killed() ? "killed" : "disconnected"));
    }
    {
      t.kill();
      t.process->socket().close();
    }
    // Mark the target as lost, so that a thread that waits in remove() for the end of this target
    // returns.
    const std::lock_guard guard(lost_mutex_);
    t.is_lost.store(true, std::memory_order_release);
  });
  lost_.notify_all();
  output_.finish();
}

} // namespace farcall
