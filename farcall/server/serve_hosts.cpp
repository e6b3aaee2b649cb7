// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/settings.hpp>
#include <farcall/base/settings_source.hpp>
#include <farcall/base/settings_table.hpp>
#include <farcall/offload/job.hpp>
#include <farcall/offload/serve_hosts.hpp>
#include <farcall/server/server.hpp>
#include <farcall/transport/process.hpp>

#include <cstdlib>
#include <string>
#include <utility>

namespace farcall::detail {

void serve_hosts(const std::string& where, const job_options& o, const settings_source& given) {
  server_options s;
  for (const std::string& place : split(where, ','))
    s.also_listen.push_back(tcp::parse_server_address(place, "--farcall-serve", true));
  s.listen = std::move(s.also_listen.front());
  s.also_listen.erase(s.also_listen.begin());
  s.program = o.program.empty() ? executable_of_this() : o.program;
  s.arguments = o.arguments;
  std::erase_if(s.arguments, [](const std::string& a) { return a.starts_with("--farcall-"); });
  s.access = {.key = o.key,
              .certificate = o.certificate,
              .certificate_key = o.certificate_key,
              .authority = o.authority,
              .clients = given.text(settings::row("clients")).value_or(""),
              .revoked = given.text(settings::row("revoked")).value_or("")};
  s.keeps_output = given.text(settings::row("keep-output")) == "yes";
  s.plain = given.text(settings::row("plain")) == "yes";
  s.trusts_network = given.text(settings::row("i-trust-this-network")) == "yes";
  block_end_signals();
  {
    server listening(std::move(s));
    serve_until_signalled(listening);
  }
  std::exit(0);
}

} // namespace farcall::detail
