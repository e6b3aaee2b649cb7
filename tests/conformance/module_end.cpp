// SPDX-License-Identifier: Apache-2.0
#include <farcall/transport/transport_module.hpp>
#include <tests/conformance/module_end.hpp>

#include <stdexcept>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace farcall::conformance {

transport_entry load_module(const char* file) {
  std::vector<transport_entry> rows;
  add_modules(rows, file, "this test");
  return rows.at(0);
}

module_end::module_end(const transport_entry& row, node_id id, std::uint32_t ring_bytes,
                       std::optional<group_place> group)
    : row_(&row), id_(id), ring_bytes_(ring_bytes), group_(group),
      window_(segment::create("farcall-test-window", window_bytes)),
      stop_(::eventfd(0, EFD_CLOEXEC)) {}

module_end::~module_end() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stop_.get(), &one, sizeof one);
  if (thread_.joinable()) thread_.join();
}

transport& module_end::link() {
  if (transport_ == nullptr) {
    transport_site site;
    site.self = id_;
    site.nodes = 2;
    site.lane_bytes = ring_bytes_;
    site.doorbells = doorbells_;
    site.windows = {{reinterpret_cast<std::uintptr_t>(window_.data()), window_.size()}};
    site.group = group_;
    transport_ = row_->make(site);
    if (transport_ == nullptr) throw std::runtime_error("the transport cannot be used");
  }
  return *transport_;
}

void module_end::meet(const card& peer) {
  link().admit(peer);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
}

void module_end::run() {
  for (;;) {
    pollfd watched[2] = {{stop_.get(), POLLIN, 0}, {transport_->wait_fd(), POLLIN, 0}};
    if (::poll(watched, 2, -1) < 0) continue;
    if (watched[0].revents != 0) return;
    transport_->progress();
  }
}

} // namespace farcall::conformance
