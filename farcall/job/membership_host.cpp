#include <farcall/base/error.hpp>
#include <farcall/base/node_table.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/job/child_launcher.hpp>
#include <farcall/job/descriptor_limit.hpp>
#include <farcall/job/existing_launcher.hpp>
#include <farcall/job/host_membership.hpp>
#include <farcall/job/rank_launcher.hpp>
#include <farcall/transport/process.hpp>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/eventfd.h>

/// How the host gets its targets.
namespace farcall {
namespace {

/// Before anything is started.
void require_numbers(std::size_t nodes) {
  if (nodes <= most_node_numbers) return;
  throw start_failed("a job has at most " + std::to_string(most_node_numbers) +
                     " nodes, the host among them, and this one would have " +
                     std::to_string(nodes) +
                     "; start fewer processes, each with more workers or threads, or several jobs");
}

std::string node_name(node_id node) {
  return node == host_id ? "host" : "node " + std::to_string(node);
}

/// How a kind of message looks that comes from a machine with the other byte order.
control other_byte_order(control kind) {
  return static_cast<control>(__builtin_bswap32(static_cast<std::uint32_t>(kind)));
}

/// Targets that one launcher starts together.
struct launch_group {
  launcher* from;
  std::vector<wanted_target> wanted;
};

void add_wanted(std::vector<launch_group>& all, launcher& from, const wanted_target& wanted) {
  auto at = std::ranges::find(all, &from, &launch_group::from);
  if (at == all.end()) at = all.insert(all.end(), {&from, {}});
  at->wanted.push_back(wanted);
}

bool is_emulated(const target_url& target) {
  return std::any_of(target.command.begin(), target.command.end(), [](const std::string& word) {
    return word.substr(word.rfind('/') + 1).starts_with("qemu-");
  });
}

const transport_entry& row_of(std::span<const transport_entry> rows, const target_url& url) {
  const transport_entry* const row = find_transport(rows, url.scheme);
  if (row == nullptr) throw setting_error("there is no transport \"" + url.scheme + "\"");
  return *row;
}

/// The row of processes of this machine: what existing ones are.
const transport_entry& row_of_processes(std::span<const transport_entry> rows) {
  const auto row = std::find_if(rows.begin(), rows.end(), [](const transport_entry& r) {
    return !r.example.empty() && r.make && !r.make_launcher;
  });
  if (row == rows.end()) throw setting_error("there is no transport between processes");
  return *row;
}

/// A node's memory, and the descriptors that go with it.
bool send_memory(control_socket& to, node_id node, const memory_files& of, time_point deadline) {
  std::vector<int> files;
  for (const unique_fd& file : of.files)
    files.push_back(file.get());
  const messages::memory m{node, of.receive_segment_bytes, of.window_bytes};
  return messages::send(to, m, deadline, files);
}

memory_files sizes_of(const node_memory& memory) {
  memory_files all;
  all.receive_segment_bytes = memory.receive_segment.size();
  for (const segment& window : memory.windows)
    all.window_bytes.push_back(window.size());
  return all;
}

/// The host maps them, and passes them on when somebody asks.
memory_files take_files(node_memory& memory) {
  memory_files all = sizes_of(memory);
  all.files.push_back(memory.receive_segment.take_file());
  for (segment& window : memory.windows)
    all.files.push_back(window.take_file());
  return all;
}

/// The same for a node that uses its own, too.
memory_files copy_files(const node_memory& memory) {
  memory_files all = sizes_of(memory);
  const auto copy = [&all](const segment& s) {
    all.files.emplace_back(::fcntl(s.fd(), F_DUPFD_CLOEXEC, 0));
    if (!all.files.back()) throw_system_error("keeping the descriptors of memory", errno);
  };
  copy(memory.receive_segment);
  for (const segment& window : memory.windows)
    copy(window);
  return all;
}

} // namespace

host_membership::host_membership(membership_options o, const program_identity& program)
    : options_(std::move(o)), survives_(options_.survives), program_(program),
      output_(ends_for_lines(), options_.labels) {
  require_numbers(std::size_t{ranks()} + options_.targets.size() + options_.existing.size() + 1);
  if (options_.group) {
    target_url url;
    url.scheme = row_of_processes(options_.transports).scheme; // of a port, once it has come there
    url.workers = options_.workers;
    options_.targets.insert(options_.targets.begin(), ranks(), url);
  }
  const std::size_t nodes = options_.targets.size() + options_.existing.size() + 1;
  const std::size_t capacity = node_capacity(nodes);
  roster_ = roster(host_id, nodes, capacity);
  targets_ = node_table<target>(capacity);
  stop_timeout_ = options_.stop_timeout;
  settings_ = options_.settings;
  for (std::size_t i = 0; i < options_.existing.size(); ++i) {
    target_url url;
    url.scheme = row_of_processes(options_.transports).scheme;
    url.workers = options_.workers;
    options_.targets.push_back(std::move(url));
  }
  look_around_ = unique_fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!look_around_) throw_system_error("watching the nodes (descriptor limit?)", errno);
  look_around_.close_on_fork();
  site_ = {options_.targets,           options_.program, options_.arguments, options_.access,
           options_.heartbeat_timeout, &output_,         options_.labels,    ranks()};
}

