#include <ham/offload/offload.hpp>

#include <farcall/base/log.hpp>
#include <farcall/base/settings.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <sched.h>

namespace ham::offload {
namespace {

constexpr const char* help_text =
    "Options of HAM (also in the variable HAM_OPTIONS):\n"
    "  --ham-process-count N   processes of the job, the host included\n"
    "  --ham-cpu-affinity N    processor for this process\n"
    "  --ham-help              this text\n"
    "Others of HAM's are accepted and have no meaning here. 'farcall run -n 3 ./program' starts a\n"
    "program with two targets; FARCALL_TARGETS and --farcall-help offer more.\n";

constexpr std::string_view ignored[] = {
    "--ham-address",      "--ham-host-address", "--ham-host-node",    "--ham-veo-ve-lib",
    "--ham-veo-ve-nodes", "--ham-tcp-hostname", "--ham-tcp-hostport", "--ham-tcp-port"};

struct ham_options {
  std::optional<std::uint64_t> processes;
  std::optional<std::uint64_t> cpu;
  bool help = false;
};

/// HAM_OPTIONS instead of the command line, if it is set; cut at spaces, or at '_' where
/// HAM_OPTIONS_NO_SPACES is set.
std::vector<std::string> option_words(int argc, char** argv) {
  const char* text = std::getenv("HAM_OPTIONS");
  std::vector<std::string> words;
  if (text == nullptr) {
    words.assign(argv + 1, argv + argc);
    return words;
  }
  const char separator = std::getenv("HAM_OPTIONS_NO_SPACES") != nullptr ? '_' : ' ';
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, separator);) {
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

ham_options parse(const std::vector<std::string>& words) {
  ham_options o;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--ham-")) continue;
    const auto equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    if (name == "--ham-help") {
      o.help = true;
      continue;
    }
    const bool is_ignored =
        std::find(std::begin(ignored), std::end(ignored), name) != std::end(ignored);
    if (!is_ignored && name != "--ham-process-count" && name != "--ham-cpu-affinity") {
      farcall::log::warning("unknown option " + name + " is ignored; --ham-help lists them");
      continue;
    }
    if (equals == std::string::npos && i + 1 == words.size()) {
      throw farcall::setting_error("option " + name + " needs a value");
    }
    const std::string value =
        equals == std::string::npos ? words[++i] : words[i].substr(equals + 1);
    if (name == "--ham-process-count") o.processes = farcall::parse_number(value, name, 1, 251);
    if (name == "--ham-cpu-affinity")
      o.cpu = farcall::parse_number(value, name, 0, CPU_SETSIZE - 1);
  }
  return o;
}

void pin_to(std::uint64_t cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) {
    throw farcall::setting_error("--ham-cpu-affinity " + std::to_string(cpu) +
                                 ": this process may not run on that processor");
  }
}

struct state {
  std::optional<farcall::job> job;
  bool has_started = false;
  std::mutex mutex;
  std::vector<std::optional<net::node_descriptor>> descriptions;
};

state& the_state() {
  static state s;
  return s;
}

} // namespace

runtime& runtime::instance() {
  static runtime r;
  return r;
}

bool runtime::start(int argc, char** argv) {
  state& s = the_state();
  s.has_started = true;
  if (farcall::serve_as_target()) return false;
  const ham_options given = parse(option_words(argc, argv));
  if (given.help) std::fputs(help_text, stdout);
  if (given.cpu) pin_to(*given.cpu);
  farcall::job_options options;
  // A job without targets is no job; HAM's own default was the host and one target.
  if (given.processes && *given.processes > 2) {
    options.targets = "shm:" + std::to_string(*given.processes - 1);
  }
  // The program's argv stays as it is.
  std::vector<char*> words(argv, argv + argc);
  words.push_back(nullptr);
  s.job.emplace(argc, words.data(), options);
  return true;
}

void runtime::stop() { the_state().job.reset(); }

bool runtime::initialised() const noexcept { return the_state().has_started; }

node_t runtime::this_node() const {
  const state& s = the_state();
  return s.job ? 0 : static_cast<node_t>(farcall::this_node().id());
}

int runtime::num_nodes() const {
  const state& s = the_state();
  return static_cast<int>(s.job ? s.job->size() : farcall::node_count());
}

farcall::node runtime::node(node_t number) const {
  const state& s = the_state();
  const auto id = static_cast<farcall::node_id>(number);
  return s.job ? s.job->node_at(id) : farcall::node_at(id);
}

const net::node_descriptor& runtime::node_description(node_t number) {
  const farcall::node which = node(number);
  state& s = the_state();
  const std::lock_guard guard(s.mutex);
  // References stay valid: the vector gets its size once.
  if (s.descriptions.empty()) s.descriptions.resize(static_cast<std::size_t>(num_nodes()));
  auto& known = s.descriptions[static_cast<std::size_t>(number)];
  if (!known) known.emplace(which.description().host);
  return *known;
}

void runtime::abort() { std::abort(); }

void detail::report_lost(std::exception_ptr failure) noexcept {
  try {
    std::rethrow_exception(std::move(failure));
  } catch (const std::exception& e) {
    farcall::log::error(std::string("an offload whose future was dropped ended with: ") + e.what());
  } catch (...) {
    farcall::log::error("an offload whose future was dropped ended with an unknown exception");
  }
}

bool ham_init(int argc, char* argv[]) {
  try {
    return runtime::instance().start(argc, argv);
  } catch (const farcall::error& e) {
    // HAM's programs expect no exceptions here.
    std::fprintf(stderr, "%s\n", e.what());
    std::exit(EXIT_FAILURE);
  }
}
bool ham_init(int* argc, char* argv[]) { return ham_init(*argc, argv); }

int ham_finalise() {
  runtime::instance().stop();
  return 0;
}

} // namespace ham::offload

namespace ham::net {

node_t this_node() { return offload::runtime::instance().this_node(); }
bool initialised() { return offload::runtime::instance().initialised(); }

} // namespace ham::net
