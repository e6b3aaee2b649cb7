// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/version.hpp>
#include <farcall/job/rank_launcher.hpp>
#include <farcall/transport/control_socket.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/wire_release.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace farcall {
namespace {

/// Number at the beginning of the message in which the host sends the names of its ports. A process
/// that receives other bytes by mistake detects this by the number.
constexpr std::uint64_t ports_magic = 0x7374726f706c6c61;
constexpr std::uint32_t max_ports = 16;
/// Time in which a process may try to connect to the addresses of the host, all addresses together.
constexpr std::chrono::seconds connecting_time{30};

std::string encode(const std::vector<rank_launcher::open_port>& ports) {
  byte_writer w;
  w.number(ports_magic);
  w.number(wire_version);
  w.number(this_release);
  w.number(static_cast<std::uint32_t>(ports.size()));
  for (const rank_launcher::open_port& p : ports) {
    w.text(p.scheme);
    w.block(p.at->name());
  }
  const std::vector<std::byte>& bytes = w.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct port_name {
  std::string scheme;
  std::vector<std::byte> name;
};

std::vector<port_name> decode(const std::string& told) {
  byte_reader r(std::as_bytes(std::span(told)), "what the host tells of its ports");
  if (r.number<std::uint64_t>() != ports_magic) {
    throw malformed_message("process 0 is no host of farcall: do all run the same program?");
  }
  const auto version = r.number<std::uint32_t>();
  const auto release = version < first_wire_version_with_release ? 0 : r.number<std::uint32_t>();
  if (version != wire_version) {
    throw error("process 0 has another version of farcall: " + difference_text(release, version));
  }
  const auto count = r.number<std::uint32_t>();
  if (count > max_ports) throw malformed_message("the host tells of too many ports");
  std::vector<port_name> ports;
  for (std::uint32_t i = 0; i < count; ++i) {
    port_name p;
    p.scheme = r.text();
    const std::span<const std::byte> name = r.block();
    p.name.assign(name.begin(), name.end());
    ports.push_back(std::move(p));
  }
  if (!r.empty()) throw malformed_message("what the host tells of its ports is followed by more");
  return ports;
}

} // namespace

/// Processes of the group that were lost, according to the launcher or MPI. A thread of the group
/// calls lose() for each, perhaps after the rank_launcher was destroyed.
struct rank_launcher::losses {
  /// Stores a duplicate of the socket to a process. If the process is lost, lose() shuts the
  /// connection down by this duplicate, so that the host notices the loss.
  void watch(node_id rank, int socket) {
    const std::lock_guard guard(mutex_);
    entry& e = all_[rank];
    e.socket = unique_fd(::fcntl(socket, F_DUPFD_CLOEXEC, 0));
    if (!e.socket) throw_system_error("watching a process (descriptor limit?)", errno);
    e.socket.close_on_fork();
  }
  void forget(node_id rank) {
    const std::lock_guard guard(mutex_);
    all_[rank].socket.reset();
  }
  void lose(node_id rank, const std::string& how) {
    const std::lock_guard guard(mutex_);
    entry& e = all_[rank];
    if (!e.how.empty()) return;
    e.how = how;
    if (e.socket) ::shutdown(e.socket.get(), SHUT_RDWR);
  }
  /// Returns how the process was lost. Returns an empty text if no loss is known.
  [[nodiscard]] std::string how(node_id rank) {
    const std::lock_guard guard(mutex_);
    return all_[rank].how;
  }

 private:
  struct entry {
    unique_fd socket;
    std::string how;
  };

  std::mutex mutex_;
  std::map<node_id, entry> all_; ///< processes by rank
};

/// A process of the group, as a target. When its socket is closed, the process counts as ended.
class rank_process final : public target_process {
 public:
  rank_process(arrival come, std::string started_by, std::shared_ptr<rank_launcher::losses> losses)
      : rank_(come.rank), is_near_(come.is_near), name_(std::move(come.process)),
        started_by_(std::move(started_by)), losses_(std::move(losses)),
        keeps_(std::move(come.keeps)) {
    if (is_near_) process_ = process_behind(come.socket.get());
    process_.close_on_fork();
    if (losses_) losses_->watch(rank_, come.socket.get());
    set(control_socket(std::move(come.socket)),
        "rank " + std::to_string(rank_) + " of " + started_by_);
  }
  ~rank_process() override { forget(); }

  bool is_near() const noexcept override { return is_near_; }

  std::string end_text(const std::string& exit_reason) override {
    // Use the group's report of the loss if it has already arrived. Do not wait for the report,
    // because it comes through another connection than the end of the socket, and many processes
    // may end at once.
    const std::string how = losses_ ? losses_->how(rank_) : "";
    return " (" + name_ + ") " + (how.empty() ? "closed its control socket" : how) +
           (exit_reason.empty() ? "" : ": " + exit_reason);
  }

  std::string silence_text(const char* what) override {
    return std::string(" did not ") + what +
           " in time, although it has connected; is it stopped? " + "(job_options::start_timeout)";
  }

