// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/log.hpp>
#include <farcall/transport/ucx/worker.hpp>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include <sched.h>
#include <unistd.h>

#if __has_include(<ucs/debug/debug.h>)
#include <ucs/debug/debug.h>
#define FARCALL_UCX_HAS_SIGNALS 1
#endif

namespace farcall::ucx {
namespace {

/// While users poll, interval at which the event loop checks if they still do.
constexpr std::chrono::microseconds poll_interval{400};
/// First and longest interval at which the event loop polls while UCX operations are in progress
/// whose completion causes no event.
constexpr std::chrono::microseconds min_busy{50};
constexpr std::chrono::milliseconds max_busy{10};
/// Limit of the attempts to arm UCX's descriptor. After that many failed attempts, the event loop
/// polls instead.
constexpr int max_arm_attempts = 64;
/// Longest time for which the end of the worker waits until messages are delivered and endpoints
/// closed.
constexpr std::chrono::seconds last_sending{1};

/// Limit of the length of messages, which is the largest number, because UCX has no such limit.
constexpr std::size_t any_bytes = ~std::size_t{0};

/// Number of zero bytes that this code adds behind an address. UCX reads an address without a bound
/// (ucp_ep_create). If the address was truncated, UCX then reads the zeros instead of other memory.
constexpr std::size_t address_padding = 1024;

/// Blocks all signals as long as the object lives, because UCX starts a thread of its own, which
/// must not receive the program's signals.
class no_signals {
 public:
  no_signals() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  no_signals(const no_signals&) = delete;
  no_signals& operator=(const no_signals&) = delete;
  ~no_signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

#if defined(FARCALL_UCX_HAS_SIGNALS)
/// Gives up UCX's handlers for the signals of faults. UCX installs them when it is loaded, just
/// before this code runs, and would print a backtrace in place of the report of farcall or the
/// program. The handlers stay if the user has set UCX_HANDLE_ERRORS.
[[maybe_unused]] const bool are_signals_given_back = [] {
  if (std::getenv("UCX_HANDLE_ERRORS") != nullptr) return false;
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    ::ucs_debug_disable_signal(fault);
  return true;
}();
#endif

/// Returns a text with the environment variables that UCX has read, for example " (UCX_TLS=tcp)".
std::string variables() {
  std::string all;
  for (char** v = environ; v != nullptr && *v != nullptr; ++v) {
    if (std::string_view(*v).starts_with("UCX_"))
      all += (all.empty() ? "" : ", ") + std::string(*v);
  }
  return all.empty() ? " (no variable UCX_... is set)" : " (" + all + ")";
}

[[noreturn]] void throw_status(const std::string& what, ucs_status_t status) {
  throw error(what + ": " + text_of(status));
}

/// Reads the names of UCX's resources from the text by which UCX describes a context, because no
/// other function returns them. The lines with a name end in "flags -- tcp/eth0".
std::vector<std::string> resources_of(ucp_context_h context) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const stream = ::open_memstream(&text, &size);
  if (stream == nullptr) return {};
  ::ucp_context_print_info(context, stream);
  std::fclose(stream);
  const std::string all(text, size);
  std::free(text);
  std::vector<std::string> found;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\n', at), all.size());
    const std::string_view line(all.data() + at, end - at);
    at = end + 1;
    if (line.find("resource") == std::string_view::npos) continue;
    const std::size_t space = line.find_last_of(' ');
    const std::string_view last = line.substr(space == std::string_view::npos ? 0 : space + 1);
    if (last.find('/') != std::string_view::npos) found.emplace_back(last);
  }
  return found;
}

ucp_context_h make_context() {
  const no_signals guard;
  ucp_config_t* config = nullptr;
  ucs_status_t status = ::ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) throw_status("UCX does not take its configuration" + variables(), status);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  ucp_context_h made = nullptr;
  status = ::ucp_init(&params, config, &made);
  ::ucp_config_release(config);
  if (status != UCS_OK) throw_status("UCX finds nothing to use here" + variables(), status);
  return made;
}

} // namespace

std::string text_of(ucs_status_t status) { return ::ucs_status_string(status); }

