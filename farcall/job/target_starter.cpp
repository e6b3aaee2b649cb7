// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/job/descriptor_limit.hpp>
#include <farcall/job/joining.hpp>
#include <farcall/job/make_memory.hpp>
#include <farcall/job/rank_launcher.hpp>
#include <farcall/job/target_starter.hpp>
#include <farcall/transport/hosted_node.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/self/entry.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace farcall {

constinit std::size_t places_of_new_jobs = max_node_places;

namespace {

/// Throws start_failed if the job would have too many nodes. Called before any process is started.
void require_numbers(std::size_t nodes) {
  if (nodes <= max_node_places) return;
  throw start_failed("a job has at most " + std::to_string(max_node_places) +
                     " nodes, the host among them, and this one would have " +
                     std::to_string(nodes) +
                     "; start fewer processes, each with more workers or threads, or several jobs");
}

std::string node_name(node_id node) {
  return node == host_id ? "host" : "node " + std::to_string(node);
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

/// Returns the row of the transport that connects processes of one machine. Targets that existed
/// before the job use this transport.
const transport_entry& row_of_processes(std::span<const transport_entry> rows) {
  const auto row = std::find_if(rows.begin(), rows.end(), [](const transport_entry& r) {
    return !r.example.empty() && r.make && !r.make_launcher;
  });
  if (row == rows.end()) throw setting_error("there is no transport between processes");
  return *row;
}

} // namespace

target_starter::target_starter(site s, program_identity program)
    : options_(s.options), members_(s.members), roster_(s.members.roster()), targets_(s.targets),
      on_arrival_(std::move(s.on_arrival)), program_(std::move(program)), launchers_(site_) {
  require_numbers(std::size_t{ranks()} + options_.targets.size() + options_.existing.size() + 1);
  // For processes of the group, this URL is temporary. When such a process connects to a port, its
  // URL gets the scheme of this port's transport.
  if (ranks() != 0) {
    options_.targets.insert(options_.targets.begin(), ranks(), url_of_process(options_.workers));
  }
  const std::size_t nodes = options_.targets.size() + options_.existing.size() + 1;
  if (!options_.existing.empty()) {
    options_.targets.insert(options_.targets.end(), options_.existing.size(),
                            url_of_process(options_.workers));
  }
  roster_ = roster(host_id, nodes, options_.node_places);
  targets_ = node_table<target>(roster_.capacity());
  site_ = {options_.targets,           options_.program, options_.arguments,      options_.access,
           options_.heartbeat_timeout, &s.output,        options_.takes_output(), ranks()};
}

target_url target_starter::url_of_process(std::uint32_t workers) const {
  target_url url;
  url.scheme = row_of_processes(options_.transports).scheme;
  url.workers = workers;
  return url;
}

void target_starter::start(time_point deadline) {
  require_descriptors(roster_.size() - 1, options_.takes_output());
  gather(deadline);
  start_processes(deadline);
  make_memories();
  node_memory own = std::move(mapped_.front());
  mapped_.erase(mapped_.begin());
  targets_.for_each([&](node_id node, target& t) {
    if (t.process) greet(node, t, deadline);
  });
  own_part told = describe_own_part();
  members_.set_up(std::move(own), options_.transports, told, program_);
  told.forget_setups();
  for (node_memory& of : std::exchange(mapped_, {}))
    members_.take_memory(std::move(of));
  host_nodes();
  targets_.for_each([&](node_id node, target& t) {
    if (t.process) roster_.add(joining(node, *t.process, deadline).receive_card());
  });
  const card& host = roster_.card_of(host_id);
  targets_.for_each([&](node_id node, target& t) {
    if (t.process) joining(node, *t.process, deadline).let_start(host);
  });
  members_.choose_routes();
  numbers_.emplace(roster_.size(), roster_.capacity());
}

void target_starter::gather(time_point deadline) {
  if (!options_.group) return;
  std::vector<rank_launcher::open_port> ports;
  for (const transport_entry& row : options_.transports) {
    if (!row.connect_port) continue;
    if (std::unique_ptr<port> opened = launchers_.of(row).open_port()) {
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
  // Destroy the launchers whose transports no target uses, because all nodes would have to make a
  // transport for each of these launchers.
  launchers_.keep_used(options_.targets);
}

void target_starter::start_processes(time_point deadline) {
  const std::size_t first_existing = roster_.size() - options_.existing.size();
  existing_.emplace(std::move(options_.existing));
  launch_batch batch;
  for (node_id node = 1; node < roster_.size(); ++node) {
    target& t = *targets_.find_or_make(node);
    if (t.process) continue; // skip processes of the group, which have been started by a launcher
    t.url = options_.targets[node - 1];
    const transport_entry& row = row_of(options_.transports, t.url);
    if (row.host) continue;
    t.is_existing = node >= first_existing;
    launcher& from = t.is_existing ? static_cast<launcher&>(*existing_) : launchers_.of(row);
    batch.add(from, node, t.url);
  }
  batch.start(deadline, [this](node_id node, std::unique_ptr<target_process> started) {
    take_process(*targets_.find(node), std::move(started));
  });
}

void target_starter::take_process(target& t, std::unique_ptr<target_process> process) {
  t.process = std::move(process);
  t.maps_memory = t.process->is_near() && row_of(options_.transports, t.url).maps_memory;
  t.process->socket().on_arrival(on_arrival_);
}

void target_starter::make_memories() {
  memory_sizes sizes{options_.lane_bytes, options_.heap_bytes, roster_.size(), false};
  sizes.is_emulated = std::any_of(options_.targets.begin(), options_.targets.end(), is_emulated);
  mapped_.push_back(make_memory(host_id, sizes));
  own_memory_ = memory_files::copy(mapped_.front());
  targets_.for_each([&](node_id node, target& t) {
    if (!t.maps_memory) return;
    mapped_.push_back(make_memory(node, sizes));
    t.memory = memory_files::take(mapped_.back());
  });
}

void target_starter::greet(node_id node, target& t, time_point deadline) {
  joining with(node, *t.process, deadline);
  with.await_presence();
  bool is_sent = true;
  for (const auto& [scheme, made] : launchers_.of_rows()) {
    // Each launcher gets the number of this target only if it has started the target, and otherwise
    // no_node. Another launcher may know the same number from a target that has never joined. Only
    // numbers of processes of the group go to all launchers.
    const node_id started_by_it = scheme == t.url.scheme || node <= ranks() ? node : no_node;
    is_sent = is_sent && with.send(messages::setup{scheme, made->setup(started_by_it)});
  }
  if (t.maps_memory) {
    is_sent = is_sent && with.send(own_memory_.message(host_id), own_memory_.descriptors()) &&
              with.send(t.memory.message(node), t.memory.descriptors());
  }
  const target_url& url = t.url;
  messages::hello m;
  m.node = node;
  m.nodes = static_cast<std::uint32_t>(std::max<std::size_t>(roster_.size(), place_of(node) + 1));
  m.capacity = static_cast<std::uint32_t>(roster_.capacity());
  m.lane_bytes = options_.lane_bytes;
  m.heap_bytes = options_.heap_bytes;
  m.workers = url.workers;
  m.cpu = url.cpu;
  m.name = url.name.empty() ? node_name(node) : url.name;
  m.scheme = url.scheme;
  m.settings = options_.settings;
  // If a message cannot be sent, call receive_card(). It throws an exception that says whether the
  // target has ended, with its exit status, or hangs.
  if (!is_sent || !with.send(m)) (void)with.receive_card();
}

own_part target_starter::describe_own_part() {
  own_part own;
  own.lane_bytes = options_.lane_bytes;
  own.name = node_name(host_id);
  own.scheme = self::scheme;
  if (options_.group) own.group = place_in(*options_.group);
  for (const auto& [scheme, made] : launchers_.of_rows()) {
    own.setups[scheme] = made->setup(host_id);
    own.launchers[scheme] = made.get();
  }
  return own;
}

void target_starter::host_nodes() {
  targets_.for_each([&](node_id node, target& t) {
    const transport_entry& row = row_of(options_.transports, t.url);
    if (!row.host) return;
    try {
      auto hosted = row.host(
          t.url, {host_id, node, options_.lane_bytes, options_.heap_bytes, members_.doorbells()});
      t.hosted = hosted.get();
      members_.take_hosted(node, std::move(hosted));
    } catch (const error& e) {
      throw start_failed(node_text(node) + ": " + e.what(), node);
    }
    const card& mine = roster_.card_of(host_id);
    card c;
    c.id = node;
    c.owner = host_id;
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

// ---- adding -------------------------------------------------------------------------------------

namespace {

/// Calls `start`. Turns exceptions of other types than start_failed and setting_error into
/// start_failed.
template <class Start>
auto as_start_failure(const Start& start) {
  try {
    return start();
  } catch (const start_failed&) {
    throw;
  } catch (const setting_error&) {
    throw;
  } catch (const std::exception& e) {
    throw start_failed(std::string("the target cannot be added: ") + e.what());
  }
}

} // namespace

std::vector<node_id> target_starter::add(const std::vector<target_url>& urls, time_point deadline,
                                         const joined_function& joined) {
  return as_start_failure([&] { return start_more(urls, nullptr, deadline, joined); });
}

node_id target_starter::add_existing(unique_fd socket, std::uint32_t workers, time_point deadline,
                                     const joined_function& joined) {
  return as_start_failure([&] {
    std::vector<unique_fd> sockets;
    sockets.push_back(std::move(socket));
    existing_launcher existing(std::move(sockets));
    return start_more({url_of_process(workers)}, &existing, deadline, joined).front();
  });
}

std::vector<node_id> target_starter::start_more(const std::vector<target_url>& urls,
                                                existing_launcher* existing, time_point deadline,
                                                const joined_function& joined) {
  const std::lock_guard guard(adding_mutex_);
  const std::vector<node_id> numbers = find_numbers(urls.size(), deadline);
  require_descriptors(urls.size(), options_.takes_output());
  memory_sizes sizes{options_.lane_bytes, options_.heap_bytes,
                     planned_nodes(site_.targets.size() + 1), false};
  sizes.is_emulated = std::any_of(urls.begin(), urls.end(), is_emulated);
  joiners all;
  launch_batch batch;
  for (const target_url& url : urls) {
    const node_id node = numbers[all.size()];
    all.push_back(node_table<target>::make(node));
    target& t = all.back()->value;
    t.url = url;
    t.is_existing = existing != nullptr;
    launcher& from = existing != nullptr ? static_cast<launcher&>(*existing)
                                         : launchers_.of_added(row_of(options_.transports, url));
    batch.add(from, node, t.url);
  }
  batch.start(deadline, [&](node_id node, std::unique_ptr<target_process> started) {
    const auto at = std::find(numbers.begin(), numbers.end(), node);
    take_process(all[static_cast<std::size_t>(at - numbers.begin())]->value, std::move(started));
  });
  std::vector<node_memory> memories;
  for (const auto& t : all) {
    if (!t->value.maps_memory) continue;
    memories.push_back(make_memory(t->node(), sizes));
    t->value.memory = memory_files::take(memories.back());
  }
  std::vector<card> cards;
  for (const auto& t : all)
    greet(t->node(), t->value, deadline);
  for (const auto& t : all)
    cards.push_back(joining(t->node(), *t->value.process, deadline).receive_card());
  const card& host = roster_.card_of(host_id);
  for (const auto& t : all)
    joining(t->node(), *t->value.process, deadline).let_start(host);
  // From now on other nodes may know these numbers, so never use the numbers for other nodes, even
  // if this function fails.
  numbers_->give(numbers.size());
  try {
    take_in(all, std::move(cards), std::move(memories), joined);
  } catch (...) {
    // Destroy the targets that were not published, which ends their processes. Their places are
    // then free. The failure detector handles the end of targets that were published.
    for (auto& t : all) {
      if (t == nullptr) continue;
      const node_id node = t->node();
      t.reset();
      numbers_->note_ended(node);
    }
    throw;
  }
  return numbers;
}

std::vector<node_id> target_starter::find_numbers(std::size_t count, time_point deadline) {
  std::vector<node_id> numbers = numbers_->next(count, deadline);
  if (numbers.size() == count) return numbers;
  throw start_failed("the job has no place for " +
                     (count == 1 ? "another node" : std::to_string(count) + " more nodes") + ": " +
                     std::to_string(numbers_->taken()) + " of its " +
                     std::to_string(numbers_->places()) +
                     " places are taken, and a place is free again when its node has ended");
}

void target_starter::take_in(joiners& all, std::vector<card> cards,
                             std::vector<node_memory> memories, const joined_function& joined) {
  for (node_memory& of : memories)
    members_.take_memory(std::move(of));
  for (const card& c : cards) {
    const route found = members_.find_route(c);
    if (found.via == nullptr) {
      throw start_failed(node_text(c.id) + " cannot be reached: " + found.reason, c.id);
    }
  }
  // The order matters. Enter the cards before the targets are watched, because a watched target may
  // ask for other nodes at once. Choose the routes after that, because this makes the nodes
  // callable, and a node may be called only while it is watched.
  for (card& c : cards)
    roster_.add(std::move(c));
  std::vector<node_id> nodes;
  for (auto& t : all) {
    const node_id node = t->node();
    targets_.publish(std::move(t));
    nodes.push_back(node);
  }
  members_.choose_routes(joined);
  for (const node_id node : nodes)
    roster_.grow_to(node);
}

const target_url& target_starter::url_of(node_id node) const {
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

} // namespace farcall