host_membership::~host_membership() {
  stop_watching();
  shut_down([] {});
  // What is left on others' threads uses the rest.
  drop_transports();
  targets_ = node_table<target>();
}

void host_membership::start(time_point deadline) {
  require_descriptors(nodes() - 1, options_.labels);
  gather(deadline);
  start_processes(deadline);
  make_memories();
  node_memory own = std::move(mapped_.front());
  mapped_.erase(mapped_.begin());
  targets_.for_each([&](node_id node, target& t) {
    if (t.process) greet(node, t, deadline);
  });
  part told = own_part();
  set_up(std::move(own), options_.transports, told, program_);
  told.forget_setups();
  for (node_memory& of : std::exchange(mapped_, {}))
    take_memory(std::move(of));
  host_nodes();
  targets_.for_each([&](node_id node, target& t) {
    if (t.process) roster_.add(receive_card(node, t, deadline));
  });
  targets_.for_each([&](node_id node, target& t) {
    if (t.process) let_start(node, t, deadline);
  });
  choose_routes();
  next_node_ = static_cast<node_id>(nodes());
  is_started_ = true;
}

launcher& host_membership::launcher_of(const transport_entry& row) {
  if (!row.make_launcher) {
    if (!children_) children_ = std::make_unique<child_launcher>(site_);
    return *children_;
  }
  auto& made = launchers_[row.scheme];
  if (!made) made = row.make_launcher(site_);
  return *made;
}

void host_membership::gather(time_point deadline) {
  if (!options_.group) return;
  std::vector<rank_launcher::open_port> ports;
  for (const transport_entry& row : options_.transports) {
    if (!row.connect_port) continue;
    if (std::unique_ptr<port> opened = launcher_of(row).open_port()) {
      ports.push_back({row.scheme, std::move(opened)});
    }
  }
  rank_launcher group(*options_.group, std::move(ports), deadline);
  for (node_id node = 1; node <= ranks(); ++node) {
    rank_launcher::rank come = group.wait_for(node, deadline);
    target& t = *targets_.find_or_make(node);
    t.url = options_.targets[node - 1];
    t.url.scheme = come.scheme;
    take_process(t, std::move(come.process));
    t.is_existing = true;
    options_.targets[node - 1] = t.url;
  }
  // What no node has come by, or is started by, costs all of them a transport.
  std::erase_if(launchers_, [this](const auto& of) {
    return std::none_of(options_.targets.begin(), options_.targets.end(),
                        [&](const target_url& url) { return url.scheme == of.first; });
  });
}

