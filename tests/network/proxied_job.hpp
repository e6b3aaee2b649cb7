// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/network/proxy.hpp"
#include "tests/network/support.hpp"

#include <chrono>
#include <optional>
#include <string>

#include <unistd.h>

namespace farcall::test {

/// A job with one target, started by a server in this process, behind a proxy.
class proxied_job {
 protected:
  proxied_job(bool has_key, std::chrono::milliseconds heartbeat_timeout,
              std::chrono::milliseconds handshake_timeout = server_options().handshake_timeout) {
    key_ = folder_.make_key(has_key);
    server_options o = local_server(key_);
    o.handshake_timeout = handshake_timeout;
    server_.emplace(o);
    between_.emplace(port_of(*server_));
    job_options j = network_job(between_->url(), key_);
    j.heartbeat_timeout = heartbeat_timeout;
    job_.emplace(j);
    target_ = job_->targets().front();
    pid_ = sync(target_, ::getpid);
  }

  /// Declared before the server and its targets, so that they write to it.
  captured_log log_;
  scratch_folder folder_;
  std::string key_;
  std::optional<server> server_;
  std::optional<proxy> between_;
  std::optional<job> job_;
  node target_;
  pid_t pid_ = 0;
};

} // namespace farcall::test
