#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/job/child_launcher.hpp>
#include <farcall/job/existing_launcher.hpp>
#include <farcall/job/membership.hpp>
#include <farcall/memory/ring.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include <poll.h>

/// The host's part: getting targets, watching them, and ending them.
namespace farcall {
namespace {

/// How often the host sees to other things while it waits for its targets to end.
constexpr int look_interval_ms = 1;
/// Heartbeats in one peer timeout.
constexpr int beats = 4;
/// How often it tries again to tell something to a target that does not read.
constexpr int news_interval = 10;

std::string node_name(node_id node) {
  return node == host_id ? "host" : "node " + std::to_string(node);
}

/// How a kind of message looks that comes from a machine with the other byte order.
control other_byte_order(control kind) {
  return static_cast<control>(__builtin_bswap32(static_cast<std::uint32_t>(kind)));
}

bool is_emulated(const target_url& target) {
  return std::any_of(target.command.begin(), target.command.end(), [](const std::string& word) {
    return word.substr(word.rfind('/') + 1).starts_with("qemu-");
  });
}

/// A target: a process, or a node that lives in this one.
struct target {
  target_url url;
  std::unique_ptr<target_process> process;
  std::unique_ptr<hosted_node> hosted;
  bool is_told_to_stop = false;
  bool is_deaf = false;                       ///< its socket has ended
  std::string last_words;                     ///< why it ends, as it has said, or its server
  std::deque<std::vector<std::byte>> notices; ///< of nodes that have failed, not yet sent
  unsigned silent_beats = 0;                  ///< heartbeats since it was last heard
};

class host_membership final : public membership {
 public:
  host_membership(membership_options o, const program_identity& program);
  ~host_membership() override;

  void start(time_point deadline);

  hosted_node* hosted(node_id node) const noexcept override {
    return node < targets_.size() ? targets_[node].hosted.get() : nullptr;
  }
  void shut_down(const std::function<void()>& meanwhile) override;

 private:
  void watch_others(int stop_signal) override;
  bool tell(node_id peer, const std::string& scheme, std::span<const std::byte> bytes,
            std::span<const int> files) noexcept override;
  std::vector<transport*> hosted_transports() const override;

  // ---- starting
  [[nodiscard]] launcher& launcher_of(const transport_entry& row);
  void start_processes(time_point deadline);
  [[nodiscard]] std::vector<node_memory> make_memories();
  [[nodiscard]] bool maps_memory(node_id node) const;
  void greet(node_id node, const std::vector<node_memory>& memory, time_point deadline);
  [[nodiscard]] part own_part();
  void host_nodes();
  void take_card(node_id node, time_point deadline);
  void spread_cards(time_point deadline);
  [[nodiscard]] std::string who(node_id node) const {
    return node_text(node) + " (\"" + targets_[node].process->program() + "\")";
  }
  [[noreturn]] void throw_not_joined(node_id node, const char* what);
  control_message expect(node_id node, control kind, const char* what, time_point deadline);

  // ---- watching
  /// Takes what the target has said; false once its socket has ended.
  [[nodiscard]] bool hear(node_id node);
  void take_message(node_id from, control_message message);
  void pass_on(node_id from, const messages::transport& m, std::vector<unique_fd> files);
  /// As far as can be told without waiting.
  [[nodiscard]] bool has_ended(node_id node);
  void lose(node_id node);
  /// Asks all targets for a sign, and kills those that have given none for the peer timeout.
  void beat();
  /// The others are to be told.
  void spread_end(node_id node, const std::string& why);
  static void send_notices(target& to) noexcept;

  // ---- ending
  void stop_hosted();
  void kill_rest();

