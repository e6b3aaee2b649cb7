// SPDX-License-Identifier: Apache-2.0
#include "helper_program.hpp"
#include "rivals.hpp"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace farcall::tool {

namespace {

/// Libraries with I/O threads of their own, whose processes sleep in the kernel.
rival helper_rival(std::string key, std::string what, const char* program, const char* package,
                   const char* socket) {
  return {std::move(key), std::move(what), [=](const rival_settings& settings) -> measured {
            const std::filesystem::path helper = program_beside(program);
            if (std::string why = why_missing(helper, package); !why.empty())
              return {{}, std::move(why)};
            std::vector<std::string> words = words_of(settings, settings.sleeping_calls);
            words.insert(words.begin(), {helper.string(), socket});
            return run_helper(words, settings);
          }};
}

} // namespace

rival zeromq_rival(socket_kind kind) {
  const bool is_tcp = kind == socket_kind::tcp;
  return helper_rival(is_tcp ? "zeromq_tcp" : "zeromq",
                      is_tcp ? "ZeroMQ REQ and REP over TCP (loopback)"
                             : "ZeroMQ REQ and REP over a Unix socket",
                      "farcall-rival-zeromq", "ZeroMQ, libzmq3-dev,", is_tcp ? "tcp" : "unix");
}

rival grpc_rival(socket_kind kind) {
  const bool is_tcp = kind == socket_kind::tcp;
  return helper_rival(is_tcp ? "grpc_tcp" : "grpc",
                      is_tcp ? "gRPC unary call over TCP (loopback, no TLS)"
                             : "gRPC unary call over a Unix socket",
                      "farcall-rival-grpc", "gRPC, libgrpc++-dev,", is_tcp ? "tcp" : "unix");
}

} // namespace farcall::tool
