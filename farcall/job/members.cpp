// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/wipe.hpp>
#include <farcall/job/make_memory.hpp>
#include <farcall/job/members.hpp>
#include <farcall/transport/hosted_node.hpp>
#include <farcall/transport/shm/receive_segment.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include <fcntl.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace farcall {
namespace {

/// Duplicates the file descriptor of a segment. `kept` owns the duplicate.
memory_file keep_file(const segment& of, std::vector<unique_fd>& kept) {
  kept.emplace_back(::fcntl(of.fd(), F_DUPFD_CLOEXEC, 0));
  if (!kept.back()) throw_system_error("keeping the descriptors of memory", errno);
  return {kept.back().get(), of.size()};
}

card describe_process() {
  card c;
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) == 0) c.host = name;
  utsname system{};
  if (::uname(&system) == 0) c.architecture = system.machine;
  c.pid = static_cast<std::uint64_t>(::getpid());
  c.cores = static_cast<std::uint32_t>(allowed_processors().size());
  return c;
}

} // namespace

std::vector<unsigned> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<unsigned> allowed;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) allowed.push_back(cpu);
    }
  }
  if (allowed.empty()) allowed.push_back(0);
  return allowed;
}

void own_part::forget_setups() noexcept {
  for (auto& [scheme, bytes] : setups)
    wipe(std::span(bytes));
  setups.clear();
}

members::members(tell_function tell, ask_function ask)
    : tell_(std::move(tell)), ask_(std::move(ask)) {}

members::~members() = default;

void members::set_up(node_memory memory, std::span<const transport_entry> table,
                     const own_part& own, const program_identity& program) {
  std::vector<memory_file> files;
  if (own.hands_out_memory) {
    files.push_back(keep_file(memory.receive_segment, memory_files_));
    for (const segment& window : memory.windows)
      files.push_back(keep_file(window, memory_files_));
  }
  receive_segment_ = std::move(memory.receive_segment);
  receive_segment_.close_file();
  // Each node formats its own receive segment, because otherwise the host would touch pages of the
  // segments of all nodes.
  const std::uint32_t lanes = receive_lanes(self(), roster().size());
  if (shm::receive_segment::bytes(own.lane_bytes, lanes) > receive_segment_.size()) {
    throw malformed_message("the memory in which this node shall receive is too small");
  }
  doorbells_ = shm::receive_segment::format(receive_segment_, own.lane_bytes, lanes).doorbells();
  segment normal = std::move(memory.windows.at(0));
  segment huge = memory.windows.size() > 1 ? std::move(memory.windows[1]) : segment{};
  heap_ = std::make_shared<shared_heap>(std::move(normal), std::move(huge));

  card mine = describe_process();
  mine.id = self();
  mine.name = own.name;
  mine.transport = own.scheme;
  mine.machine = machine_identity();
  mine.workers = own.workers;
  mine.build = program.build;
  mine.key_digest = program.key_digest;
  mine.lane_bytes = own.lane_bytes;
  for (const auto& [address, bytes] : heap_->windows())
    mine.windows.push_back({address, bytes});

  for (const transport_entry& row : table) {
    if (!row.make) continue;
    transport_site site;
    site.self = self();
    site.nodes = capacity();
    site.lane_bytes = own.lane_bytes;
    site.doorbells = doorbells_;
    site.machine = mine.machine;
    site.windows = mine.windows;
    site.receive_segment = &receive_segment_;
    site.group = own.group;
    site.memory_files = files;
    if (const auto at = own.launchers.find(row.scheme); at != own.launchers.end()) {
      site.started_by = at->second;
    }
    if (const auto at = own.setups.find(row.scheme); at != own.setups.end()) {
      site.setup = at->second;
    }
    site.tell = [this, scheme = row.scheme](node_id peer, std::span<const std::byte> bytes,
                                            std::span<const int> files) {
      return tell_(peer, scheme, bytes, files);
    };
    auto made = row.make(site);
    if (made == nullptr) continue;
    made->describe(mine);
    transports_.push_back(std::move(made));
  }
  roster_.add(std::move(mine));
}

void members::take_memory(node_memory of) {
  for (const auto& t : transports_) {
    if (t->take_memory(of)) return;
  }
}

bool members::has(node_id node) const {
  // The first node of each place has existed, and so has each node before the latest one.
  if (node < nodes()) return true;
  if (!roster_.can_exist(node)) return false;
  if (roster_.has_failed(node)) return true;
  try {
    meet(node);
  } catch (const node_failed&) {
    return true;
  } catch (const error&) {
    return false;
  }
  return true;
}

void members::throw_missing(node_id node) const {
  throw error(missing_node_text(node, nodes()), node);
}

route members::find_route(const card& to) const {
  return farcall::roster::choose(to, transports());
}

void members::choose_routes(const std::function<void(const card&, const route&)>& joined) {
  roster_.choose_routes(transports(), joined);
}

void members::deliver(node_id from, const std::string& scheme, std::span<const std::byte> bytes,
                      std::vector<unique_fd> files) noexcept {
  const auto to = std::find_if(transports_.begin(), transports_.end(),
                               [&](const auto& t) { return t->scheme() == scheme; });
  try {
    if (to == transports_.end()) throw error("this node has no such transport");
    (*to)->take_message(from, bytes, std::move(files));
  } catch (const std::exception& e) {
    lost_messages_.warning("a message for the transport \"" + scheme + "\" from " +
                           (from == no_node ? "a server" : node_text(from)) + ": " + e.what());
  }
}

std::vector<transport*> members::transports() const {
  std::vector<transport*> all;
  for (const auto& t : transports_)
    all.push_back(t.get());
  for (const auto& [node, hosted] : hosted_)
    all.push_back(hosted.get());
  return all;
}

hosted_node* members::hosted(node_id node) const noexcept {
  const auto at = hosted_.find(node);
  return at == hosted_.end() ? nullptr : at->second.get();
}

void members::take_hosted(node_id node, std::unique_ptr<hosted_node> hosted) {
  hosted_.emplace(node, std::move(hosted));
}

void members::drop_transports() noexcept {
  transports_.clear();
  hosted_.clear();
}

} // namespace farcall