  membership_options options_;
  program_identity program_;
  launch_site site_;
  std::map<std::string, std::unique_ptr<launcher>, std::less<>> launchers_; ///< of rows, by scheme
  std::unique_ptr<launcher> children_;
  std::unique_ptr<launcher> existing_;
  std::vector<target> targets_; ///< by node, the first unused
  bool is_started_ = false;     ///< all targets have joined
  bool is_shut_down_ = false;
};

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

host_membership::host_membership(membership_options o, const program_identity& program)
    : options_(std::move(o)), program_(program) {
  roster_ = roster(host_id, options_.targets.size() + options_.existing.size() + 1);
  stop_timeout_ = options_.stop_timeout;
  settings_ = options_.settings;
  for (std::size_t i = 0; i < options_.existing.size(); ++i) {
    target_url url;
    url.scheme = row_of_processes(options_.transports).scheme;
    options_.targets.push_back(std::move(url));
  }
  site_ = {options_.targets, options_.program, options_.arguments, options_.access,
           options_.heartbeat_timeout};
}

host_membership::~host_membership() {
  stop_watching();
  shut_down([] {});
  // What is left on others' threads uses the rest.
  drop_transports();
  targets_.clear();
}

// ---- starting -----------------------------------------------------------------------------------

void host_membership::start(time_point deadline) {
  start_processes(deadline);
  std::vector<node_memory> memory = make_memories();
  for (node_id node = 1; node < targets_.size(); ++node) {
    if (targets_[node].process) greet(node, memory, deadline);
  }
  set_up(std::move(memory), options_.transports, own_part(), program_);
  host_nodes();
  for (node_id node = 1; node < targets_.size(); ++node) {
    if (targets_[node].process) take_card(node, deadline);
  }
  spread_cards(deadline);
  choose_routes();
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

void host_membership::start_processes(time_point deadline) {
  targets_.resize(nodes());
  const std::size_t first_existing = nodes() - options_.existing.size();
  existing_ = std::make_unique<existing_launcher>(std::move(options_.existing));
  for (node_id node = 1; node < targets_.size(); ++node) {
    target& t = targets_[node];
    t.url = options_.targets[node - 1];
    const transport_entry& row = row_of(options_.transports, t.url);
    if (row.host) continue;
    launcher& from = node < first_existing ? launcher_of(row) : *existing_;
    t.process = from.start(node, t.url, deadline);
  }
}

std::vector<node_memory> host_membership::make_memories() {
  memory_sizes sizes{options_.lane_bytes, options_.heap_bytes, nodes(), false};
  sizes.is_emulated = std::any_of(options_.targets.begin(), options_.targets.end(), is_emulated);
  std::vector<node_memory> memory;
  for (node_id node = 0; node < targets_.size(); ++node) {
    if (node == host_id || maps_memory(node)) {
      memory.push_back(make_memory(node, sizes));
    }
  }
  return memory;
}

bool host_membership::maps_memory(node_id node) const {
  const target& t = targets_[node];
  return t.process && t.process->is_near() && row_of(options_.transports, t.url).maps_memory;
}

void host_membership::throw_not_joined(node_id node, const char* what) {
  throw start_failed(who(node) + targets_[node].process->silence_text(what), node);
}

control_message host_membership::expect(node_id node, control kind, const char* what,
                                        time_point deadline) {
  std::optional<control_message> message = targets_[node].process->socket().receive(deadline);
  if (!message) throw_not_joined(node, what);
  if (message->kind == control::refused) {
    throw start_failed(who(node) + " cannot join: " + messages::refused::decode(message->body).why,
                       node);
  }
  if (message->kind == control::ended) {
    throw start_failed(who(node) + " did not join: " + messages::ended::decode(message->body).how,
                       node);
  }
  if (message->kind == other_byte_order(kind)) {
    throw start_failed(who(node) + " cannot join: it has the other byte order; farcall needs one " +
                           "byte order in a job",
                       node);
  }
  if (message->kind != kind) {
    throw start_failed(who(node) + " sent something else than expected; is it built with another " +
                           "farcall?",
                       node);
  }
  return std::move(*message);
}

/// A node's memory, and the descriptors that go with it.
bool send_memory(control_socket& to, const node_memory& of, time_point deadline) {
  messages::memory m;
  m.node = of.node;
  m.receive_segment_bytes = of.receive_segment.size();
  std::vector<int> files{of.receive_segment.fd()};
  for (const segment& window : of.windows) {
    m.window_bytes.push_back(window.size());
    files.push_back(window.fd());
  }
  return messages::send(to, m, deadline, files);
}

void host_membership::greet(node_id node, const std::vector<node_memory>& memory,
                            time_point deadline) {
  const control_message present = expect(node, control::present, "report", deadline);
  try {
    (void)messages::present::decode(present.body);
  } catch (const error& e) {
    throw start_failed(who(node) + " cannot join: " + e.what(), node);
  }
  control_socket& socket = targets_[node].process->socket();
  bool sent = true;
  for (const auto& [scheme, made] : launchers_)
    sent = sent && messages::send(socket, messages::setup{scheme, made->setup(node)}, deadline);
  for (const node_memory& of : memory)
    sent = sent && (!maps_memory(node) || send_memory(socket, of, deadline));
  const target_url& url = targets_[node].url;
  messages::hello m;
  m.node = node;
  m.nodes = static_cast<std::uint32_t>(nodes());
  m.lane_bytes = options_.lane_bytes;
  m.heap_bytes = options_.heap_bytes;
  m.workers = url.workers;
  m.cpu = url.cpu;
  m.name = url.name.empty() ? node_name(node) : url.name;
  m.scheme = url.scheme;
  m.settings = options_.settings;
  sent = sent && messages::send(socket, m, deadline);
  // A target that has gone, or hangs, is reported by expect(), with its exit status.
  if (!sent) (void)expect(node, control::joined, "join", deadline);
}

host_membership::part host_membership::own_part() {
  part own;
  own.lane_bytes = options_.lane_bytes;
  own.name = node_name(host_id);
  own.scheme = "self";
  for (const auto& [scheme, made] : launchers_) {
    own.setups[scheme] = made->setup(host_id);
    own.launchers[scheme] = made.get();
  }
  return own;
}

void host_membership::host_nodes() {
  for (node_id node = 1; node < targets_.size(); ++node) {
    target& t = targets_[node];
    const transport_entry& row = row_of(options_.transports, t.url);
    if (!row.host) continue;
    try {
      t.hosted =
          row.host(t.url, {self(), node, options_.lane_bytes, options_.heap_bytes, doorbells()});
    } catch (const error& e) {
      throw start_failed(node_text(node) + ": " + e.what(), node);
    }
    const card& mine = card_of(self());
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
  }
}

void host_membership::take_card(node_id node, time_point deadline) {
  const control_message message = expect(node, control::joined, "join", deadline);
  try {
    card c = messages::joined::decode(message.body).mine;
    if (c.id != node) throw malformed_message("its card bears another number");
    if (is_hosted(c)) throw malformed_message("its card says that it is no process");
    roster_.add(std::move(c));
  } catch (const error& e) {
    throw start_failed(who(node) + " cannot join: " + e.what(), node);
  }
}

void host_membership::spread_cards(time_point deadline) {
  for (node_id to = 1; to < targets_.size(); ++to) {
    if (!targets_[to].process) continue;
    control_socket& socket = targets_[to].process->socket();
    bool sent = true;
    for (node_id of = 0; of < nodes(); ++of)
      sent = sent && messages::send(socket, messages::member{card_of(of)}, deadline);
    sent = sent && messages::send(socket, messages::start{}, deadline);
    if (!sent) throw_not_joined(to, "take what it has to know about the other nodes");
  }
}

// ---- watching -----------------------------------------------------------------------------------

std::vector<transport*> host_membership::hosted_transports() const {
  std::vector<transport*> all;
  for (const target& t : targets_) {
    if (t.hosted) all.push_back(t.hosted.get());
  }
  return all;
}

bool host_membership::tell(node_id peer, const std::string& scheme,
                           std::span<const std::byte> bytes, std::span<const int> files) noexcept {
  try {
    if (peer >= targets_.size() || !targets_[peer].process) return false;
    target_process& process = *targets_[peer].process;
    if (!files.empty() && !process.is_near()) return false;
    const messages::transport m{self(), scheme, {bytes.begin(), bytes.end()}};
    // Who does not read must not keep us from watching the others.
    return messages::send(process.socket(), m, clock::now(), files);
  } catch (const std::exception& e) {
    log::error(e.what());
    return false;
  }
}

bool host_membership::hear(node_id node) {
  target& t = targets_[node];
  control_socket& socket = t.process->socket();
  while (!t.is_deaf) {
    pollfd waiting{socket.fd(), POLLIN, 0};
    if (socket.fd() >= 0 && ::poll(&waiting, 1, 0) <= 0) return true;
    try {
      std::optional<control_message> message = socket.receive(clock::now());
      t.is_deaf = !message;
      t.silent_beats = 0;
      if (message) take_message(node, std::move(*message));
    } catch (const std::exception& e) {
      t.last_words = std::string("it sent what cannot be read: ") + e.what();
      t.is_deaf = true;
    }
  }
  return false;
}

void host_membership::take_message(node_id from, control_message message) {
  std::string& words = targets_[from].last_words;
  if (message.kind == control::transport) {
    pass_on(from, messages::transport::decode(message.body), std::move(message.files));
  } else if (message.kind == control::ended) {
    const std::string how = messages::ended::decode(message.body).how;
    words = words.empty() ? how : how + ": " + words;
  } else if (message.kind == control::refused && words.empty()) {
    words = messages::refused::decode(message.body).why;
  }
}

void host_membership::pass_on(node_id from, const messages::transport& m,
                              std::vector<unique_fd> files) {
  if (m.peer == self()) {
    deliver(from, m.scheme, m.bytes, std::move(files));
    return;
  }
  if (m.peer >= targets_.size() || !targets_[m.peer].process) {
    throw malformed_message("it asks for a node that does not exist");
  }
  target_process& to = *targets_[m.peer].process;
  std::vector<int> numbers;
  for (const unique_fd& file : files)
    numbers.push_back(file.get());
  if ((!numbers.empty() && !to.is_near()) ||
      !messages::send(to.socket(), messages::transport{from, m.scheme, m.bytes}, clock::now(),
                      numbers)) {
    log::error(node_text(m.peer) + " cannot be asked for a connection to " + node_text(from));
  }
}

void host_membership::spread_end(node_id node, const std::string& why) {
  const std::vector<std::byte> body = messages::node_failed{node, why}.encode();
  for (node_id other = 1; other < targets_.size(); ++other) {
    if (roster_.has_failed(other) || !targets_[other].process) continue;
    targets_[other].notices.push_back(body);
    send_notices(targets_[other]);
  }
}

void host_membership::send_notices(target& to) noexcept {
  // A target that does not read its socket must not keep us from watching the others.
  while (!to.notices.empty() &&
         to.process->socket().try_send(control::node_failed, to.notices.front())) {
    to.notices.pop_front();
  }
}

void host_membership::lose(node_id node) {
  target& t = targets_[node];
  roster_.fail(node);
  std::string why = node_text(node);
  if (t.hosted) {
    why += " (" + card_of(node).transport + "): " + t.hosted->failure();
  } else {
    // What it said last.
    (void)hear(node);
    why += t.process->end_text(t.last_words);
  }
  if (t.is_told_to_stop) why += "; the job was ending";
  if (events_.node_failed) events_.node_failed(node, why);
  // Not before: its number could become that of another process while copies go there.
  if (t.process) t.process->reap();
  spread_end(node, why);
}

void host_membership::beat() {
  for (node_id node = 1; node < targets_.size(); ++node) {
    target& t = targets_[node];
    if (roster_.has_failed(node) || !t.process || t.is_deaf || !hear(node)) continue;
    // Counted, not timed: while the host itself was stopped, nobody could be heard.
    if (t.silent_beats++ <= beats) {
      (void)messages::try_send(t.process->socket(), messages::heartbeat{});
      continue;
    }
    t.last_words = "it did not answer for " + std::to_string(options_.peer_timeout.count()) +
                   " ms (peer_timeout) and was killed; it may have been stopped, by SIGSTOP or a "
                   "debugger";
    t.process->kill();
    // Where a process tells its own end, it soon does.
    if (t.process->end_fd() < 0) lose(node);
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
    std::vector<pollfd> watched{{stop_signal, POLLIN, 0}};
    std::vector<node_id> whose{host_id};
    const auto add = [&](int fd, node_id node) {
      watched.push_back({fd, POLLIN, 0});
      whose.push_back(node);
    };
    bool has_news = false;
    for (node_id node = 1; node < targets_.size(); ++node) {
      target& t = targets_[node];
      if (roster_.has_failed(node)) continue;
      if (t.hosted) {
        add(t.hosted->failure_fd(), node);
        continue;
      }
      send_notices(t);
      has_news = has_news || !t.notices.empty();
      if (t.process->end_fd() >= 0) add(t.process->end_fd(), node);
      if (!t.is_deaf) add(t.process->socket().fd(), node);
    }
    if (has_news) timeout = timeout < 0 ? news_interval : std::min(timeout, news_interval);
    if (::poll(watched.data(), watched.size(), timeout) < 0) continue;
    if (watched[0].revents != 0) return;
    for (std::size_t i = 1; i < watched.size(); ++i) {
      const node_id node = whose[i];
      if (watched[i].revents == 0 || roster_.has_failed(node)) continue;
      target& t = targets_[node];
      const bool is_end = t.hosted || watched[i].fd == t.process->end_fd();
      // Where a process tells its own end, that of its socket is none.
      if (is_end || (!hear(node) && t.process->end_fd() < 0)) lose(node);
    }
  }
}

// ---- ending -------------------------------------------------------------------------------------

void host_membership::stop_hosted() {
  const time_point deadline = clock::now() + stop_timeout_;
  for (node_id node = 1; node < targets_.size(); ++node) {
    hosted_node* const hosted = targets_[node].hosted.get();
    if (hosted == nullptr) continue;
    const bool has_stopped = hosted->stop(deadline);
    if (roster_.has_failed(node)) continue;
    if (!has_stopped) {
      log::warning(node_text(node) + " did not finish within " +
                   std::to_string(stop_timeout_.count()) + " ms and is left behind");
    }
    // A handler of the host, which others wait for, may still call it.
    if (events_.node_failed) events_.node_failed(node, node_text(node) + " has ended with the job");
  }
}

bool host_membership::has_ended(node_id node) {
  target& t = targets_[node];
  return (!hear(node) && t.process->end_fd() < 0) || t.process->wait(clock::now()).has_value();
}

void host_membership::shut_down(const std::function<void()>& meanwhile) {
  if (is_shut_down_) return;
  is_shut_down_ = true;
  stop_watching();
  stop_hosted();
  const time_point deadline = clock::now() + stop_timeout_;
  for (;;) {
    meanwhile();
    std::vector<pollfd> running;
    for (node_id node = 1; node < targets_.size(); ++node) {
      target& t = targets_[node];
      if (roster_.has_failed(node) || !t.process) continue;
      if (!t.is_told_to_stop)
        t.is_told_to_stop = messages::try_send(t.process->socket(), messages::shut_down{});
      send_notices(t);
      if (has_ended(node)) {
        // Another one may wait for it, and so may a handler here.
        lose(node);
        continue;
      }
      if (t.process->end_fd() >= 0) running.push_back({t.process->end_fd(), POLLIN, 0});
      if (!t.is_deaf) running.push_back({t.process->socket().fd(), POLLIN, 0});
    }
    if (running.empty() || clock::now() >= deadline) break;
    // Without descriptors of processes this is a short sleep.
    ::poll(running.data(), running.size(), look_interval_ms);
  }
  kill_rest();
}

void host_membership::kill_rest() {
  for (node_id node = 1; node < targets_.size(); ++node) {
    if (roster_.has_failed(node) || !targets_[node].process) continue;
    if (is_started_) {
      log::warning(node_text(node) + " did not finish within " +
                   std::to_string(stop_timeout_.count()) + " ms and is killed");
    }
    targets_[node].process->kill();
    targets_[node].process->socket().close();
  }
}

} // namespace

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
