#include <farcall/base/error.hpp>
#include <farcall/base/fault_report.hpp>
#include <farcall/base/limited_log.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/job/host_membership.hpp>
#include <farcall/transport/process.hpp>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <poll.h>
#include <unistd.h>

/// How the host introduces its targets to each other, watches them, and ends them.
namespace farcall {
namespace {

/// How often the host sees to other things while it waits for its targets to end.
constexpr int look_interval_ms = 1;
/// Heartbeats in one peer timeout.
constexpr int beats = 4;
/// How often it tries again to tell something to a target that does not read.
constexpr int news_interval = 10;
/// Messages of one target that are taken in before others are looked at.
constexpr int most_messages = 64;
/// The same for what it has said before its end.
constexpr int most_last_messages = 4096;

/// How often it looks whether they are overdue.
constexpr int names_interval = 10;
/// From the first word of a fault to the functions that were running.
constexpr std::chrono::milliseconds names_time{200};
/// From the first word of a fault to the end of the process.
constexpr std::chrono::milliseconds report_time{5000};

/// For a target that has not joined, and never will as the start has failed, to end by itself and
/// say why.
constexpr std::chrono::milliseconds unjoined_time{500};

/// From the kill of a process to its end, which may have much memory to give back.
constexpr std::chrono::seconds kill_time{30};

} // namespace

// ---- introducing --------------------------------------------------------------------------------

/// The other one is told first: once the asker knows it, lanes of the asker arrive there. It uses
/// the asker only once that is told, too. Nobody is waited for.
void host_membership::introduce(node_id asker, node_id other) {
  target& a = *targets_.find(asker);
  target* const b = targets_.find(other);
  if (other == asker || other == host_id) throw malformed_message("it knows that node");
  // A few for each node, and one for each thread that asks.
  if (a.notices.size() > 8 * capacity()) throw malformed_message("it asks, and does not read");
  if (b == nullptr || other >= nodes()) {
    notify(a, messages::absent{other, static_cast<std::uint32_t>(nodes())});
  } else if (roster_.has_failed(other)) {
    notify(a, messages::node_failed{other, b->failure});
  } else if (b->acquaintances.insert(asker).second) {
    if (b->process) {
      a.acquaintances.insert(other);
      b->expectant.insert(asker);
      send_introduction(*b, asker, false);
    } else {
      // No process, and only this one calls it.
      send_introduction(a, other, true);
    }
  } else if (b->expectant.contains(asker)) {
    // It asks again: something was lost, as where a node could not send for a while.
    send_introduction(*b, asker, false);
  } else if (b->unconfirmed.contains(asker)) {
    send_introduction(*b, asker, true);
  }
}

void host_membership::is_introduced(node_id node, node_id other) {
  target& t = *targets_.find(node);
  if (t.expectant.erase(other) != 0) {
    if (roster_.has_failed(other)) return;
    target& asker = *targets_.find(other);
    asker.unconfirmed.insert(node);
    send_introduction(asker, node, true);
  } else if (t.unconfirmed.erase(other) != 0 && !roster_.has_failed(other)) {
    notify(*targets_.find(other), messages::member{roster_.card_of(node), true});
  }
}

void host_membership::send_introduction(target& to, node_id of, bool knows_it) {
  const target& other = *targets_.find(of);
  if (to.maps_memory && other.maps_memory) {
    notify(to, messages::memory{of, other.memory.receive_segment_bytes, other.memory.window_bytes},
           of);
  }
  notify(to, messages::member{roster_.card_of(of), knows_it});
}

// ---- watching -----------------------------------------------------------------------------------

std::vector<transport*> host_membership::hosted_transports() const {
  std::vector<transport*> all;
  targets_.for_each([&](node_id /*node*/, const target& t) {
    if (t.hosted) all.push_back(t.hosted.get());
  });
  return all;
}

template <class Message>
bool host_membership::tell_now(node_id node, const Message& m,
                               std::span<const int> files) noexcept {
  try {
    target* const t = targets_.find(node);
    if (t == nullptr || !t->process) return false;
    const std::lock_guard guard(t->telling);
    target_process& process = *t->process;
    if (!files.empty() && !process.is_near()) return false;
    // Who does not read must not keep us from watching the others.
    return messages::send(process.socket(), m, clock::now(), files);
  } catch (const std::exception& e) {
    // Targets have one told something as often as they like. Never destroyed: threads may outlive
    // static objects.
    static auto& lines = *new log::limited_log("more messages could not be sent");
    lines.error(e.what());
    return false;
  }
}

bool host_membership::tell(node_id peer, const std::string& scheme,
                           std::span<const std::byte> bytes, std::span<const int> files) noexcept {
  const messages::transport m{self(), scheme, {bytes.begin(), bytes.end()}};
  return tell_now(peer, m, files);
}

bool host_membership::send_file(node_id to, std::uint64_t number, int file) noexcept {
  return tell_now(to, messages::file{number}, std::span(&file, 1));
}

bool host_membership::hear(node_id node, target& t, int most) {
  control_socket& socket = t.process->socket();
  for (int n = 0; !t.is_deaf; ++n) {
    if (n == most) return true;
    if (!socket.is_ready()) return true;
    try {
      std::optional<control_message> message = socket.receive(clock::now());
      t.is_deaf = !message;
      t.silent_beats = 0;
      if (message) take_message(node, t, std::move(*message));
    } catch (const std::exception& e) {
      t.last_words = std::string("it sent what cannot be read, and was killed: ") + e.what();
      t.is_deaf = true;
      // Nobody could tell any more whether it is there.
      const std::lock_guard guard(t.telling);
      t.process->kill();
    }
  }
  return false;
}

void host_membership::take_message(node_id from, target& t, control_message message) {
  std::string& words = t.last_words;
  // Its end was told.
  if (t.is_dying && message.kind != control::ended) return;
  if (message.kind == control::transport) {
    pass_on(from, messages::transport::decode(message.body), std::move(message.files));
  } else if (message.kind == control::introduce) {
    introduce(from, messages::introduce::decode(message.body).node);
  } else if (message.kind == control::introduced) {
    is_introduced(from, messages::introduced::decode(message.body).node);
  } else if (message.kind == control::ended) {
    if (t.process->is_near())
      throw malformed_message("it tells of its end, which only servers do for their targets");
    const auto m = messages::ended::decode(message.body);
    // Nothing follows it.
    t.is_deaf = true;
    words = words.empty() ? m.how : m.how + ": " + words;
    t.exit_code = m.code;
  } else if (message.kind == control::faulted) {
    auto m = messages::faulted::decode(message.body);
    const time_point now = clock::now();
    if (!t.fault) t.fault = told_fault{now + names_time, now + report_time};
    t.fault->signal = m.signal;
    t.fault->where = readable_fault(m.where);
    t.fault->is_whole = m.has_names;
  } else if (message.kind == control::refused && words.empty()) {
    words = messages::refused::decode(message.body).why;
    if (options_.are_equals) take_leave(from, t);
  } else if (message.kind == control::quiet && options_.are_equals) {
    take_quiet(t, messages::quiet::decode(message.body));
  }
}

void host_membership::pass_on(node_id from, const messages::transport& m,
                              std::vector<unique_fd> files) {
  if (m.peer == self()) {
    deliver(from, m.scheme, m.bytes, std::move(files));
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
  if ((!numbers.empty() && !to.is_near()) ||
      !messages::send(to.socket(), messages::transport{from, m.scheme, m.bytes}, clock::now(),
                      numbers)) {
    lost_messages_.warning(node_text(m.peer) + " cannot be asked for a connection to " +
                           node_text(from));
  }
}

void host_membership::spread_end(node_id node, const target& t) {
  const auto tell = [&](node_id other, target& to) {
    if (!roster_.has_failed(other) && to.process)
      notify(to, messages::node_failed{node, t.failure});
  };
  if (options_.are_equals) {
    // Whoever waits for all waits for one that it has never used.
    targets_.for_each(tell);
    return;
  }
  for (const node_id other : t.acquaintances)
    tell(other, *targets_.find(other));
}

void host_membership::send_notices(target& to) noexcept {
  while (!to.notices.empty() && send_notice(to, to.notices.front()))
    to.notices.pop_front();
}

/// A target that does not read its socket must not keep us from watching the others.
bool host_membership::send_notice(target& to, const notice& n) noexcept {
  if (n.memory_of == no_node) return to.process->socket().try_send(n.kind, n.body);
  const memory_files& memory = targets_.find(n.memory_of)->memory;
  // It has failed meanwhile, which is what the target hears next.
  if (memory.files.empty()) return true;
  try {
    std::vector<int> files;
    for (const unique_fd& file : memory.files)
      files.push_back(file.get());
    return to.process->socket().send(n.kind, n.body, files, clock::now());
  } catch (const std::exception& e) {
    log::error(e.what());
    return true;
  }
}

std::string host_membership::end_text(node_id node, target& t) const {
  std::string why = node_text(node);
  if (t.hosted) {
    why += " (" + roster_.card_of(node).transport + "): " + t.hosted->failure();
  } else if (t.fault && roster_.knows(node)) {
    const std::string process = "process " + std::to_string(roster_.card_of(node).pid);
    why += t.process->is_near() ? " (" + process + ") "
                                : " (" + t.process->program() + "): " + process + " there ";
    why += "was killed by " + signal_text(t.fault->signal) +
           (t.fault->where.empty() ? "" : ": " + t.fault->where);
  } else {
    // A process that ended before its replacement had joined was found out at the start.
    const auto replaced = roster_.knows(node) && !t.is_told_to_stop
                              ? t.process->replacement_text(roster_.card_of(node).pid)
                              : std::nullopt;
    why += replaced ? *replaced : t.process->end_text(t.last_words);
  }
  if (t.is_removed.load(std::memory_order_relaxed)) {
    why += "; it was removed from the job";
  } else if (t.is_told_to_stop && !options_.are_equals) {
    why += "; the job was ending";
  }
  return why;
}

bool host_membership::tell_end(node_id node, target& t) {
  roster_.fail(node);
  t.failure = end_text(node, t);
  const bool is_told = !options_.are_equals || lose_equal(node, t, t.failure);
  if (is_told && events_.node_failed) events_.node_failed(node, t.failure);
  return is_told;
}

void host_membership::finish_end(node_id node, target& t, bool is_told) {
  t.notices.clear();
  t.memory.files.clear();
  if (is_told) spread_end(node, t);
  {
    const std::lock_guard guard(lost_mutex_);
    // Release; partner: the acquire loads in remove().
    t.is_lost.store(true, std::memory_order_release);
  }
  lost_.notify_all();
}

void host_membership::lose(node_id node, target& t) {
  // What it said last.
  if (t.process) (void)hear(node, t, most_last_messages);
  const bool was_told = std::exchange(t.is_dying, false);
  const bool is_told = !was_told && tell_end(node, t);
  // Behind the notice of the end: a reaped process's number may become another process's, while
  // copies still go there.
  if (t.process) {
    t.process->reap();
    const std::lock_guard guard(t.telling);
    t.process->socket().close();
  }
  output_.end(node);
  if (!was_told) finish_end(node, t, is_told);
}

void host_membership::end_faulted(node_id node, target& t) {
  if (!t.fault || t.is_dying || roster_.has_failed(node)) return;
  if (!t.fault->is_whole && clock::now() < t.fault->names_until) return;
  // The host waits for this process after the job has ended.
  if (options_.are_equals && t.is_told_to_stop) return;
  t.is_dying = true;
  finish_end(node, t, tell_end(node, t));
}

void host_membership::beat() {
  // Nodes that have closed their job of equals do not answer any more.
  if (options_.are_equals && is_over()) return;
  targets_.for_each([this](node_id node, target& t) {
    if (roster_.has_failed(node) || !t.process || t.is_deaf) return;
    if (!hear(node, t, most_messages)) {
      // Where a process tells its own end, it soon does.
      if (t.process->end_fd() < 0) lose(node, t);
      return;
    }
    // Counted, not timed: while the host itself was stopped, nobody could be heard.
    if (t.silent_beats++ <= beats) {
      (void)messages::try_send(t.process->socket(), messages::heartbeat{});
      return;
    }
    t.last_words = "it did not answer for " + std::to_string(options_.peer_timeout.count()) +
                   " ms (peer_timeout) and was " +
                   (t.process->can_be_killed() ? "killed" : "cut off") +
                   "; it may have been stopped, by SIGSTOP or a debugger";
    {
      const std::lock_guard guard(t.telling);
      t.process->kill();
    }
    // Where a process tells its own end, it soon does.
    if (t.process->end_fd() < 0) lose(node, t);
  });
}

void host_membership::look_around() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(look_around_.get(), &one, sizeof one);
}

void host_membership::note_look_around() noexcept {
  std::uint64_t times = 0;
  [[maybe_unused]] const auto got = ::read(look_around_.get(), &times, sizeof times);
}

void host_membership::see_off(node_id node, target& t) {
  // Acquire; partner: the release stores in remove().
  if (!t.is_removed.load(std::memory_order_acquire)) return;
  if (!t.is_told_to_stop) {
    t.is_told_to_stop = messages::try_send(t.process->socket(), messages::shut_down{});
  }
  if (!t.is_overdue.exchange(false, std::memory_order_acq_rel)) return;
  log::warning(node_text(node) + " was removed, did not finish in time, and is " +
               (t.process->can_be_killed() ? "killed" : "cut off"));
  {
    const std::lock_guard guard(t.telling);
    t.process->kill();
  }
  // Where a process tells its own end, it soon does.
  if (t.process->end_fd() < 0) lose(node, t);
}

void host_membership::remove(node_id node, time_point deadline,
                             const std::function<void()>& meanwhile) {
  target* const t = targets_.find(node);
  if (t == nullptr || !t->process) {
    throw error(node == host_id ? "the host (node 0) cannot be removed from its job"
                                : node_text(node) + " is no process, and cannot be removed",
                node);
  }
  // Release; partner: the acquire load in see_off().
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
    lost_.wait_for(guard, std::chrono::milliseconds(look_interval_ms), is_lost);
  }
}