namespace {

/// True if UCX's name of a resource denotes a transport within one machine. Such transports do not
/// detect failures.
bool is_local(const std::string& resource) {
  constexpr std::array local{"self/", "sysv/",  "posix/", "cma/",
                             "knem/", "xpmem/", "cuda_",  "rocm_"};
  return std::any_of(local.begin(), local.end(),
                     [&](const char* l) { return resource.starts_with(l); });
}

} // namespace

bool resources::has_network() const {
  return all.empty() || std::any_of(all.begin(), all.end(), [](const std::string& r) {
           return !is_local(r) && r != "tcp/lo";
         });
}

bool resources::notice_failures() const {
  return all.empty() || !std::all_of(all.begin(), all.end(), is_local);
}

std::string resources::transports() const {
  std::string text;
  std::string last;
  for (const std::string& r : all) {
    const std::string name = r.substr(0, r.find('/'));
    if (name == last || name == "self") continue;
    text += (text.empty() ? "" : ", ") + name;
    last = name;
  }
  return text;
}

resources find_resources() {
  const ucp_context_h context = make_context();
  resources found{resources_of(context)};
  ::ucp_cleanup(context);
  return found;
}

std::string library_version() { return ::ucp_get_version_string(); }

struct worker::pending_header {
  worker* self;
  std::array<std::byte, max_header> header;
};

worker::worker(receiver& to) : message_link(any_bytes), to_(&to) {
  try {
    context_ = make_context();
    resources_.all = resources_of(context_);
    make_worker();
    watch_forks();
  } catch (...) {
    destroy();
    throw;
  }
}

worker::~worker() {
  unwatch_forks();
  stop();
}

void worker::stop() noexcept {
  // In a child of a fork, do nothing, because UCX has no threads there, and the connections belong
  // to the parent.
  if (is_forked_ || worker_ == nullptr) return;
  close_endpoints();
  destroy();
}

void worker::make_worker() {
  const no_signals guard;
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t status = ::ucp_worker_create(context_, &params, &worker_);
  if (status != UCS_OK) throw_status("UCX makes no worker" + variables(), status);
  handlers_.resize(last_message + 1);
  for (unsigned id = 1; id <= last_message; ++id) {
    handlers_[id] = {this, static_cast<std::uint16_t>(id)};
    ucp_am_handler_param_t on{};
    on.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                    UCP_AM_HANDLER_PARAM_FIELD_ARG;
    on.id = id;
    on.cb = &worker::on_message;
    on.arg = &handlers_[id];
    status = ::ucp_worker_set_am_recv_handler(worker_, &on);
    if (status != UCS_OK) throw_status("UCX takes no handler of active messages", status);
  }
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  status = ::ucp_worker_get_address(worker_, &address, &bytes);
  if (status != UCS_OK) throw_status("UCX gives its worker no address", status);
  const auto* const first = reinterpret_cast<const std::byte*>(address);
  address_.assign(first, first + bytes);
  ::ucp_worker_release_address(worker_, address);
  int events = -1;
  status = ::ucp_worker_get_efd(worker_, &events);
  if (status != UCS_OK) throw_status("UCX cannot wake a thread" + variables(), status);
  wake_up_ = std::make_unique<wake_up>(events);
}

void worker::destroy() noexcept {
  wake_up_.reset();
  if (worker_ != nullptr) ::ucp_worker_destroy(std::exchange(worker_, nullptr));
  if (context_ != nullptr) ::ucp_cleanup(std::exchange(context_, nullptr));
  for (pending_header* const p : pending_)
    delete p;
  pending_.clear();
}

// ---- endpoints ----------------------------------------------------------------------------------

