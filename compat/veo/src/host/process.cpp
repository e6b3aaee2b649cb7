// SPDX-License-Identifier: Apache-2.0
#include "process.hpp"
#include "debug_log.hpp"
#include "last_error.hpp"
#include "nodes.hpp"
#include "settings.hpp"
#include "vhcall.hpp"

#include <farcall/base/error.hpp>
#include <farcall/base/log_wording.hpp>
#include <farcall/base/settings.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/copy/transfer.hpp>
#include <farcall/offload/job_state.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

namespace farcall::veo {
namespace {

/// Time limit for the start of a helper, in milliseconds, unless the user sets another one; the
/// same limit as in NEC's library.
constexpr std::uint64_t usual_start_timeout = 50'000;

constexpr const char* threads_variable = "VE_OMP_NUM_THREADS";
constexpr int max_cores = 4096;

/// Maximum number of bytes of a message in which put() and get() copy memory. They send messages if
/// no RMA engine can make the copy, or if the copy is too small for the engine.
constexpr std::size_t message_piece = std::size_t{256} << 10;

int core_setting(const char* name, int least, int otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  return static_cast<int>(parse_number(text, name, static_cast<std::uint64_t>(least), max_cores));
}

/// Returns the environment variables of the helper. Variables of the Vector Engine's runtime are
/// renamed to the names that runtimes on this machine read.
std::vector<std::string> helper_environment(int node) {
  std::vector<std::string> environment{"VE_NODE_NUMBER=" + std::to_string(node)};
  constexpr std::pair<const char*, const char*> names[] = {
      {threads_variable, "OMP_NUM_THREADS"},
      {"VE_LD_LIBRARY_PATH", "VE_LD_LIBRARY_PATH"},
      {"VE_FPE_ENABLE", "VE_FPE_ENABLE"}};
  for (const auto& [theirs, ours] : names) {
    // Skip an empty variable, because it counts as unset.
    if (const char* value = std::getenv(theirs); value != nullptr && *value != '\0') {
      environment.push_back(std::string(ours) + "=" + value);
    }
  }
  return environment;
}

std::unique_ptr<job> started_job(const helper_start& start) {
  settings::add(settings_of_veo);
  log::set_wording(&in_words_of_veo);
  // Check this setting now, because print_error() reads it later and cannot throw for an invalid
  // value.
  (void)settings_source().text(errors_setting);
  (void)core_setting(threads_variable, 1, 1);
  job_options o;
  o.targets = start.url;
  o.start_timeout = std::chrono::milliseconds(
      settings_source().number(settings::row("start-timeout-ms")).value_or(usual_start_timeout));
  o.lane_bytes = process::lane_bytes;
  // Keep the helpers out of any MPI job, because each process of an MPI program has its own
  // helpers.
  o.process_manager = "none";
  debug_log("starts " + start.url);
  try {
    return std::make_unique<job>(o);
  } catch (const start_failed& e) {
    if (start.named_by.empty()) throw;
    throw start_failed(e.what() + (" (" + start.named_by + ')'), e.node());
  }
}

std::string signal_text(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal)
                         : "signal " + std::to_string(signal) + " (SIG" + name + ")";
}

} // namespace

process::process(int node, const std::string& program, int identifier)
    : waits_for_main_(settings_source().text(order_setting) != "veo"), node_number_(node),
      identifier_(identifier), job_(started_job(start_of_helper(node, program))),
      where_(job_->targets().front()),
      helper_(sync(
          where_, start_helper{},
          helper_settings{node, identifier, serve_vhcall_if_asked(), helper_environment(node)})) {
  if (!helper_.remark.empty()) debug_log("helper: " + helper_.remark);
  contexts_.push_back(std::make_unique<context>(*this, settings_of_next({})));
}

process::~process() {
  const time_point deadline = deadline_after(finish_timeout);
  bool finished = true;
  for (const auto& c : contexts_)
    finished = c->finish(deadline) && finished;
  if (!finished) {
    // Kill the helper, because threads of contexts still wait for their kernels.
    debug_log("kernels did not end in time; the helper is killed");
    if (where_.description().transport == "shm" && helper_.pid != 0) {
      ::kill(static_cast<pid_t>(helper_.pid), SIGKILL);
    } else {
      job_.reset();
    }
  }
  contexts_.clear();
  job_.reset();
}

// ---- contexts -----------------------------------------------------------------------------------

context_settings process::settings_of_next(const context_attributes& attributes) {
  context_settings s;
  s.stack_bytes = attributes.stack_bytes;
  s.cores = core_setting(threads_variable, 1, 1);
  if (const int first = core_setting("VE_CORE_NUMBER", 0, -1); first >= 0) {
    s.first_core = first + static_cast<int>(contexts_made_) * s.cores;
  }
  ++contexts_made_;
  return s;
}

context& process::open(const context_attributes& attributes) {
  if (has_ended()) throw error(end_text());
  context_settings settings;
  {
    const std::lock_guard guard(mutex_);
    if (!std::exchange(main_is_open_, true)) return *contexts_.front();
    settings = settings_of_next(attributes);
  }
  auto made = std::make_unique<context>(*this, settings);
  const std::lock_guard guard(mutex_);
  contexts_.push_back(std::move(made));
  return *contexts_.back();
}

void process::close(context& c) {
  if (&c == &main()) return;
  (void)c.finish();
  std::unique_ptr<context> ending;
  {
    const std::lock_guard guard(mutex_);
    const auto it = std::find_if(contexts_.begin(), contexts_.end(),
                                 [&](const auto& known) { return known.get() == &c; });
    if (it == contexts_.end()) throw error("this context is not one of its process");
    ending = std::move(*it);
    contexts_.erase(it);
  }
}