void host_membership::watch_others(int stop_signal) {
  const bool asks = options_.peer_timeout.count() != 0;
  const auto beat_interval = std::max(options_.peer_timeout / beats, std::chrono::milliseconds(1));
  time_point next_beat = clock::now() + beat_interval;
  for (;;) {
    int timeout = -1;
    if (asks) {
      const time_point now = clock::now();
      if (now >= next_beat) {
        beat();
        next_beat = now + beat_interval;
      }
      timeout =
          static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(next_beat - now).count());
    }
    std::vector<pollfd> watched{{stop_signal, POLLIN, 0}, {look_around_.get(), POLLIN, 0}};
    std::vector<node_id> whose{host_id, host_id};
    const auto add = [&](int fd, node_id node) {
      watched.push_back({fd, POLLIN, 0});
      whose.push_back(node);
    };
    bool has_news = false;
    std::vector<node_id> without_descriptor; ///< what they say makes us look around
    targets_.for_each([&](node_id node, target& t) {
      if (has_gone(node, t)) return;
      if (t.hosted) {
        add(t.hosted->failure_fd(), node);
        return;
      }
      end_faulted(node, t);
      if (!t.is_dying) {
        send_notices(t);
        see_off(node, t);
        end_cut_off(node, t);
      }
      if (has_gone(node, t)) return;
      if (t.fault && !t.is_dying)
        timeout = timeout < 0 ? names_interval : std::min(timeout, names_interval);
      has_news =
          has_news || !t.notices.empty() ||
          (t.is_removed.load(std::memory_order_relaxed) && !t.is_told_to_stop && !t.is_dying);
      if (t.process->end_fd() >= 0) add(t.process->end_fd(), node);
      if (t.is_deaf) return;
      control_socket& socket = t.process->socket();
      if (socket.fd() >= 0) {
        add(socket.fd(), node);
      } else {
        without_descriptor.push_back(node);
        // More than was taken in at once.
        if (socket.is_ready()) timeout = 0;
      }
    });
    if (options_.are_equals) {
      follow_giving_up();
      end_round();
    }
    if (has_news) timeout = timeout < 0 ? news_interval : std::min(timeout, news_interval);
    if (::poll(watched.data(), watched.size(), timeout) < 0) continue;
    if (watched[0].revents != 0) return;
    if (watched[1].revents != 0) note_look_around();
    // Where a process tells its own end, that of its socket is none.
    const auto hear_or_lose = [&](node_id node, target& t) {
      if (!hear(node, t, most_messages) && t.process->end_fd() < 0) lose(node, t);
    };
    for (std::size_t i = 2; i < watched.size(); ++i) {
      const node_id node = whose[i];
      target* const found = targets_.find(node);
      if (watched[i].revents == 0 || found == nullptr || has_gone(node, *found)) continue;
      target& t = *found;
      if (t.hosted || watched[i].fd == t.process->end_fd()) {
        lose(node, t);
      } else {
        hear_or_lose(node, t);
      }
    }
    for (const node_id node : without_descriptor) {
      if (target& t = *targets_.find(node); !has_gone(node, t)) hear_or_lose(node, t);
    }
  }
}

