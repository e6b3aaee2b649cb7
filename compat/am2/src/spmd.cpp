// SPDX-License-Identifier: Apache-2.0
#include "spmd.hpp"

#include "errors.hpp"

#include <farcall/base/error.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/job/process_group.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/offload/job_settings.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>
#include <unistd.h>

// NOLINTNEXTLINE(readability-identifier-naming): the interface's name.
void (*AMX_SPMDkillmyprocess)(int) = &::_exit;

namespace farcall::am2 {
namespace {

/// Time for which a process that ends the job waits for replies of the other processes.
constexpr std::chrono::seconds leave_time{5};
/// Time for which a process that ends the job waits if it cannot receive replies. That is the case
/// in a handler, or on another thread than the receiving one.
constexpr std::chrono::milliseconds blind_leave_time{100};

/// Position of the round's number in the bits of a message's type.
constexpr unsigned round_at = 8;

/// Names of the collectives, indexed by the type of their messages.
constexpr std::array collective_names{"AMX_SPMDBarrier", "AMX_SPMDAllGather", "AMX_SPMDBroadcast"};

/// Returns the name of the collective to which a message belongs; null if it belongs to none.
const char* name_of_collective(std::int32_t type) {
  const auto of = static_cast<std::uint32_t>(type) & ((1U << round_at) - 1);
  return of < collective_names.size() ? collective_names[of] : nullptr;
}

/// Returns the number of requests that may be outstanding. If the setting is invalid, prints the
/// reason and returns none.
std::optional<std::uint32_t> depth_of(const startup& how) {
  const auto is_depth = [](long long n) { return n >= 1 && n <= max_outstanding; };
  std::string given;
  long long depth = how.depth;
  if (depth != 0) {
    given = "a network depth of " + std::to_string(depth);
  } else {
    const std::string_view text = variable(how.depth_variable);
    if (text.empty()) return default_outstanding;
    given = std::string(how.depth_variable) + "=" + std::string(text);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), depth);
    if (error != std::errc() || end != text.data() + text.size()) depth = 0;
  }
  if (is_depth(depth)) return static_cast<std::uint32_t>(depth);
  std::fprintf(stderr, "AM-2: %s; there may be 1 to %d outstanding requests\n", given.c_str(),
               max_outstanding);
  return std::nullopt;
}

/// True if a launcher that farcall does not know has started several processes. Each of them would
/// form a job of one process.
bool would_be_alone() {
  if (is_started_by_farcall() || !variable("FARCALL_TARGETS").empty()) return false;
  if (is_launched(farcall::detail::process_manager_of({})))
    return false; // these processes find each other and form one job
  return farcall::launched_together().has_value();
}

/// Unsets FARCALL_TARGETS until the end of the scope. The variable would override the number of
/// processes that the program or its user has given.
class own_targets {
 public:
  own_targets() {
    if (const char* const set = std::getenv(name)) before_ = set;
    ::unsetenv(name);
  }
  ~own_targets() {
    if (before_) ::setenv(name, before_->c_str(), 1);
  }
  own_targets(const own_targets&) = delete;
  own_targets& operator=(const own_targets&) = delete;

 private:
  static constexpr const char* name = "FARCALL_TARGETS";
  std::optional<std::string> before_;
};

} // namespace

bool refuse_under_launcher(int processes) {
  const std::string which = farcall::detail::process_manager_of({});
  if (which == "none") return false; // the user wants each process to start a separate job
  return refuse_launched_together(which, [processes](const launched_processes& others) {
    const std::string own = std::to_string(processes);
    std::fprintf(stderr,
                 "AM-2: a launcher (%s) has started %s processes of this program, and each was "
                 "asked for a job of %s: start the program without the launcher, or without count "
                 "and letter by \"farcall run --spmd -n %s\"\n",
                 others.by.c_str(), others.count.c_str(), own.c_str(), own.c_str());
  });
}

std::string_view variable(const char* name) {
  const char* const set = name == nullptr ? nullptr : std::getenv(name);
  return set == nullptr ? std::string_view() : std::string_view(set);
}