  /// Closes the socket to the process. The process then ends by itself, because a target ends when
  /// it has lost its host. A process that is stopped cannot do so, and so also gets SIGKILL if it
  /// is on this machine.
  void kill() noexcept override {
    forget();
    socket().close();
#ifdef SYS_pidfd_send_signal
    if (process_) ::syscall(SYS_pidfd_send_signal, process_.get(), SIGKILL, nullptr, 0);
#endif
  }
  bool can_be_killed() const noexcept override { return bool(process_); }

 private:
  /// Closes the duplicate of the socket that `losses_` holds. The connection ends only when both
  /// descriptors are closed.
  void forget() noexcept {
    if (losses_) losses_->forget(rank_);
  }

  node_id rank_;
  bool is_near_;
  unique_fd process_; ///< pidfd of the process; empty if the process is on another machine
  std::string name_;
  std::string started_by_;
  /// The group's reports of lost processes; null if the group reports none.
  std::shared_ptr<rank_launcher::losses> losses_;
  std::shared_ptr<void> keeps_;
};

rank_launcher::rank_launcher(const process_group& group, std::vector<open_port> ports,
                             time_point deadline)
    : group_(&group), ports_(std::move(ports)), has_come_(group.size),
      losses_(std::make_shared<losses>()) {
  if (group_->on_lost) {
    group_->on_lost(
        [weak = std::weak_ptr(losses_), size = group.size](node_id rank, const std::string& how) {
          const auto all = weak.lock();
          if (all && rank < size) all->lose(rank, how);
        });
  }
  try {
    (void)group_->broadcast(encode(ports_), deadline);
  } catch (const error& e) {
    throw start_failed("the " + std::to_string(group.size) + " processes that " + group.name +
                       " has started did not come together: " + e.what() +
                       "; each of them has to make a farcall::job early in main() "
                       "(job_options::start_timeout)");
  }
}

rank_launcher::~rank_launcher() = default;

rank_launcher::rank rank_launcher::wait_for(node_id node, time_point deadline) {
  for (;;) {
    if (const auto at = come_.find(node); at != come_.end()) {
      rank found = std::move(at->second);
      come_.erase(at);
      return found;
    }
    const std::string how = losses_->how(node);
    if (!how.empty()) throw start_failed(node_text(node) + " " + how + " before it joined", node);
    if (clock::now() >= deadline) {
      throw start_failed(node_text(node) + " (rank " + std::to_string(node) + " of " +
                             group_->name +
                             ") did not connect in time; does it run the same program, and can it "
                             "reach this machine? (job_options::start_timeout)",
                         node);
    }
    take_arrivals(deadline);
  }
}

void rank_launcher::take_arrivals(time_point deadline) {
  // Return after 100 ms even if no process has connected, so that wait_for() can check whether the
  // group has reported a loss.
  const time_point next_poll = std::min(deadline, clock::now() + std::chrono::milliseconds(100));
  std::vector<pollfd> watched;
  for (const open_port& p : ports_)
    watched.push_back({p.at->wait_fd(), POLLIN, 0});
  if (::poll(watched.data(), watched.size(), poll_timeout(next_poll)) <= 0) return;
  for (const open_port& p : ports_) {
    while (std::optional<arrival> come = p.at->accept()) {
      const node_id rank = come->rank;
      // Drop a connection with a rank that has connected before, or that is out of range. It comes
      // from a mistake of the program, because only processes of the group know the ports.
      if (rank == host_id || rank >= group_->size || has_come_[rank]) continue;
      has_come_[rank] = true;
      come_[rank] = {std::make_unique<rank_process>(std::move(*come), group_->name,
                                                    group_->on_lost ? losses_ : nullptr),
                     p.scheme};
    }
  }
}

namespace {

[[noreturn]] void throw_unreached(const process_group& group, const std::string& why) {
  throw start_failed("process " + std::to_string(group.rank) + " of " + group.name +
                         " cannot reach the host: " + why,
                     group.rank);
}

} // namespace

port_connection connect_to_host(const process_group& group, std::span<const transport_entry> table,
                                time_point deadline) {
  std::vector<port_name> ports;
  try {
    ports = decode(group.broadcast("", deadline));
  } catch (const timeout& e) {
    throw start_failed("process " + std::to_string(group.rank) + " of " + group.name +
                           " has waited for the others in vain: " + e.what() +
                           "; each of them has to make a farcall::job early in main(); one that "
                           "comes later is waited for with a larger FARCALL_START_TIMEOUT_MS",
                       group.rank);
  } catch (const error& e) {
    throw_unreached(group, e.what());
  }
  try {
    const time_point connected_by = clock::now() + connecting_time;
    std::string refusals;
    for (const transport_entry& row : table) {
      const auto to = std::find_if(ports.begin(), ports.end(),
                                   [&](const port_name& p) { return p.scheme == row.scheme; });
      if (to == ports.end() || !row.connect_port) continue;
      try {
        return row.connect_port(to->name, group.rank, connected_by);
      } catch (const error& e) {
        refusals += (refusals.empty() ? "" : ", ") + row.scheme + ": " + e.what();
      }
    }
    throw error(refusals.empty() ? "it has opened no port that this program knows" : refusals);
  } catch (const error& e) {
    throw_unreached(group, e.what());
  }
}

} // namespace farcall
