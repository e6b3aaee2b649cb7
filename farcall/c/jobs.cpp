// SPDX-License-Identifier: Apache-2.0
#include <farcall/c/convert.hpp>
#include <farcall/c/made_jobs.hpp>
#include <farcall/job/output_receiver.hpp>
#include <farcall/offload/job.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace farcall;
using namespace farcall::c;

namespace {

/// Passes lines that targets print to a callback of the program.
class c_output final : public output_receiver {
 public:
  c_output(fc_output callback, void* user) noexcept : callback_(callback), user_(user) {}
  void take_line(node_id node, output_stream stream, std::string_view line) override {
    callback_(node, static_cast<int>(stream), line.data(), line.size(), user_);
  }

 private:
  fc_output callback_;
  void* user_;
};

/// Returns the options in the layout of this library. Members that an older header lacks get the
/// value 0. Throws invalid_argument if the program has a newer header, and sets members that this
/// library does not know.
fc_job_options known_options(const fc_job_options& given) {
  if (given.size == 0) {
    throw invalid_argument("fc_job_options.size is 0; set it to sizeof(fc_job_options)");
  }
  fc_job_options known{};
  std::memcpy(&known, &given, std::min(given.size, sizeof known));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&given);
  for (std::size_t i = sizeof known; i < given.size; ++i) {
    if (bytes[i] == 0) continue;
    throw invalid_argument("fc_job_options has members that this version of farcall does not know");
  }
  return known;
}

job_options in_cpp(const fc_job_options& o) {
  const auto text = [](const char* t) { return std::string(t == nullptr ? "" : t); };
  const auto wait = [](std::int64_t us) {
    return us < 0 ? std::chrono::nanoseconds(0) : std::chrono::nanoseconds(us * 1000);
  };
  job_options to;
  to.targets = text(o.targets);
  to.program = text(o.program);
  to.key = text(o.key);
  to.certificate = text(o.certificate);
  to.certificate_key = text(o.certificate_key);
  to.authority = text(o.authority);
  for (const char* const* a = o.arguments; a != nullptr && *a != nullptr; ++a)
    to.arguments.emplace_back(*a);
  if (o.existing_target_count != 0) {
    require(o.existing_targets, "existing_targets");
    to.existing_targets.assign(o.existing_targets, o.existing_targets + o.existing_target_count);
  }
  to.heap_bytes = o.heap_bytes;
  to.lane_bytes = o.lane_bytes;
  to.start_timeout = std::chrono::milliseconds(o.start_timeout_ms);
  to.stop_timeout = std::chrono::milliseconds(o.stop_timeout_ms);
  to.heartbeat_timeout = std::chrono::milliseconds(o.heartbeat_timeout_ms);
  to.peer_timeout = std::chrono::milliseconds(o.peer_timeout_ms);
  to.release_timeout = std::chrono::milliseconds(o.release_timeout_ms);
  to.restart_lost_servers = o.restart_lost_servers != 0;
  if (o.spin_us != 0) to.waiting.spin = wait(o.spin_us);
  if (o.yield_after_us != 0) to.waiting.yield_after = wait(o.yield_after_us);
  to.progress = text(o.progress);
  to.process_manager = text(o.process_manager);
  to.server_key = text(o.server_key);
  to.host_files = text(o.host_files);
  to.trace = text(o.trace);
  to.crash_report = text(o.crash_report);
  to.workers = o.workers;
  to.label = o.label != 0;
  to.survive = o.survive != 0;
  return to;
}

} // namespace

given_options farcall::c::options_of(const fc_job_options* options) {
  given_options given;
  if (options == nullptr) return given;
  const fc_job_options known = known_options(*options);
  given.options = in_cpp(known);
  if (known.output != nullptr) {
    given.output = std::make_unique<c_output>(known.output, known.output_user);
    given.options.output = given.output.get();
  }
  return given;
}

// ---- made_jobs ----------------------------------------------------------------------------------

made_jobs& made_jobs::instance() {
  // The table is never destroyed. A job that the program has not ended therefore stays until the
  // process exits.
  static auto* const made = new made_jobs;
  return *made;
}

fc_job* made_jobs::add(made_job made) {
  fc_job* const handle = handle_of(detail::state_of(*made.job.host().job()));
  const std::lock_guard guard(mutex_);
  all_.emplace(handle, std::move(made));
  return handle;
}

job& made_jobs::find(fc_job* job) {
  const std::lock_guard guard(mutex_);
  const auto at = all_.find(job);
  if (at == all_.end()) throw invalid_argument("this is no job that the C interface has made");
  return at->second.job;
}

made_jobs::table::node_type made_jobs::take(fc_job* job) {
  const std::lock_guard guard(mutex_);
  return all_.extract(job);
}

// ---- jobs ---------------------------------------------------------------------------------------

