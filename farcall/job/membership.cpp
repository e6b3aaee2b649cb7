#include <farcall/base/error.hpp>
#include <farcall/base/join.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/node_table.hpp>
#include <farcall/base/signals.hpp>
#include <farcall/base/wipe.hpp>
#include <farcall/job/membership.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/shm/receive_segment.hpp>
#include <farcall/transport/start_mark.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <span>
#include <utility>

#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

/// What host and targets have in common.
namespace farcall {
namespace {

constexpr std::uint64_t smallest_heap = std::uint64_t{64} << 20;

/// For the heaps of all nodes together where one of them is emulated: qemu keeps a note of each
/// page that is mapped, 12 MB and 30 ms for each GiB.
constexpr std::uint64_t emulated_heaps = std::uint64_t{8} << 30;

/// Of the address space, for the heaps of all nodes together: every process maps every heap.
#if defined(__riscv)
constexpr std::uint64_t heap_address_space = std::uint64_t{1} << 36;
#else
constexpr std::uint64_t heap_address_space = std::uint64_t{1} << 45;
#endif

std::uint64_t machine_memory() {
  struct sysinfo info{};
  if (::sysinfo(&info) != 0) return smallest_heap;
  return align_up(std::uint64_t{info.totalram} * info.mem_unit, std::uint64_t{1} << 30);
}

/// Bytes in the system's pool of huge pages, zero when it has none.
std::uint64_t huge_page_pool() {
  std::ifstream meminfo("/proc/meminfo");
  std::uint64_t pages = 0;
  std::uint64_t page_kib = 0;
  for (std::string name, rest; meminfo >> name; std::getline(meminfo, rest)) {
    if (name == "HugePages_Total:") meminfo >> pages;
    if (name == "Hugepagesize:") meminfo >> page_kib;
  }
  return pages * page_kib * 1024;
}

/// Another descriptor of a segment's file, for as long as `kept` lives.
memory_file keep_file(const segment& of, std::vector<unique_fd>& kept) {
  kept.emplace_back(::fcntl(of.fd(), F_DUPFD_CLOEXEC, 0));
  if (!kept.back()) throw_system_error("keeping the descriptors of memory", errno);
  return {kept.back().get(), of.size()};
}

/// Every target may call the host. Lanes that nobody opens take no memory.
std::uint32_t lanes_of(node_id node, std::size_t capacity) {
  if (node != host_id) return shm::receive_segment_lanes;
  return static_cast<std::uint32_t>(
      std::min<std::size_t>(capacity, shm::most_receive_segment_lanes));
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

// A process that may have little memory of its own shares no more of it.
rlim_t limit_of_data() noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_DATA, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
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

bool membership::is_target() noexcept {
  const limit_mark mark = find_limit_mark();
  if (mark == limit_mark::other_program) return false;
  if (mark == limit_mark::this_program || std::getenv(bootstrap_variable) != nullptr) return true;
  // A child of a fork is asked anew.
  static std::atomic<pid_t> known_as_none{0};
  const pid_t self = ::getpid();
  if (known_as_none.load(std::memory_order_relaxed) == self) return false;
  if (find_target_socket() >= 0 || tell_lost_mark(lost_mark::none)) return true;
  known_as_none.store(self, std::memory_order_relaxed);
  return false;
}

node_memory membership::make_memory(node_id node, const memory_sizes& sizes) {
  node_memory made;
  made.node = node;
  const std::string label = "farcall-" + std::to_string(::getpid()) + "-" + std::to_string(node);
  const std::uint32_t lanes = lanes_of(node, node_capacity(sizes.nodes));
  made.receive_segment =
      segment::create(label + "-receive", shm::receive_segment::bytes(sizes.lane_bytes, lanes));
  const std::uint64_t all = sizes.is_emulated ? emulated_heaps : heap_address_space;
  const std::uint64_t heap_bytes = std::min<std::uint64_t>(
      sizes.heap_bytes != 0 ? sizes.heap_bytes : std::min(machine_memory(), all / sizes.nodes),
      limit_of_data());
  try {
    made.windows.push_back(segment::create(label + "-heap", std::max(heap_bytes, smallest_heap)));
  } catch (const segment_too_large& e) {
    throw error(std::string(e.what()) + "; FARCALL_HEAP_BYTES or job_options::heap_bytes lets each "
                                        "node share less");
  }
  // Emulators map them at few addresses, or at none.
  if (const std::uint64_t pool = sizes.is_emulated ? 0 : huge_page_pool(); pool != 0) {
    try {
      made.windows.push_back(segment::create(label + "-huge", pool, page_kind::huge));
    } catch (const error& e) {
      // Huge pages are an extra: without them the ordinary heap serves.
      log::info(std::string("huge pages are not used: ") + e.what());
    }
  }
  return made;
}

void membership::part::forget_setups() noexcept {
  for (auto& [scheme, bytes] : setups)
    wipe(std::span(bytes));
  setups.clear();
}

void membership::set_up(node_memory memory, std::span<const transport_entry> table, const part& own,
                        const program_identity& program) {
  std::vector<memory_file> files;
  if (own.hands_out_memory) {
    files.push_back(keep_file(memory.receive_segment, memory_files_));
    for (const segment& window : memory.windows)
      files.push_back(keep_file(window, memory_files_));
  }
  receive_segment_ = std::move(memory.receive_segment);
  receive_segment_.close_file();
  // Here, and not by the host, which would have a part of each node's in its memory.
  const std::uint32_t lanes = lanes_of(self(), capacity());
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
      return tell(peer, scheme, bytes, files);
    };
    auto made = row.make(site);
    if (made == nullptr) continue;
    made->describe(mine);
    transports_.push_back(std::move(made));
  }
  roster_.add(std::move(mine));
}

void membership::take_memory(node_memory of) {
  for (const auto& t : transports_) {
    if (t->take_memory(of)) return;
  }
}

bool membership::has(node_id node) const {
  if (node < nodes()) return true;
  try {
    meet(node);
  } catch (const node_failed&) {
    return true;
  } catch (const error&) {
    return false;
  }
  return true;
}

void membership::ask_for(node_id node, time_point /*deadline*/) const {
  throw error(missing_node_text(node, nodes()), node);
}

route membership::find_route(const card& to) const { return roster::choose(to, transports()); }

void membership::choose_routes() { roster_.choose_routes(transports(), events_.node_joined); }

void membership::deliver(node_id from, const std::string& scheme, std::span<const std::byte> bytes,
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

std::vector<transport*> membership::transports() const {
  std::vector<transport*> all;
  for (const auto& t : transports_)
    all.push_back(t.get());
  for (transport* t : hosted_transports())
    all.push_back(t);
  return all;
}

membership::~membership() = default;

namespace {

[[noreturn]] void throw_not_the_host(const char* what, node_id self) {
  throw error(std::string("only the host can ") + what + ", and this process is " +
              node_text(self) + "; let it call the host for that");
}

} // namespace

std::vector<node_id> membership::add(const std::vector<target_url>& /*urls*/,
                                     time_point /*deadline*/) {
  throw_not_the_host("add nodes to a job", self());
}

void membership::remove(node_id /*node*/, time_point /*deadline*/,
                        const std::function<void()>& /*meanwhile*/) {
  throw_not_the_host("remove nodes from a job", self());
}

const target_url& membership::url_of(node_id /*node*/) const {
  throw_not_the_host("start nodes of a job again", self());
}

void membership::watch(membership_events events) {
  events_ = std::move(events);
  stop_signal_ = unique_fd(::eventfd(0, EFD_CLOEXEC));
  if (!stop_signal_) throw_system_error("watching the nodes (descriptor limit?)", errno);
  stop_signal_.close_on_fork();
  failure_detector_ = std::thread([this] {
    leave_signals_to_other_threads();
    watch_others(stop_signal_.get());
  });
}

void membership::stop_watching() {
  if (!failure_detector_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stop_signal_.get(), &one, sizeof one);
  join_unless_own(failure_detector_);
}

} // namespace farcall
