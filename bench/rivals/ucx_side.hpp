// SPDX-License-Identifier: Apache-2.0
#pragma once

// Included only if the UCX headers were found when this was configured.

#include <bench/runner/options.hpp>
#include <tools/common/outcome.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include <dlfcn.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <ucp/api/ucp.h>

/// UCX without the library of farcall: one side of a bare ping-pong, and bare copies.
namespace farcall::tool {

inline constexpr unsigned ucx_message_id = 7;

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
  decltype(&ucp_mem_map) mem_map = nullptr;
  decltype(&ucp_mem_unmap) mem_unmap = nullptr;
  decltype(&ucp_mem_query) mem_query = nullptr;
  decltype(&ucp_rkey_pack) rkey_pack = nullptr;
  decltype(&ucp_rkey_buffer_release) rkey_buffer_release = nullptr;
  decltype(&ucp_ep_rkey_unpack) rkey_unpack = nullptr;
  decltype(&ucp_put_nbx) put = nullptr;
  decltype(&ucp_get_nbx) get = nullptr;
  decltype(&ucp_ep_flush_nbx) flush = nullptr;
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
    load(ucp, "ucp_mem_map", mem_map);
    load(ucp, "ucp_mem_unmap", mem_unmap);
    load(ucp, "ucp_mem_query", mem_query);
    load(ucp, "ucp_rkey_pack", rkey_pack);
    load(ucp, "ucp_rkey_buffer_release", rkey_buffer_release);
    load(ucp, "ucp_ep_rkey_unpack", rkey_unpack);
    load(ucp, "ucp_put_nbx", put);
    load(ucp, "ucp_get_nbx", get);
    load(ucp, "ucp_ep_flush_nbx", flush);
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
inline constexpr ucx_transport posix_segments{"posix,self", nullptr};
inline constexpr ucx_transport tcp_on_loopback{"tcp,self", "lo"};
inline constexpr ucx_transport as_set{};

/// Side of a connection of UCX: a worker, an endpoint to the other side, and the last value
/// received.
class ucx_side {
 public:
  /// Connects to the other side, whose address comes over the socket `channel`. `features` are
  /// UCX's, active messages and perhaps copies (UCP_FEATURE_RMA).
  ucx_side(int channel, const ucx_transport& over, std::uint64_t features = UCP_FEATURE_AM) {
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
    parameters.features = features;
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
    handler.id = ucx_message_id;
    handler.cb = &ucx_side::arrived;
    handler.arg = this;
    library_.check(library_.set_am_recv_handler(worker_, &handler),
                   "ucp_worker_set_am_recv_handler");
    connect(channel);
  }

  void send(std::uint64_t value) { send(value, 0, sizeof value); }
  /// Sends `value` in a message with a header and a payload of these sizes.
  void send(std::uint64_t value, std::size_t header_bytes, std::size_t bytes) {
    sent_.front() = value; // UCX may read it until the send has completed
    ucp_request_param_t parameters{};
    complete(library_.am_send(endpoint_, ucx_message_id, header_.data(), header_bytes, sent_.data(),
                              bytes, &parameters),
             "ucp_am_send_nbx");
  }

  /// Allocates memory for copies, as ucx_perftest does.
  void make_memory(std::size_t bytes) {
    ucp_mem_map_params_t parameters{};
    parameters.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
    parameters.length = bytes;
    parameters.flags = UCP_MEM_MAP_ALLOCATE;
    library_.check(library_.mem_map(context_, &parameters, &memory_), "ucp_mem_map");
    ucp_mem_attr_t found{};
    found.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
    library_.check(library_.mem_query(memory_, &found), "ucp_mem_query");
    here_ = found.address;
    std::memset(here_, 1, bytes);
  }
  /// Tells the other side where this side's memory is.
  void offer_memory(int channel) {
    void* key = nullptr;
    std::size_t bytes = 0;
    library_.check(library_.rkey_pack(context_, memory_, &key, &bytes), "ucp_rkey_pack");
    std::vector<std::byte> message(sizeof here_ + bytes);
    std::memcpy(message.data(), &here_, sizeof here_);
    std::memcpy(message.data() + sizeof here_, key, bytes);
    library_.rkey_buffer_release(key);
    if (::send(channel, message.data(), message.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(message.size()))
      throw failed_run("the other side has gone before the measurement");
  }
  /// Takes the other side's message of offer_memory().
  void take_memory(int channel) {
    std::array<std::byte, 4096> message{};
    if (recv(channel, message.data(), message.size(), 0) <= static_cast<ssize_t>(sizeof there_))
      throw failed_run("the other side has gone before the measurement");
    std::memcpy(&there_, message.data(), sizeof there_);
    library_.check(library_.rkey_unpack(endpoint_, message.data() + sizeof there_, &key_),
                   "ucp_ep_rkey_unpack");
  }
  /// Copies this side's memory to the other side's, or back, and waits until the copy has ended.
  void copy(std::size_t bytes, bool is_put) {
    ucp_request_param_t parameters{};
    const auto there = reinterpret_cast<std::uint64_t>(there_);
    complete(is_put ? library_.put(endpoint_, here_, bytes, there, key_, &parameters)
                    : library_.get(endpoint_, here_, bytes, there, key_, &parameters),
             is_put ? "ucp_put_nbx" : "ucp_get_nbx");
    if (is_put) complete(library_.flush(endpoint_, &parameters), "ucp_ep_flush_nbx");
  }

  void progress() { library_.progress(worker_); }
  [[nodiscard]] std::uint64_t last_arrived() const { return last_arrived_; }

 private:
  /// Waits for the end of an operation.
  void complete(ucs_status_ptr_t request, const char* what) {
    if (UCS_PTR_IS_ERR(request)) library_.check(UCS_PTR_STATUS(request), what);
    if (request == nullptr) return;
    while (library_.request_status(request) == UCS_INPROGRESS)
      library_.progress(worker_);
    library_.request_free(request);
  }

  static ucs_status_t arrived(void* self, const void*, std::size_t, void* data, std::size_t size,
                              const ucp_am_recv_param_t*) {
    auto& value = static_cast<ucx_side*>(self)->last_arrived_;
    if (size >= sizeof value) std::memcpy(&value, data, sizeof value);
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
  std::array<std::uint64_t, 8> header_{};
  std::array<std::uint64_t, 8> sent_{};
  std::uint64_t last_arrived_ = 0;
  ucp_mem_h memory_ = nullptr;
  void* here_ = nullptr;  ///< this side's memory for copies
  void* there_ = nullptr; ///< the other side's
  ucp_rkey_h key_ = nullptr;
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

} // namespace farcall::tool