bool is_started_by_farcall() {
  return !variable("FARCALL_BOOTSTRAP").empty() ||
         settings_source().text(settings::row("spmd")) == "yes";
}

spmd& spmd::instance() noexcept {
  // Never destroyed, like process::instance().
  // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): a program without memory ends here.
  static spmd& only = *new spmd;
  return only;
}

// ---- start -------------------------------------------------------------------------------------

int spmd::start(const startup& how) {
  if (has_started_)
    return failed(AM_ERR_RESOURCE, "AMX_SPMDStartup", "the process has a job already");
  const std::optional<std::uint32_t> depth = depth_of(how);
  if (!depth) return AM_ERR_BAD_ARG;
  process& p = process::instance();
  job_options options;
  if (wants_threads_) options.progress = "thread";
  const char* const progress = std::getenv("FARCALL_PROGRESS");
  const bool has_progress_thread =
      wants_threads_ || (progress != nullptr && std::string_view(progress) == "thread");
  // Without a launcher, the job consists of this process only.
  options.targets = "none";
  std::optional<own_targets> own;
  if (how.starts_processes) {
    own.emplace();
    if (how.processes > 1) options.targets = "shm:" + std::to_string(how.processes - 1);
    options.arguments.assign(*how.argv, *how.argv + *how.argc);
  }
  try {
    if (!how.starts_processes && would_be_alone()) {
      const auto others = launched_together();
      std::fprintf(stderr,
                   "AM-2: another launcher has started this program (%s), and each process "
                   "would be alone; start it by \"farcall run --spmd -n %s\"\n",
                   others->by.c_str(), others->count.c_str());
      return AM_ERR_RESOURCE;
    }
    if (!p.join(job(farcall::spmd, *how.argc, *how.argv, options), has_progress_thread))
      return failed(AM_ERR_RESOURCE, "AMX_SPMDStartup", "there are endpoints already");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "AM-2 cannot start its job: %s\n", e.what());
    return AM_ERR_RESOURCE;
  }
  p.initialise();
  p.at_exit_of_others([](int code) { instance().exit(code); });
  has_started_ = true;
  // Mark the child of a fork as a process without a job, because it does not belong to its parent's
  // job.
  ::pthread_atfork(nullptr, nullptr, [] { instance().leave_in_child(); });
  main_ = std::this_thread::get_id();
  std::atexit([] { instance().note_exit(); });
  bundle_ = p.add_bundle(false);
  endpoint_ = p.add_endpoint(*bundle_);
  exchange_names(how.job_number);
  p.make_card(*endpoint_);
  endpoint_->set_resources(*depth);
  exchange_environment();
  if (how.bundle != nullptr) *how.bundle = bundle_;
  if (how.endpoint != nullptr) *how.endpoint = endpoint_;
  return AM_OK;
}

void spmd::exchange_names(std::uint64_t* job_number) {
  struct about {
    std::int32_t endpoint;
    std::uint32_t pid;
  };
  const about own{endpoint_->name.endpoint, static_cast<std::uint32_t>(::getpid())};
  std::vector<about> all(static_cast<std::size_t>(size()));
  if (!all_gather(&own, all.data(), sizeof own))
    fatal("a process has ended before the job has begun");
  std::uint64_t sum = 0;
  for (const about& a : all)
    sum += a.pid;
  const auto tag_of = [&](std::size_t i) { return sum << 32 | static_cast<std::uint32_t>(i); };
  endpoint_->table.resize(std::max(all.size(), min_translations));
  for (std::size_t i = 0; i < all.size(); ++i) {
    translation& t = endpoint_->table[i];
    t.is_in_use = true;
    t.name = {static_cast<std::int32_t>(i), all[i].endpoint};
    t.tag.store(tag_of(i), std::memory_order_relaxed);
  }
  endpoint_->tag.store(tag_of(static_cast<std::size_t>(rank())), std::memory_order_relaxed);
  if (job_number != nullptr) *job_number = sum << 32 | all.front().pid;
}

