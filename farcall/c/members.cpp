// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/unique_fd.hpp>
#include <farcall/c/convert.hpp>
#include <farcall/offload/node_change.hpp>
#include <farcall/transport/target_url.hpp>

#include <memory>
#include <utility>

using namespace farcall;
using namespace farcall::c;

namespace {

[[nodiscard]] fc_node handle_of_node(const node& n) noexcept {
  return {handle_of(detail::state_of(*n.job())), nullptr, 0, n.id(), 0};
}

[[nodiscard]] fc_node_change in_c(node_change what) noexcept {
  switch (what) {
  case node_change::joined:
    return FC_CHANGE_JOINED;
  case node_change::failed:
    return FC_CHANGE_FAILED;
  default:
    return FC_CHANGE_REMOVED;
  }
}

class c_observer final : public detail::node_observer {
 public:
  c_observer(fc_node_callback callback, void* user) noexcept : callback_(callback), user_(user) {}
  void changed(const node_event& event) override {
    const fc_node_event told{handle_of_node(event.where), event.why.c_str(), in_c(event.what),
                             event.replaces};
    callback_(&told, user_);
  }

 private:
  fc_node_callback callback_;
  void* user_;
};

} // namespace

fc_status fc_node_add(fc_job* job, const char* url, fc_node* node) {
  return guarded([&] {
    require(url, "url");
    const farcall::node added = detail::add_target(job_of(job), url);
    if (node != nullptr) *node = handle_of_node(added);
  });
}

fc_status fc_node_add_socket(fc_job* job, int socket, uint32_t workers, uint32_t replaces,
                             fc_node* node) {
  return guarded([&] {
    unique_fd owned(socket);
    const farcall::node added =
        detail::add_existing_target(job_of(job), std::move(owned), workers, replaces);
    if (node != nullptr) *node = handle_of_node(added);
  });
}

fc_status fc_node_remove(fc_node node) {
  return guarded([&] { detail::remove_target(node_of(node)); });
}

fc_status fc_node_restart(fc_node failed, fc_node* started) {
  return guarded([&] {
    const node again = detail::restart_target(node_of(failed));
    if (started != nullptr) *started = handle_of_node(again);
  });
}

fc_status fc_on_node_change(fc_job* job, fc_node_callback callback, void* user) {
  return guarded([&] {
    require(reinterpret_cast<const void*>(callback), "callback");
    detail::observe(job_of(job), std::make_shared<c_observer>(callback, user));
  });
}