// ---- ending -------------------------------------------------------------------------------------

void host_membership::stop_hosted() {
  const time_point deadline = clock::now() + stop_timeout_;
  targets_.for_each([&](node_id node, target& t) {
    if (!t.hosted) return;
    const bool has_stopped = t.hosted->stop(deadline);
    if (roster_.has_failed(node)) return;
    if (!has_stopped) {
      log::warning(node_text(node) + " did not finish within " +
                   std::to_string(stop_timeout_.count()) + " ms and is left behind");
    }
    // A handler of the host, which others wait for, may still call it.
    if (events_.node_failed) events_.node_failed(node, node_text(node) + " has ended with the job");
  });
}

bool host_membership::has_ended(node_id node, target& t) {
  return (!hear(node, t, most_messages) && t.process->end_fd() < 0) ||
         t.process->wait(clock::now()).has_value();
}

bool host_membership::may_be_killed_early(node_id node, const target& t) const noexcept {
  // A node that stands in a debugger is for its user to end: the time is the longest then.
  return !is_started_ && !t.is_existing && !roster_.knows(node) &&
         stop_timeout_ < std::chrono::milliseconds(settings::day_ms);
}

void host_membership::shut_down(const std::function<void()>& meanwhile) {
  if (is_shut_down_) return;
  is_shut_down_ = true;
  stop_watching();
  stop_hosted();
  const time_point begun = clock::now();
  const time_point deadline = begun + stop_timeout_;
  for (;;) {
    meanwhile();
    std::vector<pollfd> running{{look_around_.get(), POLLIN, 0}};
    bool are_running = false;
    targets_.for_each([&](node_id node, target& t) {
      if (has_gone(node, t) || !t.process) return;
      end_faulted(node, t);
      if (!t.is_told_to_stop && !t.is_dying)
        t.is_told_to_stop = messages::try_send(t.process->socket(), messages::shut_down{});
      if (!t.is_dying) send_notices(t);
      if (has_ended(node, t)) {
        // Another one may wait for it, and so may a handler here.
        lose(node, t);
        return;
      }
      if (may_be_killed_early(node, t) && clock::now() >= begun + unjoined_time) return;
      // A report of a fault may take longer than others may take to finish.
      if (clock::now() >= (t.fault ? std::max(deadline, t.fault->report_until) : deadline)) return;
      are_running = true;
      if (t.process->end_fd() >= 0) running.push_back({t.process->end_fd(), POLLIN, 0});
      if (!t.is_deaf) running.push_back({t.process->socket().fd(), POLLIN, 0});
    });
    if (!are_running) break;
    // Without descriptors of processes this is a short sleep.
    ::poll(running.data(), running.size(), look_interval_ms);
    note_look_around();
  }
  kill_rest();
}

void host_membership::warn_of_report(node_id node) {
  log::warning(node_text(node) + " could not finish the report of its fault, and is ended");
}

void host_membership::kill_rest() {
  targets_.for_each([this](node_id node, target& t) {
    if (has_gone(node, t) || !t.process) return;
    if (t.fault) {
      warn_of_report(node);
    } else if (is_started_) {
      log::warning(node_text(node) + " did not finish within " +
                   std::to_string(stop_timeout_.count()) + " ms and is " +
                   (t.process->can_be_killed() ? "killed" : "cut off"));
    }
    {
      const std::lock_guard guard(t.telling);
      t.process->kill();
      t.process->socket().close();
    }
    // Who removes it need not wait.
    const std::lock_guard guard(lost_mutex_);
    t.is_lost.store(true, std::memory_order_release);
  });
  lost_.notify_all();
  output_.finish();
}

} // namespace farcall
