// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/am/engine.hpp>
#include <farcall/memory/segment.hpp>
#include <farcall/memory/shared_heap.hpp>
#include <farcall/transport/self/self.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace farcall::test {

/// An engine of one node that calls itself, without a job. If `first_is_pulled` is true, it has one
/// worker more, which helps the first one.
class lone_engine {
 public:
  explicit lone_engine(std::vector<am::handler_function> handlers, std::uint32_t workers = 1,
                       const call_context* context = nullptr, bool first_is_pulled = false)
      : doorbells_(std::make_unique<doorbell[]>(doorbell_count)),
        transport_(self::make({0, ring_bytes, {doorbells_.get(), doorbell_count}})) {
    am::engine_options o;
    o.workers = workers + (first_is_pulled ? 1 : 0);
    o.first_is_pulled = first_is_pulled;
    o.handlers = std::move(handlers);
    o.context = context;
    o.doorbells = {doorbells_.get(), doorbell_count};
    o.heap = std::make_shared<shared_heap>(segment::create("lone-engine", std::size_t{64} << 20),
                                           segment{});
    engine_ = std::make_shared<am::engine>(std::move(o));
    engine_->peers().set_route(0, *transport_, workers);
    engine_->acceptor().listen(*transport_);
  }
  lone_engine(const lone_engine&) = delete;
  lone_engine& operator=(const lone_engine&) = delete;
  ~lone_engine() { engine_->shut_down("the test is over"); }

  am::engine* operator->() const noexcept { return engine_.get(); }
  am::engine& operator*() const noexcept { return *engine_; }

  static constexpr std::uint32_t ring_bytes = 4096;

 private:
  static constexpr std::size_t doorbell_count = 64;
  std::unique_ptr<doorbell[]> doorbells_;
  std::unique_ptr<transport> transport_;
  std::shared_ptr<am::engine> engine_;
};

} // namespace farcall::test
