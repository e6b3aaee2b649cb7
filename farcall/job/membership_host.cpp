#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/job/membership.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/tcp/address.hpp>

#include <algorithm>
#include <tuple>
#include <utility>

#include <poll.h>

/// The host's part: starting targets, watching them, and ending them.
namespace farcall {
namespace {

/// How often the host sees to other things while it waits for its targets to end.
constexpr int look_interval_ms = 1;
/// How often it tries again to tell something to a target that does not read.
constexpr int news_interval = 10;

std::string node_name(node_id node) {
  return node == host_id ? "host" : "node " + std::to_string(node);
}

/// How a kind of message looks that comes from a machine with the other byte order.
control other_byte_order(control kind) {
  return static_cast<control>(__builtin_bswap32(static_cast<std::uint32_t>(kind)));
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words)
    text.append(text.empty() ? "" : " ").append(word);
  return text;
}

bool is_emulated(const target_url& target) {
  return std::any_of(target.command.begin(), target.command.end(), [](const std::string& word) {
    return word.substr(word.rfind('/') + 1).starts_with("qemu-");
  });
}

bool is_remote(const target_url& url) { return url.scheme == "tcp"; }

bool has_memory_here(const target_url& url) { return !is_remote(url) && !is_device(url); }

} // namespace

std::unique_ptr<membership> membership::launch(const membership_options& o,
                                               const program_identity& program) {
  std::unique_ptr<membership> made(new membership);
  const std::size_t nodes = o.targets.size() + 1;
  const time_point deadline = clock::now() + o.start_timeout;
  made->stop_timeout_ = o.stop_timeout;
  made->settings_ = o.settings;

  try {
    made->cards_.resize(nodes);
    made->prepare_network(o);
    const bool any_emulated = std::any_of(o.targets.begin(), o.targets.end(), is_emulated);
    std::vector<node_memory> memory(nodes);
    for (node_id node = 0; node < nodes; ++node) {
      if (node != host_id && !has_memory_here(o.targets[node - 1])) continue;
      memory[node] = make_memory(node, {o.lane_bytes, o.heap_bytes, nodes, any_emulated});
    }
    made->start_targets(o, deadline);
    for (node_id node = 1; node < nodes; ++node) {
      if (!is_device(o.targets[node - 1])) made->greet(node, o, memory, deadline);
    }
    made->set_up(std::move(memory), program, o.lane_bytes, node_name(host_id), "self", 1, "");
    made->make_devices(o, program);
    for (node_id node = 1; node < nodes; ++node) {
      if (made->device_of(node) == nullptr) made->take_card(node, deadline);
    }
    made->spread_cards(deadline);
    made->find_ways();
    made->is_started_ = true;
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

void membership::prepare_network(const membership_options& o) {
  if (std::none_of(o.targets.begin(), o.targets.end(), is_remote)) return;
  identity_ = make_identity(o.access);
  for (const target_url& url : o.targets) {
    if (identity_ || url.plain || !is_remote(url)) continue;
    for (const tcp::socket_address& a : tcp::resolve(tcp::parse_address(url.address, "a server"))) {
      if (a.is_loopback()) continue;
      throw setting_error("without a key only servers at loopback addresses are used; " +
                          url.address + " needs FARCALL_KEY=FILE, certificates, or plain=yes in " +
                          "the URL of a target in a network that you trust");
    }
  }
  target_request request;
  request.credentials = tcp::job_credentials::make(identity_ != nullptr);
  request.liveness = o.liveness;
  network_.emplace(std::move(request));
  reactor_ = std::make_unique<tcp::reactor>("farcall-tcp");
}

void membership::start_remote(node_id node, const target_url& url, time_point deadline) {
  member_process& member = processes_[node];
  member.program = "tcp://" + url.address;
  std::tie(member.socket, member.link) =
      start_remote_target(*reactor_, url, node, *network_, identity_, deadline);
}

void membership::start_targets(const membership_options& o, time_point deadline) {
  processes_.resize(o.targets.size() + 1);
  for (node_id node = 1; node < processes_.size(); ++node) {
    const target_url& url = o.targets[node - 1];
    if (is_device(url)) continue;
    if (is_remote(url)) {
      start_remote(node, url, deadline);
      continue;
    }
    auto [ours, theirs] = control_socket::make_pair();
    member_process& member = processes_[node];
    member.socket = std::move(ours);
    const bool is_command = !url.command.empty();
    const bool is_ours = !is_command && url.program.empty() && o.program.empty();
    member.program = is_command             ? joined(url.command)
                     : is_ours              ? own_program()
                     : !url.program.empty() ? url.program
                                            : o.program;
    try {
      // Under its own name, or this program could be another by now.
      const std::string file = is_command ? find_command(url.command.front())
                               : is_ours  ? running_program
                                          : member.program;
      member.process =
          child_process::start(file, is_command ? url.command : o.arguments, bootstrap_variable,
                               std::to_string(theirs.fd()), theirs.fd());
    } catch (const start_failed& e) {
      throw start_failed(node_text(node) + ": " + e.what(), node);
    }
  }
}

void membership::make_devices(const membership_options& o, const program_identity& program) {
  for (node_id node = 1; node < processes_.size(); ++node) {
    const target_url& url = o.targets[node - 1];
    if (!is_device(url)) continue;
    try {
      device_with_code made = o.make_device(url);
      cuda::options c;
      c.self = self_;
      c.node = node;
      c.ring_bytes = o.lane_bytes;
      c.bells = home_.bells();
      c.device = std::move(made.device);
      c.workers = url.workers;
      if (url.idle_ms) c.idle = std::chrono::milliseconds(*url.idle_ms);
      c.program = std::move(made.program);
      c.memory_bytes = o.heap_bytes;
      devices_.push_back(cuda::make(std::move(c)));
    } catch (const error& e) {
      throw start_failed(node_text(node) + ": " + e.what(), node);
    }
    cuda::cuda_transport& device = *devices_.back();
    processes_[node].device = &device;
    const cuda::device_description d = device.describe_device();
    card c;
    c.id = node;
    c.name = url.name.empty() ? node_name(node) : url.name;
    c.host = cards_[self_].host;
    c.architecture = d.architecture;
    c.transport = url.scheme;
    c.pid = cards_[self_].pid;
    c.cores = d.processors;
    c.workers = url.workers;
    c.build = program.build;
    c.key_digest = program.key_digest;
    c.lane_bytes = o.lane_bytes;
    cards_[node] = std::move(c);
  }
}

void membership::throw_not_joined(node_id node, const char* what) {
  member_process& member = processes_[node];
  const std::string who = node_text(node) + " (\"" + member.program + "\")";
  if (member.is_remote()) {
    throw start_failed(who + " did not " + what +
                           " in time; does the server run a farcall program "
                           "that makes a farcall::job early in main()? Its log may tell",
                       node);
  }
  if (const auto ended = member.process.wait(clock::now() + std::chrono::milliseconds(200))) {
    throw start_failed(who + " " + *ended + " before it joined the job; is it a farcall program " +
                           "that makes a farcall::job, or calls farcall::serve_if_target(), " +
                           "early in main()?",
                       node);
  }
  throw start_failed(who + " did not " + what + " in time; is it a farcall program that makes a " +
                         "farcall::job early in main()? (job_options::start_timeout)",
                     node);
}

control_message membership::expect(node_id node, control kind, const char* what,
                                   time_point deadline) {
  member_process& member = processes_[node];
  const std::string who = node_text(node) + " (\"" + member.program + "\")";
  std::optional<control_message> message = member.socket.receive(deadline);
  if (!message) throw_not_joined(node, what);
  if (message->kind == control::refused) {
    throw start_failed(who + " cannot join: " + messages::refused::decode(message->body).why, node);
  }
  if (message->kind == control::ended) {
    throw start_failed(who + " did not join: " + messages::ended::decode(message->body).how, node);
  }
  if (message->kind == other_byte_order(kind)) {
    throw start_failed(who + " cannot join: it has the other byte order; farcall needs one byte " +
                           "order in a job",
                       node);
  }
  if (message->kind != kind) {
    throw start_failed(
        who + " sent something else than expected; is it built with another farcall?", node);
  }
  return std::move(*message);
}

void membership::greet(node_id node, const membership_options& o,
                       const std::vector<node_memory>& memory, time_point deadline) {
  const control_message present = expect(node, control::present, "report", deadline);
  try {
    (void)messages::present::decode(present.body);
  } catch (const error& e) {
    throw start_failed(
        node_text(node) + " (\"" + processes_[node].program + "\") cannot join: " + e.what(), node);
  }
  control_socket& socket = processes_[node].socket;
  const bool is_near = !processes_[node].is_remote();
  bool sent = true;
  if (network_ && is_near) {
    sent = socket.send(control::credentials, encode_credentials(*network_), {}, deadline);
  }
  for (node_id of = 0; of < memory.size() && is_near; ++of) {
    if (!memory[of].home) continue;
    messages::memory m;
    m.node = of;
    m.home_bytes = memory[of].home.size();
    std::vector<int> files{memory[of].home.fd()};
    for (const segment& window : memory[of].windows) {
      m.window_bytes.push_back(window.size());
      files.push_back(window.fd());
    }
    sent = sent && messages::send(socket, m, deadline, files);
  }
  const target_url& url = o.targets[node - 1];
  messages::hello m;
  m.node = node;
  m.nodes = static_cast<std::uint32_t>(memory.size());
  m.lane_bytes = o.lane_bytes;
  m.heap_bytes = o.heap_bytes;
  m.address = url.address;
  m.workers = url.workers;
  m.cpu = url.cpu;
  m.name = url.name.empty() ? node_name(node) : url.name;
  m.scheme = url.scheme;
  m.settings = o.settings;
  sent = sent && messages::send(socket, m, deadline);
  // A target that has gone, or hangs, is reported by expect(), with its exit status.
  if (!sent) (void)expect(node, control::joined, "join", deadline);
}

void membership::take_card(node_id node, time_point deadline) {
  const control_message message = expect(node, control::joined, "join", deadline);
  try {
    card c = messages::joined::decode(message.body).mine;
    if (c.id != node) throw malformed_message("its card bears another number");
    cards_[node] = std::move(c);
  } catch (const error& e) {
    throw start_failed(
        node_text(node) + " (\"" + processes_[node].program + "\") cannot join: " + e.what(), node);
  }
}

void membership::spread_cards(time_point deadline) {
  for (node_id to = 1; to < processes_.size(); ++to) {
    if (processes_[to].device != nullptr) continue;
    control_socket& socket = processes_[to].socket;
    bool sent = true;
    for (const card& c : cards_)
      sent = sent && messages::send(socket, messages::member{c}, deadline);
    sent = sent && messages::send(socket, messages::start{}, deadline);
    if (!sent) throw_not_joined(to, "take what it has to know about the other nodes");
  }
}

std::string membership::end_of(node_id node, time_point deadline) {
  member_process& member = processes_[node];
  if (member.device != nullptr) {
    return node_text(node) + " (" + cards_[node].transport + "): " + member.device->failure();
  }
  if (member.is_remote()) {
    return node_text(node) + " (" + member.program +
           "): " + member.end.value_or("the connection to its server has ended");
  }
  const auto ended = member.process.wait(deadline);
  std::string text = node_text(node) + " (process " + std::to_string(member.process.pid()) + ") " +
                     ended.value_or("closed its control socket");
  try {
    const auto message = member.socket.receive(clock::now());
    if (message && message->kind == control::refused) {
      text += ": " + messages::refused::decode(message->body).why;
    }
  } catch (const error& e) {
    log::warning(node_text(node) + " ended with a message that cannot be read: " + e.what());
  }
  return text;
}

void membership::spread_end(node_id node, const std::string& why) {
  const std::vector<std::byte> body = messages::node_failed{node, why}.encode();
  for (node_id other = 1; other < processes_.size(); ++other) {
    if (processes_[other].failed || processes_[other].device != nullptr) continue;
    processes_[other].news.push_back(body);
    send_news(processes_[other]);
  }
}

bool membership::hear_remote(node_id node) {
  member_process& member = processes_[node];
  for (;;) {
    pollfd waiting{member.socket.fd(), POLLIN, 0};
    if (member.socket.fd() < 0) return true;
    if (::poll(&waiting, 1, 0) <= 0) return false;
    try {
      const std::optional<control_message> message = member.socket.receive(clock::now());
      if (!message) return true;
      if (message->kind == control::dial) {
        pass_on_request(node, message->body);
        continue;
      }
      if (message->kind == control::ended) {
        const std::string how = messages::ended::decode(message->body).how;
        member.end = member.end ? how + ": " + *member.end : how;
      } else if (message->kind == control::refused && !member.end) {
        member.end = messages::refused::decode(message->body).why;
      }
    } catch (const std::exception& e) {
      member.end = std::string("it sent what cannot be read: ") + e.what();
      return true;
    }
  }
}

void membership::pass_on_request(node_id from, std::span<const std::byte> body) {
  const auto [to, bytes] = messages::dial::decode(body);
  if (to == self_) {
    tcp_transport_->take_request(from, tcp::decode_dial_request(bytes));
    return;
  }
  if (to >= processes_.size() || processes_[to].device != nullptr)
    throw malformed_message("it asks for a node that does not exist");
  if (!messages::try_send(processes_[to].socket, messages::dial{from, bytes})) {
    log::error(node_text(to) + " cannot be asked for a connection to " + node_text(from));
  }
}

void membership::send_news(member_process& to) noexcept {
  // A target that does not read its socket must not keep us from watching the others.
  while (!to.news.empty() && to.socket.try_send(control::node_failed, to.news.front()))
    to.news.pop_front();
}

void membership::watch_targets() {
  for (;;) {
    std::vector<pollfd> watched{{stop_signal_.get(), POLLIN, 0}};
    std::vector<node_id> whose{host_id};
    bool has_news = false;
    for (node_id node = 1; node < processes_.size(); ++node) {
      member_process& member = processes_[node];
      if (member.failed) continue;
      send_news(member);
      has_news = has_news || !member.news.empty();
      const int end = member.device != nullptr       ? member.device->failure_fd()
                      : member.process.end_fd() >= 0 ? member.process.end_fd()
                                                     : member.socket.fd();
      watched.push_back({end, POLLIN, 0});
      whose.push_back(node);
    }
    if (::poll(watched.data(), watched.size(), has_news ? news_interval : -1) < 0) continue;
    if (watched[0].revents != 0) return;
    for (std::size_t i = 1; i < watched.size(); ++i) {
      if (watched[i].revents == 0) continue;
      const node_id node = whose[i];
      if (processes_[node].is_remote() && !hear_remote(node)) continue;
      processes_[node].failed = true;
      const std::string why = end_of(node, clock::now() + std::chrono::seconds(1));
      events_.node_failed(node, why);
      // Not before: its number could become that of another process while copies go there.
      processes_[node].process.reap();
      spread_end(node, why);
    }
  }
}

void membership::stop_devices() {
  const time_point deadline = clock::now() + stop_timeout_;
  for (node_id node = 1; node < processes_.size(); ++node) {
    cuda::cuda_transport* const device = processes_[node].device;
    if (device == nullptr || device->stop(deadline) || processes_[node].failed) continue;
    log::warning(node_text(node) + " did not finish within " +
                 std::to_string(stop_timeout_.count()) + " ms and is left behind");
  }
}

void membership::shut_down(const std::function<void()>& meanwhile) {
  if (is_shut_down_) return;
  is_shut_down_ = true;
  stop_watching();
  stop_devices();
  const time_point deadline = clock::now() + stop_timeout_;
  for (;;) {
    meanwhile();
    std::vector<pollfd> running;
    for (node_id node = 1; node < processes_.size(); ++node) {
      member_process& member = processes_[node];
      if (member.failed || (member.process.pid() == 0 && !member.is_remote())) continue;
      if (!member.is_told_to_stop) {
        member.is_told_to_stop = member.socket.try_send(control::shut_down);
      }
      send_news(member);
      if (member.is_remote() ? !hear_remote(node) : !member.process.wait(clock::now())) {
        running.push_back(
            {member.is_remote() ? member.socket.fd() : member.process.end_fd(), POLLIN, 0});
        continue;
      }
      // Another one may wait for it.
      member.failed = true;
      spread_end(node, end_of(node, clock::now()));
      member.process.reap();
    }
    if (running.empty() || clock::now() >= deadline) break;
    // Without descriptors of processes this is a short sleep.
    ::poll(running.data(), running.size(), look_interval_ms);
  }
  for (node_id node = 1; node < processes_.size(); ++node) {
    member_process& member = processes_[node];
    if (member.failed || (member.process.pid() == 0 && !member.is_remote())) continue;
    if (is_started_) {
      log::warning(node_text(node) + " did not finish within " +
                   std::to_string(stop_timeout_.count()) + " ms and is killed");
    }
    member.process.kill();
    // Its server does it.
    member.socket.close();
  }
}

} // namespace farcall