void spmd::exchange_environment() {
  std::string text;
  if (rank() == 0) {
    for (char** at = ::environ; at != nullptr && *at != nullptr; ++at)
      text.append(*at).push_back('\0');
  }
  std::uint64_t bytes = text.size();
  if (!broadcast(&bytes, sizeof bytes, 0)) return;
  text.resize(bytes);
  if (!broadcast(text.data(), bytes, 0)) return;
  for (std::size_t at = 0; at < text.size();) {
    const std::string line = text.c_str() + at;
    at += line.size() + 1;
    if (const std::size_t equals = line.find('='); equals != std::string::npos)
      environment_[line.substr(0, equals)] = line.substr(equals + 1);
  }
}

const char* spmd::variable_of_master(const char* name) const {
  if (!has_started_) return std::getenv(name);
  const auto found = environment_.find(name);
  return found == environment_.end() ? nullptr : found->second.c_str();
}

void spmd::leave_in_child() noexcept {
  has_started_ = false;
  process::instance().leave_in_child();
}

// ---- collectives -------------------------------------------------------------------------------

am2_bundle& spmd::polled() const {
  process& p = process::instance();
  return p.knows(bundle_) ? *bundle_ : const_cast<am2_bundle&>(own_);
}

void spmd::send(int node, type t, std::int32_t round, const void* bytes, std::size_t size) {
  const std::int32_t arguments[]{t + (round << round_at), static_cast<std::int32_t>(collectives_)};
  message m{message_header(message_kind::job, category::medium, 0, 2)};
  m.arguments = arguments;
  m.payload = bytes;
  m.bytes = size;
  (void)process::instance().send(polled(), node, m);
}

bool spmd::receive(int node, type t, std::int32_t round, std::size_t bytes, job_message& m) {
  process& p = process::instance();
  const char* const name = name_of_collective(t);
  const auto is_of_another = [&](const job_message& o) {
    // In a broadcast only the root sends messages. A message from another process than `node`,
    // which is the root here, therefore shows that this other process has called the broadcast with
    // itself as the root.
    return name_of_collective(o.type) != name || (t == in_broadcast && o.node != node);
  };
  const auto is_of_interest = [&](const job_message& o) {
    return o.number == static_cast<std::int32_t>(collectives_) &&
           name_of_collective(o.type) != nullptr &&
           (is_of_another(o) || (o.node == node && o.type == t + (round << round_at)));
  };
  std::optional<job_message> got;
  p.wait_until(polled(), [&] {
    if (!got) got = p.job().take_if(is_of_interest);
    return got.has_value() || p.some_have_ended();
  });
  if (!got) return false;
  m = std::move(*got);
  if (!is_of_another(m) && m.bytes.size() == bytes) return true;
  // Ignore a message of another collective after a process has ended, because the message may
  // belong to a collective that was given up.
  if (p.some_have_ended()) return false;
  const char* const other = name_of_collective(m.type);
  if (other != name) {
    fatal("the processes call different collectives: this one is in %s, and process %d in %s; all "
          "call the same ones in the same order",
          name, m.node, other);
  }
  if (m.node != node)
    fatal("%s: this process names process %d as the root, and process %d names itself", name, node,
          m.node);
  fatal("%s: process %d has sent %zu bytes, and here %zu are expected; the length is the same in "
        "all processes",
        name, node, m.bytes.size(), bytes);
}

bool spmd::barrier() {
  ++collectives_;
  // Dissemination barrier by Hensgen, Finkel and Manber: in round k, the process with rank r
  // notifies the process with rank r + 2^k.
  const int n = size();
  std::int32_t round = 0;
  for (int distance = 1; distance < n; distance *= 2, ++round) {
    send((rank() + distance) % n, in_barrier, round, nullptr, 0);
    job_message m;
    if (!receive((rank() + n - distance) % n, in_barrier, round, 0, m)) return false;
  }
  (void)process::instance().poll(polled());
  return true;
}