std::size_t process::contexts() const {
  const std::lock_guard guard(mutex_);
  return main_is_open_ ? contexts_.size() : 0;
}

bool process::has(const context* c) const {
  const std::lock_guard guard(mutex_);
  return std::any_of(contexts_.begin(), contexts_.end(),
                     [&](const auto& known) { return known.get() == c; });
}

context* process::context_at(int index) const {
  const std::lock_guard guard(mutex_);
  if (index < 0 || static_cast<std::size_t>(index) >= contexts_.size()) return nullptr;
  return contexts_[static_cast<std::size_t>(index)].get();
}

// ---- libraries ----------------------------------------------------------------------------------

std::uint64_t process::load(const std::string& path) {
  const found f = ask(load_library{}, path);
  if (f.value == 0) throw error(path + " cannot be loaded: " + f.why);
  return f.value;
}

void process::unload(std::uint64_t library) {
  {
    const std::lock_guard guard(mutex_);
    std::erase_if(symbols_, [&](const auto& known) { return known.first.first == library; });
  }
  const found f = ask(unload_library{}, library);
  if (f.value == 0) throw error("the library cannot be unloaded: " + f.why);
}

std::uint64_t process::symbol(std::uint64_t library, const std::string& name) {
  const std::pair key(library, name);
  {
    const std::lock_guard guard(mutex_);
    if (const auto it = symbols_.find(key); it != symbols_.end()) return it->second;
  }
  const found f = ask(find_symbol{}, library, name);
  if (f.value == 0) throw error("there is no symbol " + name + ": " + f.why);
  const std::lock_guard guard(mutex_);
  symbols_[key] = f.value;
  return f.value;
}

// ---- memory -------------------------------------------------------------------------------------

void process::await_turn() {
  if (waits_for_main_) {
    main().await_idle();
  } else if (has_ended()) {
    throw error(end_text());
  }
}

void process::write(std::uint64_t to, const void* from, std::size_t bytes) {
  await_turn();
  put(to, from, bytes);
}

void process::read(void* to, std::uint64_t from, std::size_t bytes) {
  await_turn();
  get(to, from, bytes);
}

void process::put(std::uint64_t to, const void* from, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(from);
  detail::job_state& state = detail::state_of(*where_.job());
  rma_engine* m = state.engine->rma_engine_for(where_.id());
  if (m != nullptr && m->map(where_.id(), to, bytes).here != nullptr) {
    detail::put_bytes(state, where_.id(), to, first, bytes, detail::transfer_mode::async).get();
    return;
  }
  if (m != nullptr && bytes >= m->threshold() && m->put(where_.id(), to, first, bytes, no_deadline))
    return;
  // The helper checks that memory is mapped at the address, so the host sends the request
  // unchecked.
  for (std::size_t done = 0; done < bytes; done += message_piece) {
    const std::size_t n = std::min(message_piece, bytes - done);
    (void)accept(sync(where_, write_memory{}, to + done, std::span(first + done, n)));
  }
}

void process::get(void* to, std::uint64_t from, std::size_t bytes) {
  auto* first = static_cast<std::byte*>(to);
  detail::job_state& state = detail::state_of(*where_.job());
  rma_engine* m = state.engine->rma_engine_for(where_.id());
  if (m != nullptr && m->map(where_.id(), from, bytes).here != nullptr) {
    detail::get_bytes(state, where_.id(), from, first, bytes, detail::transfer_mode::async).get();
    return;
  }
  if (m != nullptr && bytes >= m->threshold() &&
      m->get(where_.id(), from, first, bytes, no_deadline)) {
    return;
  }
  for (std::size_t done = 0; done < bytes; done += message_piece) {
    const std::size_t n = std::min(message_piece, bytes - done);
    const outcome_with_bytes got = sync(where_, read_memory{}, from + done, std::uint64_t{n});
    (void)accept(got.what);
    if (got.received.size() != n) throw malformed_message("a read came back short");
    std::memcpy(first + done, got.received.data(), n);
  }
}

// ---- end of the helper --------------------------------------------------------------------------

void process::refuse(const outcome& o) {
  if (o.signal == outcome::refused) throw error(end_text());
  if (o.signal == outcome::not_callable) {
    throw error("the kernel takes or returns a structure, a long double or a complex number by "
                "value, which arguments of VEO do not describe: let it take an address");
  }
  if (o.signal == outcome::no_memory) {
    throw error("the helper process has no memory at this address, or may not use it so");
  }
  const std::string text = "a kernel has ended the helper process by " + signal_text(o.signal);
  note_failure(text, true);
  kernel_failed_.store(true, std::memory_order_release);
  throw kernel_failed(text, o.signal);
}

void process::note_failure(const std::string& text, bool ends) noexcept {
  debug_log("a request failed: " + text);
  {
    const std::lock_guard guard(mutex_);
    // Neither print nor store later failures, because they all follow from the failure that has
    // ended the process.
    if (failure_is_the_last_) return;
    failure_is_the_last_ = ends || !where_.alive();
    failure_ = text;
  }
  print_error(text);
}

std::string process::failure_text() const {
  const std::lock_guard guard(mutex_);
  return failure_;
}

std::string process::end_text() const {
  {
    const std::lock_guard guard(mutex_);
    if (failure_is_the_last_) return "the helper process has ended: " + failure_;
  }
  try {
    // Send a request to get the reason: a request to a helper that has ended fails at once and
    // names the reason.
    (void)sync(where_, read_memory{}, std::uint64_t{0}, std::uint64_t{0});
  } catch (...) {
    return current_error();
  }
  return "the helper process has ended";
}

} // namespace farcall::veo
