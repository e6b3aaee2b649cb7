#include <farcall/base/byte_stream.hpp>
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/signals.hpp>
#include <farcall/job/membership.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/self/self.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace farcall {
namespace {

constexpr const char* bootstrap_variable = "FARCALL_BOOTSTRAP";
constexpr const char* own_program = "/proc/self/exe";
constexpr std::uint64_t smallest_heap = std::uint64_t{64} << 20;

std::string node_name(node_id node) {
  return node == host_id ? "host" : "node " + std::to_string(node);
}

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

membership::node_memory membership::make_memory(node_id node, const membership_options& o) const {
  node_memory made;
  const std::string label = "farcall-" + std::to_string(::getpid()) + "-" + std::to_string(node);
  made.home = segment::create(label + "-home", shm::home::bytes(o.lane_bytes));
  (void)shm::home::format(made.home, o.lane_bytes);
  const std::uint64_t heap_bytes = o.heap_bytes != 0 ? o.heap_bytes : machine_memory();
  made.windows.push_back(segment::create(label + "-heap", std::max(heap_bytes, smallest_heap)));
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
                        const std::string& scheme, std::uint32_t workers) {
  node_memory& own = memory[self_];
  home_memory_ = std::move(own.home);
  home_memory_.close_file();
  home_ = shm::home::view(home_memory_);
  peer_homes_.resize(memory.size());

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
    if (node == self_) continue;
    peer_homes_[node] = shm::home::view(memory[node].home);
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
  cards_.resize(memory.size());
  cards_[self_] = std::move(mine);
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
    if (ways_[node].via == nullptr) ways_[node].reason = refusals;
    if (node != self_) shm_transport_->admit(cards_[node]);
  }
}

std::vector<transport*> membership::transports() const {
  return {self_transport_.get(), shm_transport_.get()};
}