void worker::connect(connection& to, std::span<const std::byte> address) {
  std::vector<std::byte> padded(address.size() + address_padding);
  std::copy(address.begin(), address.end(), padded.begin());
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(padded.data());
  // Do not ask for error handling if UCX has only shared memory, which does not detect that a peer
  // has died. The job detects this anyway, and UCX would print an error.
  params.err_mode =
      resources_.notice_failures() ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  params.err_handler.cb = &worker::on_error;
  params.err_handler.arg = &to;
  to.self = this;
  ucs_status_t status = ::ucp_ep_create(worker_, &params, &to.ep);
  to.handles_errors = status == UCS_OK && params.err_mode == UCP_ERR_HANDLING_MODE_PEER;
  if (params.err_mode == UCP_ERR_HANDLING_MODE_PEER &&
      (status == UCS_ERR_UNREACHABLE || status == UCS_ERR_UNSUPPORTED)) {
    // Try again without error handling, because the two nodes may share no transport that handles
    // errors.
    params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
    status = ::ucp_ep_create(worker_, &params, &to.ep);
  }
  if (status != UCS_OK) {
    to.ep = nullptr;
    throw error(node_text(to.node) + " cannot be reached by UCX" + variables() + ": " +
                    text_of(status),
                to.node);
  }
  try {
    connections_.insert(&to);
  } catch (...) {
    cut(to);
    throw;
  }
}

void worker::cut(connection& to) noexcept {
  connections_.erase(&to);
  const ucp_ep_h ep = std::exchange(to.ep, nullptr);
  // Leave an endpoint without error handling open, because closing it needs the peer. The end of
  // the worker destroys such an endpoint.
  if (ep == nullptr || !to.handles_errors) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* const request = ::ucp_ep_close_nbx(ep, &param);
  if (request == nullptr || UCS_PTR_IS_ERR(request)) return;
  try {
    closing_.push_back(request);
  } catch (const std::bad_alloc&) {
    ::ucp_request_free(request);
  }
}

bool worker::wait_for(std::vector<void*>& requests) noexcept {
  const time_point deadline = clock::now() + last_sending;
  for (;;) {
    std::erase_if(requests, [](void* request) {
      if (::ucp_request_check_status(request) == UCS_INPROGRESS) return false;
      ::ucp_request_free(request);
      return true;
    });
    if (requests.empty()) return true;
    if (clock::now() >= deadline) return false;
    if (::ucp_worker_progress(worker_) == 0) ::sched_yield();
  }
}

void worker::close_endpoints() noexcept {
  const std::lock_guard guard(mutex());
  std::vector<std::pair<ucp_ep_h, bool>> all;
  for (connection* const c : connections_) {
    if (const ucp_ep_h ep = std::exchange(c->ep, nullptr)) all.emplace_back(ep, c->handles_errors);
  }
  connections_.clear();
  std::vector<void*> requests = std::move(closing_);
  // Close all endpoints without force, so that messages that were sent are delivered. If a peer is
  // gone, this cannot succeed, but UCX reports that only for an endpoint that handles errors.
  for (const auto& [ep, handles_errors] : all) {
    ucp_request_param_t param{};
    void* const request = ::ucp_ep_close_nbx(ep, &param);
    if (request != nullptr && !UCS_PTR_IS_ERR(request)) requests.push_back(request);
  }
  if (wait_for(requests)) return;
  // Give up the requests that have not completed in time. The end of the worker destroys their
  // endpoints.
  for (void* const request : requests)
    ::ucp_request_free(request);
}

void worker::on_error(void* argument, ucp_ep_h /*ep*/, ucs_status_t /*status*/) noexcept {
  auto* const to = static_cast<connection*>(argument);
  if (std::exchange(to->has_failed, true)) return;
  to->self->failures_.push_back(to);
}

// ---- messages -----------------------------------------------------------------------------------