void host_membership::start_processes(time_point deadline) {
  const std::size_t first_existing = nodes() - options_.existing.size();
  existing_ = std::make_unique<existing_launcher>(std::move(options_.existing));
  std::vector<launch_group> launches;
  for (node_id node = 1; node < nodes(); ++node) {
    target& t = *targets_.find_or_make(node);
    if (t.process) continue; // it has come by itself
    t.url = options_.targets[node - 1];
    const transport_entry& row = row_of(options_.transports, t.url);
    if (row.host) continue;
    t.is_existing = node >= first_existing;
    add_wanted(launches, t.is_existing ? *existing_ : launcher_of(row), {node, &t.url});
  }
  for (const launch_group& l : launches) {
    auto started = l.from->start_all(l.wanted, deadline);
    for (std::size_t i = 0; i < started.size(); ++i)
      take_process(*targets_.find(l.wanted[i].node), std::move(started[i]));
  }
}

void host_membership::take_process(target& t, std::unique_ptr<target_process> process) {
  t.process = std::move(process);
  t.maps_memory = t.process->is_near() && row_of(options_.transports, t.url).maps_memory;
  t.process->socket().on_arrival([this] { look_around(); });
}

void host_membership::make_memories() {
  memory_sizes sizes{options_.lane_bytes, options_.heap_bytes, nodes(), false};
  sizes.is_emulated = std::any_of(options_.targets.begin(), options_.targets.end(), is_emulated);
  mapped_.push_back(make_memory(host_id, sizes));
  own_memory_ = copy_files(mapped_.front());
  targets_.for_each([&](node_id node, target& t) {
    if (!t.maps_memory) return;
    mapped_.push_back(make_memory(node, sizes));
    t.memory = take_files(mapped_.back());
  });
}

void host_membership::throw_not_joined(node_id node, target& t, const char* what) {
  throw start_failed(who(node, t) + t.process->silence_text(what), node);
}

control_message host_membership::expect(node_id node, target& t, control kind, const char* what,
                                        time_point deadline) {
  std::optional<control_message> message = t.process->socket().receive(deadline);
  if (!message) throw_not_joined(node, t, what);
  if (message->kind == control::refused) {
    throw start_failed(
        who(node, t) + " cannot join: " + messages::refused::decode(message->body).why, node);
  }
  if (message->kind == control::ended) {
    const auto ended = messages::ended::decode(message->body);
    // It has ended by itself and said nothing.
    const bool may_be_another = kind == control::present && ended.code >= 0;
    throw start_failed(who(node, t) + " did not join: " + ended.how +
                           (may_be_another ? "; does the server run a farcall program that makes a "
                                             "farcall::job, or calls farcall::serve_if_target(), "
                                             "early in main()?"
                                           : ""),
                       node);
  }
  if (message->kind == other_byte_order(kind)) {
    throw start_failed(who(node, t) +
                           " cannot join: it has the other byte order; farcall needs one " +
                           "byte order in a job",
                       node);
  }
  if (message->kind != kind) {
    throw start_failed(
        who(node, t) + " sent something else than expected; is it built with another " + "farcall?",
        node);
  }
  return std::move(*message);
}

void host_membership::greet(node_id node, target& t, time_point deadline) {
  const control_message present = expect(node, t, control::present, "report", deadline);
  try {
    (void)messages::present::decode(present.body);
    t.process->note_joined();
  } catch (const error& e) {
    throw start_failed(who(node, t) + " cannot join: " + e.what(), node);
  }
  control_socket& socket = t.process->socket();
  bool sent = true;
  for (const auto& [scheme, made] : launchers_) {
    // Its number may have been that of one which did not join, from another place.
    const node_id started_by_it = scheme == t.url.scheme || node <= ranks() ? node : no_node;
    sent = sent &&
           messages::send(socket, messages::setup{scheme, made->setup(started_by_it)}, deadline);
  }
  if (t.maps_memory) {
    sent = sent && send_memory(socket, host_id, own_memory_, deadline) &&
           send_memory(socket, node, t.memory, deadline);
  }
  const target_url& url = t.url;
  messages::hello m;
  m.node = node;
  m.nodes = static_cast<std::uint32_t>(std::max<std::size_t>(nodes(), std::size_t{node} + 1));
  m.capacity = static_cast<std::uint32_t>(capacity());
  m.lane_bytes = options_.lane_bytes;
  m.heap_bytes = options_.heap_bytes;
  m.workers = url.workers;
  m.cpu = url.cpu;
  m.name = url.name.empty() ? node_name(node) : url.name;
  m.scheme = url.scheme;
  m.settings = options_.settings;
  sent = sent && messages::send(socket, m, deadline);
  // A target that has gone, or hangs, is reported by expect(), with its exit status.
  if (!sent) (void)expect(node, t, control::joined, "join", deadline);
}

