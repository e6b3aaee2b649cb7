// SPDX-License-Identifier: Apache-2.0
#include <ham/misc/options.hpp>
#include <ham/msg/msg_handler_registry.hpp>
#include <ham/offload/offload.hpp>
#include <ham/util/cpu_affinity.hpp>

#include <farcall/base/log.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/job/process_group.hpp>
#include <farcall/offload/job_settings.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ham::offload {
namespace {

constexpr const char* help_text =
    "Options of HAM (also in the variable HAM_OPTIONS):\n"
    "  --ham-process-count N   processes of the job, the host included\n"
    "  --ham-cpu-affinity N    processor for this process\n"
    "  --ham-help              this text\n"
    "HAM's other options are accepted, without effect. 'farcall run -n 3 ./program' starts a\n"
    "program with two targets; FARCALL_TARGETS and --farcall-help offer more.\n";

bool has_option(int argc, char** argv, std::string_view option) {
  return std::any_of(argv + 1, argv + argc,
                     [&](std::string_view word) { return word.starts_with(option); });
}

bool names_targets(const ham::detail::options& given, int argc, char** argv) {
  return given.process_count() || farcall::environment("FARCALL_TARGETS") ||
         has_option(argc, argv, "--farcall-targets");
}

/// Refuses to start if a launcher has started several processes that cannot find each other,
/// because each process would be the host of a separate job. Throws farcall::setting_error in this
/// case. If the user has named targets, several jobs are intended, so that this function only logs
/// a warning.
void require_one_host(bool names_targets) {
  const auto launched = farcall::launched_together();
  if (!launched) return;
  const std::string several =
      "a launcher has started several processes of this program (" + launched->by + ')';
  if (names_targets) {
    farcall::log::warning(several + ", and each is a job by itself, with targets of its own");
    return;
  }
  throw farcall::setting_error(
      several +
      ", and each would be a job by itself. Start it once, with its targets: "
      "'farcall run -n " +
      launched->count +
      " ./program', or FARCALL_TARGETS for other machines. If you want so many jobs, name the "
      "targets of each: FARCALL_TARGETS=shm:1");
}

struct state {
  state() = default;
  state(const state&) = delete;
  state& operator=(const state&) = delete;
  /// Ends the job when the program exits. Objects that are destroyed later may still call functions
  /// of runtime.
  ~state() { runtime::instance().stop(); }

  std::vector<farcall::node> nodes;
  std::optional<farcall::job> job;
  bool has_started = false;
  /// Number that this process had in a job that has ended.
  std::optional<node_t> was_node;
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
  s.was_node.reset();
  // Initialise the registry of messages for programs that transfer messages by their own means.
  msg::msg_handler_registry::init();
  if (farcall::serve_as_target()) {
    s.was_node = static_cast<node_t>(farcall::detail::own_id());
    return false;
  }
  ham::detail::options given(&argc, &argv);
  given.parse();
  if (given.help()) std::fputs(help_text, stdout);
  if (given.cpu_affinity() >= 0 && !util::detail::pin_to(given.cpu_affinity())) {
    throw farcall::setting_error("--ham-cpu-affinity " + std::to_string(given.cpu_affinity()) +
                                 ": this process may not run on that processor");
  }
  const bool is_launched = farcall::is_launched(farcall::detail::process_manager_of({}));
  // Make no check for a server (--farcall-serve): a launcher may start several servers, because
  // each of them waits for a host and does not start a job itself.
  if (!is_launched && !has_option(argc, argv, "--farcall-serve")) {
    require_one_host(names_targets(given, argc, argv));
  }
  farcall::job_options options;
  // Leave `options.targets` empty for 1 or 2 processes. farcall then starts one target, which is
  // also HAM's default and minimum.
  if (!is_launched && given.process_count() && *given.process_count() > 2) {
    options.targets = "shm:" + std::to_string(*given.process_count() - 1);
  }
  // Pass a copy of argv, because the job removes its options and the program's argv must not
  // change.
  std::vector<char*> words(argv, argv + argc);
  words.push_back(nullptr);
  s.job.emplace(argc, words.data(), options);
  if (given.process_count() &&
      s.job->size() != std::max<std::uint64_t>(*given.process_count(), 2)) {
    farcall::log::warning("--ham-process-count " + std::to_string(*given.process_count()) +
                          " has no effect: FARCALL_TARGETS, --farcall-targets or the launcher of "
                          "this program names the targets of this job, which has " +
                          std::to_string(s.job->size()) + " processes");
  }
  s.nodes.clear();
  for (farcall::node_id i = 0; i < s.job->size(); ++i)
    s.nodes.push_back(s.job->node_at(i));
  nodes_ = s.nodes;
  return true;
}

void runtime::stop() {
  state& s = the_state();
  nodes_ = {};
  if (!s.job) return;
  s.job.reset();
  s.was_node = 0;
}

bool runtime::initialised() const noexcept { return the_state().has_started; }

node_t runtime::this_node() const {
  const state& s = the_state();
  if (s.was_node) return *s.was_node;
  return s.job ? 0 : static_cast<node_t>(farcall::this_node().id());
}

int runtime::num_nodes() const {
  const state& s = the_state();
  return static_cast<int>(s.job ? s.job->size() : farcall::node_count());
}

farcall::node runtime::find_node(node_t number) const {
  const state& s = the_state();
  const auto id = static_cast<farcall::node_id>(number);
  return s.job ? s.job->node_at(id) : farcall::node_at(id);
}

const net::node_descriptor& runtime::node_description(node_t number) {
  const farcall::node which = node(number);
  state& s = the_state();
  const std::lock_guard guard(s.mutex);
  // Resize the vector only once, so that references to its elements stay valid.
  if (s.descriptions.empty()) s.descriptions.resize(static_cast<std::size_t>(num_nodes()));
  auto& known = s.descriptions[static_cast<std::size_t>(number)];
  if (!known) known.emplace(which.description().host);
  return *known;
}

void detail::report_lost(std::exception_ptr failure) noexcept {
  try {
    std::rethrow_exception(std::move(failure));
  } catch (const std::exception& e) {
    farcall::log::error(std::string("an offload whose future was dropped ended with: ") +
                        farcall::exception_text(e));
  } catch (...) {
    farcall::log::error("an offload whose future was dropped ended with an unknown exception");
  }
}

bool ham_init(int argc, char* argv[]) {
  try {
    return runtime::instance().start(argc, argv);
  } catch (const farcall::error& e) {
    // Exit here, because programs written for HAM do not catch exceptions of ham_init().
    std::fprintf(stderr, "%s\n", e.what());
    std::exit(EXIT_FAILURE);
  }
}
bool ham_init(int* argc, char** argv[]) { return ham_init(*argc, *argv); }

int ham_finalise() {
  runtime::instance().stop();
  return 0;
}

} // namespace ham::offload

namespace ham::net {

node_t this_node() { return offload::runtime::instance().this_node(); }
bool initialised() { return offload::runtime::instance().initialised(); }

} // namespace ham::net