fc_status fc_job_start(int* argc, char** argv, const fc_job_options* options, fc_job** job) {
  return guarded([&] {
    given_options o;
    try {
      require(job, "job");
      o = options_of(options);
    } catch (const invalid_argument&) {
      // Serve calls before reporting the error, because a target must serve even if its arguments
      // are invalid.
      serve_if_target();
      throw;
    }
    *job = made_jobs::instance().add(
        {std::move(o.output),
         argc == nullptr ? farcall::job(o.options) : farcall::job(*argc, argv, o.options)});
  });
}

void fc_job_end(fc_job* job) {
  // The destructor of the returned object ends the job.
  (void)made_jobs::instance().take(job);
}

fc_status fc_serve_if_target(void) {
  return guarded([] { serve_if_target(); });
}

fc_status fc_serve_as_target(bool* served) {
  return guarded([&] {
    require(served, "served");
    *served = serve_as_target();
  });
}

fc_status fc_serve_socket(int socket) {
  return guarded([&] { serve_as_target(socket); });
}

fc_job* fc_current_job(void) {
  fc_job* job = nullptr;
  (void)guarded([&] { job = handle_of(detail::current_job()); });
  return job;
}

uint32_t fc_job_size(fc_job* job) {
  std::uint32_t nodes = 0;
  (void)guarded([&] { nodes = static_cast<std::uint32_t>(job_of(job).members->nodes()); });
  return nodes;
}

fc_status fc_progress(fc_job* job) {
  return guarded([&] { job_of(job).engine->waiter().poll_all(); });
}

fc_status fc_wait_fd(fc_job* job, int* fd) {
  return guarded([&] {
    require(fd, "fd");
    *fd = job_of(job).wait_fd();
  });
}

// ---- nodes --------------------------------------------------------------------------------------

fc_status fc_node_at(fc_job* job, uint32_t id, fc_node* node) {
  return guarded([&] {
    require(node, "node");
    detail::job_state& state = job_of(job);
    if (!state.members->has(id)) {
      throw invalid_argument(missing_node_text(id, state.members->nodes()));
    }
    *node = {handle_of(state), nullptr, 0, id, 0};
  });
}

fc_status fc_latest_node(fc_job* job, uint32_t place, fc_node* node) {
  return guarded([&] {
    require(node, "node");
    detail::job_state& state = job_of(job);
    if (place >= state.members->nodes()) {
      throw invalid_argument("there is no place " + std::to_string(place) + ": the job has " +
                             std::to_string(state.members->nodes()) + " places with nodes");
    }
    *node = {handle_of(state), nullptr, 0, state.members->latest_at_place_of(place), 0};
  });
}

fc_status fc_this_node(fc_job* job, fc_node* node) {
  return guarded([&] {
    require(node, "node");
    detail::job_state& state = job_of(job);
    *node = {handle_of(state), nullptr, 0, state.members->self(), 0};
  });
}

bool fc_node_alive(fc_node node) {
  bool is_alive = false;
  (void)guarded([&] { is_alive = node_of(node).alive(); });
  return is_alive;
}

fc_status fc_node_describe(fc_node node, fc_node_description** description) {
  return guarded([&] {
    require(description, "description");
    const node_description d = node_of(node).description();
    const std::string* const texts[] = {&d.name, &d.host, &d.architecture, &d.transport, &d.route};
    std::size_t bytes = sizeof(fc_node_description);
    for (const std::string* t : texts)
      bytes += t->size() + 1;
    // Allocate one block for the description and its strings, so that the program can free both by
    // one fc_free().
    void* const block = std::malloc(bytes); // NOLINT(cppcoreguidelines-no-malloc): for fc_free()
    if (block == nullptr) throw std::bad_alloc();
    char* at = static_cast<char*>(block) + sizeof(fc_node_description);
    const char* kept[std::size(texts)];
    for (std::size_t i = 0; i < std::size(texts); ++i) {
      kept[i] = at;
      at = std::copy_n(texts[i]->c_str(), texts[i]->size() + 1, at);
    }
    *description = new (block) fc_node_description{kept[0], kept[1], kept[2], kept[3],   kept[4],
                                                   d.pid,   d.id,    d.cores, d.workers, 0};
  });
}

void fc_free(void* memory) {
  std::free(memory); // NOLINT(cppcoreguidelines-no-malloc): what fc_node_describe() has taken
}

fc_node fc_within(fc_node node, int64_t timeout_ns) {
  const time_point deadline = deadline_in(timeout_ns);
  node.deadline = deadline == no_deadline ? 0 : deadline.time_since_epoch().count();
  return node;
}

fc_node fc_stoppable(fc_node node) {
  node.flags |= stoppable_flag;
  return node;
}

fc_status fc_lane_open(fc_node node, fc_node* lane) {
  return guarded([&] {
    require(lane, "lane");
    auto* const opened = new farcall::lane(timed_node(node_of(node), deadline_of(node)));
    *lane = {node.job, opened, 0, node.id, node.flags};
  });
}

void fc_lane_close(fc_node lane) { delete static_cast<farcall::lane*>(lane.lane); }