ucs_status_t worker::on_message(void* argument, const void* header, std::size_t header_bytes,
                                void* data, std::size_t bytes,
                                const ucp_am_recv_param_t* param) noexcept {
  const handler& h = *static_cast<const handler*>(argument);
  return h.self->to_->on_message(h.kind, {static_cast<const std::byte*>(header), header_bytes},
                                 data, bytes, (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0);
}

void worker::on_sent(void* request, ucs_status_t /*status*/, void* header) noexcept {
  auto* const sent = static_cast<pending_header*>(header);
  sent->self->pending_.erase(sent);
  sent->self->end_request(request);
  delete sent;
}

message_link::outcome worker::send(message_lane& from, const lane_header& header,
                                   std::span<const std::byte> bytes) noexcept {
  const auto& to = static_cast<const connection&>(from.to());
  if (to.ep == nullptr || to.has_failed) return outcome::failed;
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = &worker::on_lane_sent;
  param.user_data = &from;
  void* const request =
      ::ucp_am_send_nbx(to.ep, static_cast<unsigned>(lane_message::bytes), &header, sizeof header,
                        bytes.data(), bytes.size(), &param);
  if (request == nullptr) return outcome::sent;
  if (UCS_PTR_IS_ERR(request)) return outcome::failed;
  begin_request();
  return outcome::under_way;
}

void worker::on_lane_sent(void* request, ucs_status_t status, void* lane) noexcept {
  auto& from = *static_cast<message_lane*>(lane);
  static_cast<const connection&>(from.to()).self->end_request(request);
  from.was_sent(status == UCS_OK);
}

bool worker::post(message_peer& peer, lane_message kind,
                  std::span<const std::byte> header) noexcept {
  const auto& to = static_cast<const connection&>(peer);
  if (to.ep == nullptr || to.has_failed || to.is_gone) return false;
  try {
    auto copy = std::make_unique<pending_header>();
    copy->self = this;
    std::copy(header.begin(), header.end(), copy->header.begin());
    ucp_request_param_t param{};
    param.op_attr_mask =
        UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    param.cb.send = &worker::on_sent;
    param.user_data = copy.get();
    const auto at = pending_.insert(copy.get()).first;
    void* const request = ::ucp_am_send_nbx(to.ep, static_cast<unsigned>(kind), copy->header.data(),
                                            header.size(), nullptr, 0, &param);
    if (request == nullptr || UCS_PTR_IS_ERR(request)) {
      pending_.erase(at);
      return request == nullptr;
    }
    begin_request();
    copy.release(); // NOLINT(bugprone-unused-return-value): on_sent() has it
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

unsigned worker::progress() noexcept {
  const unsigned done = ::ucp_worker_progress(worker_);
  if (done != 0) busy_interval_ = {};
  to_->after_progress();
  if (!closing_.empty()) [[unlikely]] {
    std::erase_if(closing_, [](void* request) {
      if (::ucp_request_check_status(request) == UCS_INPROGRESS) return false;
      ::ucp_request_free(request);
      return true;
    });
  }
  return done;
}

// ---- waking up ----------------------------------------------------------------------------------

void worker::arm() noexcept {
  if (is_forked_) return;
  const std::unique_lock guard(mutex(), std::try_to_lock);
  if (guard) {
    arm_locked();
  } else {
    // Make the event loop poll later. The thread that has the lock may have made its last poll, and
    // so may not find what has arrived since.
    poll_again();
  }
}

void worker::poll_again() noexcept { wake_up_->after(poll_interval); }

void worker::arm_locked() noexcept {
  bool is_busy = requests_ != 0 && !resources_.notice_failures();
  for (int i = 0; !is_armed_.load(std::memory_order_relaxed); ++i) {
    if (i == max_arm_attempts) {
      is_busy = true;
      break;
    }
    // Poll before arming. UCX may have deferred operations to its next call, and such operations
    // cause no event.
    if (progress() != 0) continue;
    const ucs_status_t status = ::ucp_worker_arm(worker_);
    if (status == UCS_OK) {
      is_armed_.store(true, std::memory_order_relaxed);
      wake_up_->on_event();
    } else if (status != UCS_ERR_BUSY) {
      is_busy = true;
      break;
    }
  }
  if (!is_busy) return;
  busy_interval_ = std::clamp<std::chrono::nanoseconds>(busy_interval_ * 2, min_busy, max_busy);
  wake_up_->after(busy_interval_);
}

void worker::watch() noexcept {
  if (polls_ == polls_seen_) {
    arm_locked();
  } else {
    // Do not arm while users poll. Users receive the messages themselves, so that an event for each
    // message would be wasted.
    polls_seen_ = polls_;
    poll_again();
  }
}

} // namespace farcall::ucx