membership::~membership() {
  stop_watching();
  if (self_ == host_id) shut_down();
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

// ---- host ---------------------------------------------------------------------------------------

std::unique_ptr<membership> membership::launch(const membership_options& o,
                                               const program_identity& program) {
  if (o.lane_bytes < smallest_ring || !is_power_of_two(o.lane_bytes) || o.lane_bytes > (1U << 26)) {
    throw setting_error("the lane size is " + std::to_string(o.lane_bytes) +
                        " bytes; it must be a power of two from 4096 to 67108864");
  }
  std::unique_ptr<membership> made(new membership);
  const std::size_t nodes = o.targets.size() + 1;
  const time_point deadline = clock::now() + o.start_timeout;
  made->stop_timeout_ = o.stop_timeout;
  made->settings_ = o.settings;

  std::vector<node_memory> memory;
  memory.reserve(nodes);
  for (node_id node = 0; node < nodes; ++node)
    memory.push_back(made->make_memory(node, o));
  made->start_targets(o);
  for (node_id node = 1; node < nodes; ++node)
    made->greet(node, o, memory, deadline);
  made->set_up(std::move(memory), program, o.lane_bytes, node_name(host_id), "self", 1);
  for (node_id node = 1; node < nodes; ++node)
    made->take_card(node, deadline);
  made->spread_cards();
  made->find_ways();
  return made;
}

void membership::start_targets(const membership_options& o) {
  processes_.resize(o.targets.size() + 1);
  for (node_id node = 1; node < processes_.size(); ++node) {
    const target_url& url = o.targets[node - 1];
    auto [ours, theirs] = control_socket::make_pair();
    member_process& member = processes_[node];
    member.socket = std::move(ours);
    member.program = !url.program.empty() ? url.program
                     : !o.program.empty() ? o.program
                                          : std::string(own_program);
    try {
      member.process = child_process::start(member.program, o.arguments, bootstrap_variable,
                                            std::to_string(theirs.fd()), theirs.fd());
    } catch (const start_failed& e) {
      throw start_failed(node_text(node) + ": " + e.what(), node);
    }
  }
}

control_message membership::expect(node_id node, control kind, const char* what,
                                   time_point deadline) {
  member_process& member = processes_[node];
  const std::string who = node_text(node) + " (\"" + member.program + "\")";
  std::optional<control_message> message = member.socket.receive(deadline);
  if (!message) {
    const auto ended = member.process.wait(clock::now() + std::chrono::milliseconds(200));
    if (ended) {
      throw start_failed(who + " " + *ended +
                             " before it joined the job; is it a farcall program " +
                             "that makes a farcall::job, or calls farcall::serve_if_target(), " +
                             "early in main()?",
                         node);
    }
    throw start_failed(who + " did not " + what +
                           " in time; is it a farcall program that makes a " +
                           "farcall::job early in main()? (job_options::start_timeout)",
                       node);
  }
  if (message->kind == control::refused) {
    byte_reader r(message->body, "a target's refusal");
    throw start_failed(who + " cannot join: " + r.text(), node);
  }
  if (message->kind != kind) {
    throw start_failed(
        who + " sent something else than expected; is it built with another farcall?", node);
  }
  return std::move(*message);
}

void membership::greet(node_id node, const membership_options& o,
                       const std::vector<node_memory>& memory, time_point deadline) {
  (void)expect(node, control::present, "report", deadline);
  control_socket& socket = processes_[node].socket;
  bool sent = true;
  for (node_id of = 0; of < memory.size(); ++of) {
    byte_writer w;
    w.number(of);
    w.number(std::uint64_t{memory[of].home.size()});
    w.number(static_cast<std::uint32_t>(memory[of].windows.size()));
    std::vector<int> files{memory[of].home.fd()};
    for (const segment& window : memory[of].windows) {
      w.number(std::uint64_t{window.size()});
      files.push_back(window.fd());
    }
    sent = sent && socket.send(control::memory, w.bytes(), files);
  }
  const target_url& url = o.targets[node - 1];
  byte_writer w;
  w.number(wire_version);
  w.number(node);
  w.number(static_cast<std::uint32_t>(memory.size()));
  w.number(o.lane_bytes);
  w.number(url.workers);
  w.number(url.cpu ? static_cast<std::int32_t>(*url.cpu) : -1);
  w.text(url.name.empty() ? node_name(node) : url.name);
  w.text(url.scheme);
  w.block(o.settings);
  sent = sent && socket.send(control::hello, w.bytes());
  // A target that has gone is reported by the next expect(), with its exit status.
  if (!sent) (void)expect(node, control::joined, "join", deadline);
}

void membership::take_card(node_id node, time_point deadline) {
  const control_message message = expect(node, control::joined, "join", deadline);
  try {
    card c = decode_card(message.body);
    if (c.id != node) throw malformed_message("its card bears another number");
    cards_[node] = std::move(c);
  } catch (const error& e) {
    throw start_failed(
        node_text(node) + " (\"" + processes_[node].program + "\") cannot join: " + e.what(), node);
  }
}

void membership::spread_cards() {
  for (node_id to = 1; to < processes_.size(); ++to) {
    for (const card& c : cards_)
      processes_[to].socket.send(control::member, encode(c));
    processes_[to].socket.send(control::start);
  }
}

void membership::watch_targets() {
  for (;;) {
    std::vector<pollfd> watched{{stop_signal_.get(), POLLIN, 0}};
    std::vector<node_id> whose{host_id};
    for (node_id node = 1; node < processes_.size(); ++node) {
      const member_process& member = processes_[node];
      if (member.failed) continue;
      const int end = member.process.end_fd() >= 0 ? member.process.end_fd() : member.socket.fd();
      watched.push_back({end, POLLIN, 0});
      whose.push_back(node);
    }
    if (::poll(watched.data(), watched.size(), -1) < 0) continue;
    if (watched[0].revents != 0) return;
    for (std::size_t i = 1; i < watched.size(); ++i) {
      if (watched[i].revents == 0) continue;
      const node_id node = whose[i];
      processes_[node].failed = true;
      const auto ended = processes_[node].process.wait(clock::now() + std::chrono::seconds(1));
      const std::string why = node_text(node) + " (process " +
                              std::to_string(processes_[node].process.pid()) + ") " +
                              ended.value_or("closed its control socket");
      events_.node_failed(node, why);
      byte_writer w;
      w.number(node);
      w.text(why);
      for (node_id other = 1; other < processes_.size(); ++other) {
        // A target that does not read its socket must not keep us from watching the others.
        if (!processes_[other].failed) {
          processes_[other].socket.try_send(control::node_failed, w.bytes());
        }
      }
    }
  }
}

void membership::shut_down() {
  if (is_shut_down_) return;
  is_shut_down_ = true;
  stop_watching();
  for (member_process& member : processes_) {
    if (member.socket.fd() >= 0 && !member.failed) member.socket.send(control::shut_down);
  }
  const time_point deadline = clock::now() + stop_timeout_;
  for (node_id node = 1; node < processes_.size(); ++node) {
    member_process& member = processes_[node];
    if (member.process.pid() == 0 || member.process.wait(deadline)) continue;
    if (!cards_.empty()) {
      log::warning(node_text(node) + " did not finish within " +
                   std::to_string(stop_timeout_.count()) + " ms and is killed");
    }
    member.process.kill();
  }
}

// ---- target -------------------------------------------------------------------------------------

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

  std::unique_ptr<membership> made(new membership);
  made->to_host_ = control_socket(unique_fd(fd));
  control_socket& host = made->to_host_;
  host.send(control::present);
  try {
    std::vector<node_memory> memory;
    for (;;) {
      std::optional<control_message> message = host.receive(time_point::max());
      // The host went away while we started; there is nobody to tell.
      if (!message) ::_exit(1);
      byte_reader r(message->body, "a control message");
      if (message->kind == control::memory) {
        if (r.number<node_id>() != memory.size()) throw malformed_message("nodes out of order");
        const auto home_bytes = r.number<std::uint64_t>();
        const auto windows = r.number<std::uint32_t>();
        if (windows == 0 || message->files.size() != windows + 1U) {
          throw malformed_message("a node's memory came without its descriptors");
        }
        node_memory m;
        m.home = segment::map(std::move(message->files[0]), home_bytes);
        for (std::uint32_t i = 0; i < windows; ++i) {
          m.windows.push_back(
              segment::map(std::move(message->files[i + 1]), r.number<std::uint64_t>()));
        }
        memory.push_back(std::move(m));
      } else if (message->kind == control::hello) {
        if (r.number<std::uint32_t>() != wire_version) {
          throw error("the host is built with another version of farcall");
        }
        made->self_ = r.number<node_id>();
        if (r.number<std::uint32_t>() != memory.size() || made->self_ == host_id ||
            made->self_ >= memory.size()) {
          throw malformed_message("the host's greeting is inconsistent");
        }
        const auto lane_bytes = r.number<std::uint32_t>();
        const auto workers = r.number<std::uint32_t>();
        if (const auto cpu = r.number<std::int32_t>(); cpu >= 0) pin_to(static_cast<unsigned>(cpu));
        const std::string name = r.text();
        const std::string scheme = r.text();
        const auto settings = r.block();
        made->settings_.assign(settings.begin(), settings.end());
        made->set_up(std::exchange(memory, {}), program, lane_bytes, name, scheme, workers);
        host.send(control::joined, encode(made->cards_[made->self_]));
      } else if (message->kind == control::member) {
        card c = decode_card(message->body);
        const node_id node = c.id;
        if (node != made->self_) made->cards_.at(node) = std::move(c);
      } else if (message->kind == control::start) {
        break;
      } else {
        throw malformed_message("the host sent something unexpected while we joined");
      }
    }
    made->find_ways();
  } catch (const std::exception& e) {
    byte_writer w;
    w.text(std::string(e.what()).substr(0, byte_reader::longest_text));
    host.send(control::refused, w.bytes());
    throw;
  }
  return made;
}

void membership::watch_host() {
  for (;;) {
    pollfd watched[2] = {{stop_signal_.get(), POLLIN, 0}, {to_host_.fd(), POLLIN, 0}};
    if (::poll(watched, 2, -1) < 0) continue;
    if (watched[0].revents != 0) return;
    std::optional<control_message> message;
    try {
      message = to_host_.receive(clock::now());
      if (message && message->kind == control::node_failed) {
        byte_reader r(message->body, "news of a node");
        const auto node = r.number<node_id>();
        const std::string why = r.text();
        if (node < cards_.size() && node != self_) events_.node_failed(node, why);
      } else if (message && message->kind == control::shut_down) {
        events_.shut_down();
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
