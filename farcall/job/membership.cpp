#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/signals.hpp>
#include <farcall/job/membership.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/self/self.hpp>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <utility>

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace farcall {
namespace {

/// What does not fit a record costs another round trip, and a wake-up: worth some memory where
/// lanes are connections.
constexpr std::uint32_t network_ring_factor = 4;
constexpr std::uint32_t largest_network_ring = std::uint32_t{1} << 26;

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

bool membership::is_target() noexcept { return std::getenv(bootstrap_variable) != nullptr; }

// ---- common -------------------------------------------------------------------------------------

membership::node_memory membership::make_memory(node_id node, const memory_sizes& sizes) {
  node_memory made;
  const std::string label = "farcall-" + std::to_string(::getpid()) + "-" + std::to_string(node);
  made.home = segment::create(label + "-home", shm::home::bytes(sizes.lane_bytes));
  (void)shm::home::format(made.home, sizes.lane_bytes);
  const std::uint64_t all = sizes.is_emulated ? emulated_heaps : heap_address_space;
  const std::uint64_t heap_bytes =
      sizes.heap_bytes != 0 ? sizes.heap_bytes : std::min(machine_memory(), all / sizes.nodes);
  try {
    made.windows.push_back(segment::create(label + "-heap", std::max(heap_bytes, smallest_heap)));
  } catch (const error& e) {
    throw error(std::string(e.what()) + "; FARCALL_HEAP_BYTES or job_options::heap_bytes lets each "
                                        "node share less");
  }
  if (const std::uint64_t pool = huge_page_pool(); pool != 0) {
    try {
      made.windows.push_back(segment::create(label + "-huge", pool, page_kind::huge));
    } catch (const error& e) {
      // Huge pages are an extra: without them the ordinary heap serves.
      log::info(std::string("huge pages are not used: ") + e.what());
    }
  }
  return made;
}

void membership::set_up(std::vector<node_memory> memory, const program_identity& program,
                        std::uint32_t lane_bytes, const std::string& name,
                        const std::string& scheme, std::uint32_t workers,
                        const std::string& address) {
  node_memory& own = memory[self_];
  home_memory_ = std::move(own.home);
  home_memory_.close_file();
  home_ = shm::home::view(home_memory_);

  card mine = describe_process();
  mine.id = self_;
  mine.name = name;
  mine.transport = scheme;
  mine.workers = workers;
  mine.build = program.build;
  mine.key_digest = program.key_digest;
  mine.lane_bytes = lane_bytes;

  segment normal = std::move(own.windows.at(0));
  segment huge = own.windows.size() > 1 ? std::move(own.windows[1]) : segment{};
  heap_ = std::make_shared<shared_heap>(std::move(normal), std::move(huge));
  for (const auto& [address, bytes] : heap_->windows())
    mine.windows.push_back({address, bytes});

  shm::options shm_options;
  shm_options.self = self_;
  shm_options.machine = shm::machine_identity();
  shm_options.own_home = home_;
  for (node_id node = 0; node < memory.size(); ++node) {
    if (node == self_ || !memory[node].home) continue;
    for (segment& window : memory[node].windows)
      window.close_file();
    memory[node].home.close_file();
    shm_options.peers.push_back(
        {node, std::move(memory[node].home), std::move(memory[node].windows)});
  }
  self_transport_ = self::make({self_, lane_bytes, home_.bells()});
  shm_transport_ = shm::make(std::move(shm_options));
  self_transport_->describe(mine);
  shm_transport_->describe(mine);
  if (network_) make_network(mine, address, lane_bytes);
  cards_[self_] = std::move(mine);
}

void membership::make_network(card& mine, const std::string& address, std::uint32_t lane_bytes) {
  tcp::options o;
  o.self = self_;
  o.nodes = cards_.size();
  o.ring_bytes = std::min(lane_bytes * network_ring_factor, largest_network_ring);
  o.machine = mine.machine;
  o.address = address;
  o.bells = home_.bells();
  o.windows = mine.windows;
  o.credentials = network_->credentials.copy();
  o.liveness = network_->liveness;
  o.ask_to_dial = [this](node_id peer, const tcp::dial_request& request) {
    const messages::dial m{peer, tcp::encode(request)};
    // The host can dial all; a target asks by way of the host.
    if (!messages::send(to_host_, m, clock::now() + std::chrono::seconds(1))) {
      log::error(node_text(peer) + " cannot be asked for a connection");
    }
  };
  if (!reactor_) reactor_ = std::make_unique<tcp::reactor>("farcall-tcp");
  tcp_transport_ = tcp::make(*reactor_, std::move(o));
  tcp_transport_->describe(mine);
}

void membership::find_ways() {
  ways_.resize(cards_.size());
  for (node_id node = 0; node < cards_.size(); ++node) {
    unsigned best = UINT_MAX;
    std::string refusals;
    for (transport* t : transports()) {
      const reach r = t->reach_of(cards_[node]);
      if (r.possible && r.cost < best) {
        best = r.cost;
        ways_[node] = {t, r.reason};
      } else if (!r.possible) {
        refusals +=
            std::string(refusals.empty() ? "" : ", ") + std::string(t->scheme()) + ": " + r.reason;
      }
    }
    if (ways_[node].via == nullptr) {
      ways_[node].reason =
          is_device(cards_[node]) ? "a device, which only the host of the job can call" : refusals;
    }
    if (ways_[node].via == shm_transport_.get()) shm_transport_->admit(cards_[node]);
    if (ways_[node].via == tcp_transport_.get() && tcp_transport_) {
      tcp_transport_->admit(cards_[node]);
    }
  }
}

std::vector<transport*> membership::transports() const {
  std::vector<transport*> all{self_transport_.get(), shm_transport_.get()};
  if (tcp_transport_) all.push_back(tcp_transport_.get());
  for (const auto& device : devices_)
    all.push_back(device.get());
  return all;
}

cuda::cuda_transport* membership::device_of(node_id node) const noexcept {
  return node < processes_.size() ? processes_[node].device : nullptr;
}

membership::~membership() {
  stop_watching();
  if (self_ == host_id) shut_down([] {});
  // What is left on the reactor's thread uses the rest.
  tcp_transport_.reset();
  processes_.clear();
  reactor_.reset();
}

void membership::watch(membership_events events) {
  events_ = std::move(events);
  stop_signal_ = unique_fd(::eventfd(0, EFD_CLOEXEC));
  if (!stop_signal_) throw_system_error("watching the nodes (descriptor limit?)", errno);
  watcher_ = std::thread([this] {
    leave_signals_to_other_threads();
    if (self_ == host_id) {
      watch_targets();
    } else {
      watch_host();
    }
  });
}

void membership::stop_watching() {
  if (!watcher_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stop_signal_.get(), &one, sizeof one);
  watcher_.join();
}

} // namespace farcall