host_membership::part host_membership::own_part() {
  part own;
  own.lane_bytes = options_.lane_bytes;
  own.name = node_name(host_id);
  own.scheme = "self";
  if (options_.group) own.group = place_in(*options_.group);
  for (const auto& [scheme, made] : launchers_) {
    own.setups[scheme] = made->setup(host_id);
    own.launchers[scheme] = made.get();
  }
  return own;
}

void host_membership::host_nodes() {
  targets_.for_each([&](node_id node, target& t) {
    const transport_entry& row = row_of(options_.transports, t.url);
    if (!row.host) return;
    try {
      t.hosted =
          row.host(t.url, {self(), node, options_.lane_bytes, options_.heap_bytes, doorbells()});
    } catch (const error& e) {
      throw start_failed(node_text(node) + ": " + e.what(), node);
    }
    const card& mine = roster_.card_of(self());
    card c;
    c.id = node;
    c.owner = self();
    c.name = t.url.name.empty() ? node_name(node) : t.url.name;
    c.host = mine.host;
    c.transport = t.url.scheme;
    c.pid = mine.pid;
    c.workers = t.url.workers;
    c.build = program_.build;
    c.key_digest = program_.key_digest;
    c.lane_bytes = options_.lane_bytes;
    t.hosted->describe_node(c);
    roster_.add(std::move(c));
  });
}

card host_membership::receive_card(node_id node, target& t, time_point deadline) {
  const control_message message = expect(node, t, control::joined, "join", deadline);
  try {
    card c = messages::joined::decode(message.body).mine;
    if (c.id != node) throw malformed_message("its card bears another number");
    if (is_hosted(c)) throw malformed_message("its card says that it is no process");
    // The host would take the end of that process for the end of the target.
    if (const auto text = t.process->replacement_text(c.pid))
      throw start_failed(node_text(node) + *text, node);
    return c;
  } catch (const start_failed&) {
    throw;
  } catch (const error& e) {
    throw start_failed(who(node, t) + " cannot join: " + e.what(), node);
  }
}

/// It knows the host then, and gets to know others when one of them uses the other.
void host_membership::let_start(node_id node, target& t, time_point deadline) {
  control_socket& socket = t.process->socket();
  if (!messages::send(socket, messages::member{roster_.card_of(host_id), true}, deadline) ||
      !messages::send(socket, messages::start{}, deadline)) {
    constexpr const char* what = "take what it has to know about the host";
    // Whoever has seen it end has said why.
    (void)expect(node, t, control::start, what, clock::now());
    throw_not_joined(node, t, what);
  }
}

// ---- adding -------------------------------------------------------------------------------------

launcher& host_membership::launcher_for_more(const transport_entry& row) {
  if (row.host) {
    throw setting_error("targets \"" + row.scheme + "\" live in the host's process, and can only " +
                        "be there from the start");
  }
  // All nodes have, or have not, a transport for it since the start.
  if (row.make_launcher && !launchers_.contains(row.scheme)) {
    throw setting_error("a job that has started without targets \"" + row.scheme +
                        "\" cannot add any; start it with one of them");
  }
  return launcher_of(row);
}

std::vector<node_id> host_membership::add(const std::vector<target_url>& urls,
                                          time_point deadline) {
  try {
    return start_more(urls, deadline);
  } catch (const start_failed&) {
    throw;
  } catch (const setting_error&) {
    throw;
  } catch (const std::exception& e) {
    throw start_failed(std::string("the target cannot be added: ") + e.what());
  }
}

