// SPDX-License-Identifier: Apache-2.0
#include "rivals.hpp"
#if FARCALL_TOOL_HAS_UCX

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>

#include <bench/runner/options.hpp>

namespace farcall::tool {

namespace {

constexpr unsigned message_id = 7;

/// Functions of the UCX library, which is loaded with dlopen() and not linked: the command must
/// start without UCX.
struct ucx_library {
  decltype(&ucp_config_read) config_read = nullptr;
  decltype(&ucp_config_modify) config_modify = nullptr;
  decltype(&ucp_config_release) config_release = nullptr;
  decltype(&ucp_init_version) init_version = nullptr;
  decltype(&ucp_cleanup) cleanup = nullptr;
  decltype(&ucp_get_version_string) version_string = nullptr;
  decltype(&ucp_worker_create) worker_create = nullptr;
  decltype(&ucp_worker_destroy) worker_destroy = nullptr;
  decltype(&ucp_worker_get_address) worker_get_address = nullptr;
  decltype(&ucp_worker_release_address) worker_release_address = nullptr;
  decltype(&ucp_worker_set_am_recv_handler) set_am_recv_handler = nullptr;
  decltype(&ucp_worker_progress) progress = nullptr;
  decltype(&ucp_ep_create) ep_create = nullptr;
  decltype(&ucp_am_send_nbx) am_send = nullptr;
  decltype(&ucp_request_check_status) request_status = nullptr;
  decltype(&ucp_request_free) request_free = nullptr;
  decltype(&ucs_status_string) status_string = nullptr;

  ucx_library() {
    void* ucp = open("libucp.so.0");
    void* ucs = open("libucs.so.0");
    load(ucp, "ucp_config_read", config_read);
    load(ucp, "ucp_config_modify", config_modify);
    load(ucp, "ucp_config_release", config_release);
    load(ucp, "ucp_init_version", init_version);
    load(ucp, "ucp_cleanup", cleanup);
    load(ucp, "ucp_get_version_string", version_string);
    load(ucp, "ucp_worker_create", worker_create);
    load(ucp, "ucp_worker_destroy", worker_destroy);
    load(ucp, "ucp_worker_get_address", worker_get_address);
    load(ucp, "ucp_worker_release_address", worker_release_address);
    load(ucp, "ucp_worker_set_am_recv_handler", set_am_recv_handler);
    load(ucp, "ucp_worker_progress", progress);
    load(ucp, "ucp_ep_create", ep_create);
    load(ucp, "ucp_am_send_nbx", am_send);
    load(ucp, "ucp_request_check_status", request_status);
    load(ucp, "ucp_request_free", request_free);
    load(ucs, "ucs_status_string", status_string);
  }

  void check(ucs_status_t status, const char* what) const {
    if (status != UCS_OK) throw failed_run(fmt::format("{}: {}", what, status_string(status)));
  }

 private:
  // Never unloaded: the process that loaded it ends after the measurement, and UCX has its own
  // threads and hooks.
  static void* open(const char* name) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw failed_run(fmt::format("not installed: {}", dlerror()));
    return library;
  }

  template <class Function>
  static void load(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) throw failed_run(fmt::format("this UCX has no {}", name));
  }
};

/// Transports that UCX may use, so that the figure does not depend on this machine's network cards.
/// Null for the user's choice.
struct ucx_transport {
  const char* names = nullptr;
  const char* device = nullptr;
};
constexpr ucx_transport posix_segments{"posix,self", nullptr};
constexpr ucx_transport tcp_on_loopback{"tcp,self", "lo"};
constexpr ucx_transport as_set{};

/// One side: a worker, an endpoint to the other side, and the last value received.
class ucx_side {
 public:
  ucx_side(int channel, const ucx_transport& over) {
    ucp_config_t* config = nullptr;
    library_.check(library_.config_read(nullptr, nullptr, &config), "ucp_config_read");
    if (over.names != nullptr) {
      library_.check(library_.config_modify(config, "TLS", over.names), "UCX_TLS");
    }
    if (over.device != nullptr) {
      library_.check(library_.config_modify(config, "NET_DEVICES", over.device), "UCX_NET_DEVICES");
    }
    ucp_params_t parameters{};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
    parameters.features = UCP_FEATURE_AM;
    const ucs_status_t status =
        library_.init_version(UCP_API_MAJOR, UCP_API_MINOR, &parameters, config, &context_);
    library_.config_release(config);
    library_.check(status, "ucp_init");

    ucp_worker_params_t worker_parameters{};
    worker_parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker_parameters.thread_mode = UCS_THREAD_MODE_SINGLE;
    library_.check(library_.worker_create(context_, &worker_parameters, &worker_),
                   "ucp_worker_create");

    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                         UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = message_id;
    handler.cb = &ucx_side::arrived;
    handler.arg = this;
    library_.check(library_.set_am_recv_handler(worker_, &handler),
                   "ucp_worker_set_am_recv_handler");
    connect(channel);
  }

