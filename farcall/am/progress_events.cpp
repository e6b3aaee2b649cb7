// SPDX-License-Identifier: Apache-2.0
#include <farcall/am/progress_events.hpp>

#include <sys/epoll.h>

namespace farcall::am {

progress_events::progress_events(std::span<transport* const> transports) : progress_events() {
  for (transport* const t : transports) {
    if (t->wait_fd() < 0) continue;
    if (loop_ == nullptr) loop_ = common_event_loop();
    watched_.reserve(transports.size());
    loop_->add(t->wait_fd(), EPOLLIN, std::make_shared<function_handler>([t] { t->progress(); }));
    watched_.push_back(t->wait_fd());
  }
}

progress_events::~progress_events() {
  for (const int fd : watched_)
    loop_->remove(fd);
  if (loop_ != nullptr) loop_->drain();
}

} // namespace farcall::am