std::vector<node_id> host_membership::start_more(const std::vector<target_url>& urls,
                                                 time_point deadline) {
  const std::lock_guard guard(adding_mutex_);
  if (urls.size() > capacity() - next_node_) {
    throw start_failed("the job has no number left for another node: it has given " +
                       std::to_string(next_node_) + " of " + std::to_string(capacity()) +
                       ", and none is given twice; start a new job");
  }
  require_descriptors(urls.size(), options_.labels);
  memory_sizes sizes{options_.lane_bytes, options_.heap_bytes, capacity(), false};
  sizes.is_emulated = std::any_of(urls.begin(), urls.end(), is_emulated);
  joiners all;
  std::vector<launch_group> launches;
  for (const target_url& url : urls) {
    const auto node = static_cast<node_id>(next_node_ + all.size());
    all.emplace_back(node, std::make_unique<target>());
    target& t = *all.back().second;
    t.url = url;
    add_wanted(launches, launcher_for_more(row_of(options_.transports, url)), {node, &t.url});
  }
  for (const launch_group& l : launches) {
    auto started = l.from->start_all(l.wanted, deadline);
    for (std::size_t i = 0; i < started.size(); ++i)
      take_process(*all[l.wanted[i].node - next_node_].second, std::move(started[i]));
  }
  std::vector<node_memory> memories;
  for (auto& [node, t] : all) {
    if (!t->maps_memory) continue;
    memories.push_back(make_memory(node, sizes));
    t->memory = take_files(memories.back());
  }
  std::vector<card> cards;
  for (auto& [node, t] : all)
    greet(node, *t, deadline);
  for (auto& [node, t] : all)
    cards.push_back(receive_card(node, *t, deadline));
  for (auto& [node, t] : all)
    let_start(node, *t, deadline);
  std::vector<node_id> nodes;
  for (const auto& [node, t] : all)
    nodes.push_back(node);
  take_in(all, std::move(cards), std::move(memories));
  return nodes;
}

void host_membership::take_in(joiners& all, std::vector<card> cards,
                              std::vector<node_memory> memories) {
  // From here on something may know the numbers, so that nobody else gets them.
  next_node_ += static_cast<node_id>(all.size());
  for (node_memory& of : memories)
    take_memory(std::move(of));
  for (const card& c : cards) {
    const route found = find_route(c);
    if (found.via == nullptr) {
      throw start_failed(node_text(c.id) + " cannot be reached: " + found.reason, c.id);
    }
  }
  // Their cards first: a target may ask for others as soon as it is watched. Their routes last:
  // once a node can be called, it is watched.
  for (card& c : cards)
    roster_.add(std::move(c));
  for (auto& [node, t] : all)
    targets_.publish(node, std::move(t));
  choose_routes();
  roster_.grow(next_node_);
  look_around();
}

const target_url& host_membership::url_of(node_id node) const {
  const target* const t = targets_.find(node);
  if (t == nullptr) throw error("there is no target " + std::to_string(node), node);
  if (t->hosted || t->is_existing) {
    throw error(node_text(node) + " cannot be started again: it " +
                    (t->hosted ? "lives in the host's process"
                               : "was not started by the job, but existed before"),
                node);
  }
  return t->url;
}

std::unique_ptr<membership> membership::launch(membership_options o,
                                               const program_identity& program) {
  settings::check(settings::row("lane-bytes"), "the size of a lane", std::to_string(o.lane_bytes));
  open_standard_descriptors();
  const time_point deadline = clock::now() + o.start_timeout;
  std::unique_ptr<host_membership> made;
  try {
    made = std::make_unique<host_membership>(std::move(o), program);
    made->start(deadline);
  } catch (const start_failed&) {
    // Here and not by unwinding: when nobody catches the exception, there is none.
    made.reset();
    throw;
  } catch (const std::exception& e) {
    made.reset();
    throw start_failed(std::string("the job cannot be started: ") + e.what());
  }
  return made;
}

} // namespace farcall