  void send(std::uint64_t value) {
    sent_ = value; // UCX may read it until the send has completed
    ucp_request_param_t parameters{};
    ucs_status_ptr_t request =
        library_.am_send(endpoint_, message_id, nullptr, 0, &sent_, sizeof sent_, &parameters);
    if (UCS_PTR_IS_ERR(request)) library_.check(UCS_PTR_STATUS(request), "ucp_am_send_nbx");
    if (request == nullptr) return;
    while (library_.request_status(request) == UCS_INPROGRESS)
      library_.progress(worker_);
    library_.request_free(request);
  }

  void progress() { library_.progress(worker_); }
  [[nodiscard]] std::uint64_t last_arrived() const { return last_arrived_; }

 private:
  static ucs_status_t arrived(void* self, const void*, std::size_t, void* data, std::size_t size,
                              const ucp_am_recv_param_t*) {
    if (size == sizeof(std::uint64_t))
      std::memcpy(&static_cast<ucx_side*>(self)->last_arrived_, data, size);
    return UCS_OK;
  }

  void connect(int channel) {
    ucp_address_t* own = nullptr;
    std::size_t own_size = 0;
    library_.check(library_.worker_get_address(worker_, &own, &own_size), "ucp_worker_get_address");
    const bool sent =
        ::send(channel, own, own_size, MSG_NOSIGNAL) == static_cast<ssize_t>(own_size);
    library_.worker_release_address(worker_, own);
    std::array<char, 65536> other{};
    if (!sent || recv(channel, other.data(), other.size(), 0) <= 0) {
      throw failed_run("the two processes could not exchange their UCX addresses");
    }
    ucp_ep_params_t parameters{};
    parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    parameters.address = reinterpret_cast<const ucp_address_t*>(other.data());
    library_.check(library_.ep_create(worker_, &parameters, &endpoint_), "ucp_ep_create");
  }

  ucx_library library_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  std::uint64_t sent_ = 0;
  std::uint64_t last_arrived_ = 0;
};

/// Progresses until `expected` has arrived; checks `alive` now and then, so as not to spin for a
/// process that has gone.
template <class Alive>
bool progress_until(ucx_side& side, std::uint64_t expected, Alive alive) {
  for (std::uint32_t turns = 1; side.last_arrived() != expected; ++turns) {
    side.progress();
    if (turns % 65536 == 0) {
      if (!alive()) return false;
      sched_yield();
    }
  }
  return true;
}

std::vector<double> ping_pong(const rival_settings& settings, const ucx_transport& over) {
  std::array<int, 2> channel{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, channel.data()) != 0)
    throw failed_run("cannot make a socket pair");
  const pid_t parent = getpid();
  // Forked before UCX is loaded: a UCX context does not survive a fork.
  forked_process echo{[&] {
    ::close(channel[0]);
    pin_this_thread(settings.cores.target);
    ucx_side side{channel[1], over};
    for (std::uint64_t expected = 1;; ++expected) {
      if (!progress_until(side, expected, [&] { return !orphaned(parent); })) return 0;
      side.send(expected);
    }
  }};
  ::close(channel[1]);
  pin_this_thread(settings.cores.host);
  ucx_side side{channel[0], over};
  std::uint64_t sent = 0;
  return time_batches(settings.batches, settings.calls, settings.warm_up(), [&] {
    for (std::size_t i = 0; i < settings.calls; ++i) {
      side.send(++sent);
      if (!progress_until(side, sent, [&] { return echo.alive(); })) {
        throw failed_run("the other side has gone: " + echo.fate());
      }
    }
  });
}

std::function<measured(const rival_settings&)> measuring(const ucx_transport& over) {
  return [over](const rival_settings& settings) {
    return measure_isolated([&] { return ping_pong(settings, over); }, settings.limit());
  };
}

} // namespace

rival ucx_rival() {
  return {
      "ucx_am",
      fmt::format("UCX active messages (ucp_am, posix, API {}.{})", UCP_API_MAJOR, UCP_API_MINOR),
      measuring(posix_segments)};
}

rival ucx_tcp_rival() {
  return {"ucx_am_tcp",
          fmt::format("UCX active messages over TCP (ucp_am, tcp, loopback, API {}.{})",
                      UCP_API_MAJOR, UCP_API_MINOR),
          measuring(tcp_on_loopback)};
}

rival ucx_rival_as_set() {
  return {"ucx_am_as_set", "UCX active messages (ucp_am)", measuring(as_set)};
}

} // namespace farcall::tool

#else

namespace farcall::tool {

namespace {

measured absent(const rival_settings& /*settings*/) {
  return {{}, "not built in: the UCX headers (libucx-dev) were not found when this was configured"};
}

} // namespace

rival ucx_rival() { return {"ucx_am", "UCX active messages (ucp_am, posix)", absent}; }

rival ucx_tcp_rival() {
  return {"ucx_am_tcp", "UCX active messages over TCP (ucp_am, tcp, loopback)", absent};
}

rival ucx_rival_as_set() { return {"ucx_am_as_set", "UCX active messages (ucp_am)", absent}; }

} // namespace farcall::tool

#endif