bool spmd::all_gather(const void* source, void* destination, std::size_t bytes) {
  ++collectives_;
  const int n = size();
  const auto process_before = [&](int distance) { return (rank() + n - distance) % n; };
  // Algorithm by Bruck: in round k, the process with rank r sends all bytes that it has to rank r +
  // 2^k. `got` contains the bytes of this process, followed by the bytes of rank - 1, rank - 2 and
  // so on.
  const auto* const own = static_cast<const std::byte*>(source);
  std::vector<std::byte> got(own, own + bytes);
  got.reserve(bytes * static_cast<std::size_t>(n));
  std::int32_t round = 0;
  for (int distance = 1; distance < n; distance *= 2, ++round) {
    const std::size_t size = bytes * static_cast<std::size_t>(std::min(distance, n - distance));
    send((rank() + distance) % n, in_all_gather, round, got.data(), size);
    job_message m;
    if (!receive(process_before(distance), in_all_gather, round, size, m)) return false;
    got.insert(got.end(), m.bytes.begin(), m.bytes.end());
  }
  if (bytes == 0) return true;
  auto* const all = static_cast<std::byte*>(destination);
  for (int i = 0; i < n; ++i) {
    std::memcpy(all + static_cast<std::size_t>(process_before(i)) * bytes,
                got.data() + static_cast<std::size_t>(i) * bytes, bytes);
  }
  return true;
}

bool spmd::broadcast(void* bytes, std::size_t size_in_bytes, int root) {
  ++collectives_;
  if (rank() == root) {
    for (int i = 0; i < size(); ++i) {
      if (i != root) send(i, in_broadcast, 0, bytes, size_in_bytes);
    }
    return true;
  }
  job_message m;
  if (!receive(root, in_broadcast, 0, size_in_bytes, m)) return false;
  if (!m.bytes.empty()) std::memcpy(bytes, m.bytes.data(), m.bytes.size());
  return true;
}

// ---- the end -----------------------------------------------------------------------------------

void spmd::note_exit() const noexcept {
  if (!has_started_ || is_leaving_ || size() == 1) return;
  std::fprintf(
      stderr,
      "AM-2: process %d ends by exit(), or at the end of main(), without AMX_SPMDExit, which "
      "ends a job\n",
      rank());
}

bool spmd::tell_all(int code) noexcept {
  process& p = process::instance();
  const std::int32_t arguments[]{exits, 0};
  for (int i = 0; i < size(); ++i) {
    if (i == rank() || p.has_ended(i)) continue;
    message m{message_header(message_kind::job, category::medium, 0, 2)};
    m.arguments = arguments;
    m.payload = &code;
    m.bytes = sizeof code;
    p.send_or_keep(i, m);
  }
  if (process::thread().running != 0 || std::this_thread::get_id() != main_) {
    std::this_thread::sleep_for(blind_leave_time);
    return false;
  }
  std::vector<bool> has_replied(static_cast<std::size_t>(size()));
  has_replied[static_cast<std::size_t>(rank())] = true;
  const auto has_all = [&] {
    for (int i = 0; i < size(); ++i) {
      if (!has_replied[static_cast<std::size_t>(i)] && !p.has_ended(i)) return false;
    }
    return true;
  };
  const auto deadline = std::chrono::steady_clock::now() + leave_time;
  while (!has_all()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    if (p.poll(polled()) == 0) p.doze(polled());
    while (const std::optional<job_message> m = p.job().take(exits, 0))
      has_replied[static_cast<std::size_t>(m->node)] = true;
  }
  return true;
}

void spmd::exit(int code) noexcept {
  process& p = process::instance();
  if (!has_started_ || is_leaving_.exchange(true)) {
    AMX_SPMDkillmyprocess(code);
    ::_exit(code);
  }
  p.expect_ends();
  const bool are_all_here = tell_all(code);
  if (exit_callback_ != nullptr) exit_callback_(code);
  std::fflush(nullptr);
  if (are_all_here) {
    p.network().close();
    farcall::leave_launched_group();
    // Process 0 ends by exit() instead of _exit(), because exit() waits for the other processes of
    // the job. If `code` is 0, exit() then uses their exit status.
    if (rank() == 0 && AMX_SPMDkillmyprocess == &::_exit) std::exit(code);
  }
  AMX_SPMDkillmyprocess(code);
  ::_exit(code);
}

} // namespace farcall::am2
