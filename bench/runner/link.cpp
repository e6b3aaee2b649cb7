// SPDX-License-Identifier: Apache-2.0
#include "link.hpp"
#include "session.hpp"
#include "ucx_floor.hpp"

#include <farcall/gpu/transport/entry.hpp>

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

bool has_option(const std::string& url, std::string_view key) {
  const std::string name = fmt::format("{}=", key);
  return url.find('?' + name) != std::string::npos || url.find('&' + name) != std::string::npos;
}

/// True if both ends share memory, so that the floor is a cache line's round trip.
bool is_memory(link_kind kind) { return kind == link_kind::shm || kind == link_kind::emulated; }

void check(const bench_options& options) {
  if (!options.key.empty() && options.targets.empty())
    throw usage_problem("--key goes with --targets; give both, or none");
}

} // namespace

const char* word_of(link_kind kind) {
  switch (kind) {
  case link_kind::tcp:
    return "tcp";
  case link_kind::tls:
    return "tls";
  case link_kind::emulated:
    return "cuda-emulated";
  case link_kind::gpu:
    return "cuda";
  case link_kind::ucx:
    return "ucx";
  default:
    return "shm";
  }
}

link_kind kind_of(const bench_options& options) {
  check(options);
  if (!options.targets.empty()) {
    const target_url url = parse_targets(options.targets).front();
    const transport_entry& row = *find_transport(transports(), url.scheme);
    if (row.host) {
      if (!options.takes_devices)
        throw usage_problem("only 'farcall bench offload' measures devices; leave out --targets");
      return cuda::is_emulated(url) ? link_kind::emulated : link_kind::gpu;
    }
    if (url.scheme == "ucx") return link_kind::ucx;
    if (!row.make_launcher) return link_kind::shm;
    return options.key.empty() ? link_kind::tcp : link_kind::tls;
  }
  if (options.transport == "tcp") return link_kind::tcp;
  return options.transport == "tls" ? link_kind::tls : link_kind::shm;
}

bench_link::bench_link(const bench_options& options, std::optional<int> cpu,
                       const std::string& started_by)
    : kind_(kind_of(options)), given_(options.targets), key_(options.key) {
  if (!given_.empty() || is_memory(kind_)) return;
  server_choices choices{.encrypted = kind_ == link_kind::tls, .cpu = cpu};
  server_ = std::make_unique<server_process>(choices);
  key_ = server_->key_file();
  if (started_by.empty()) return;
  choices.started_by = started_by;
  choices.key_of_other = key_;
  second_server_ = std::make_unique<server_process>(choices);
}

job_options bench_link::one_target(int cpu) const {
  if (kind_ == link_kind::gpu) return job_at(given_);
  if (!given_.empty()) return job_at(with_option(given_, "cpu", static_cast<std::size_t>(cpu)));
  return job_at(server_ ? fmt::format("{}?cpu={}", server_->url(), cpu) : shm_target_on(cpu));
}

job_options bench_link::targets(std::size_t n) const {
  if (!given_.empty())
    return job_at(is_memory(kind_) || kind_ == link_kind::ucx ? given_
                                                              : with_option(given_, "count", n));
  return job_at(server_ ? fmt::format("{}?count={}", server_->url(), n) : fmt::format("shm:{}", n));
}

job_options bench_link::pair_of_targets() const {
  if (!second_server_) return targets(2);
  return job_at(fmt::format("{},{}", server_->url(), second_server_->url()));
}

job_options bench_link::job_at(const std::string& urls) const {
  job_options options = job_of_this_program(urls);
  options.key = key_;
  return options;
}

std::string bench_link::text() const {
  const std::string where = !given_.empty() ? given_
                            : server_       ? "a server of this run at " + server_->url()
                                            : "this machine";
  return fmt::format("link: {}, {}\n", word_of(kind_), where);
}

link_session::link_session(const bench_options& options, const std::string& title,
                           std::size_t steps, const std::string& started_by)
    : env_(read_environment()), bar_(title, steps),
      floor_(make_floor(kind_of(options), cores_of(options))),
      link_(options, std::nullopt, started_by) {
  floor_->measure();
}

void link_session::finish() {
  floor_->measure();
  bar_.finish();
}

std::string link_session::heading() const {
  return environment_text(env_, floor_->cores()) + link_.text() + '\n';
}

json link_session::circumstances() const {
  json document = environment_json(env_, floor_->cores());
  document["transport"] = word_of(link_.kind());
  return document;
}

report link_session::make_report(const std::string& subject, std::string text,
                                 std::vector<chart> charts) const {
  return {"farcall bench " + subject,
          std::move(text),
          environment_text(env_, floor_->cores()) + link_.text() + floor_text(*floor_),
          std::move(charts),
          {}};
}

std::unique_ptr<floor_probe> make_floor(link_kind kind, core_pair cores, std::uint32_t device) {
  if (kind == link_kind::gpu)
    return std::make_unique<bus_floor>(cores, device, floor_places, far_floor_calls);
  if (kind == link_kind::ucx)
    return std::make_unique<ucx_floor>(cores, floor_places, far_floor_calls);
  if (is_memory(kind)) return std::make_unique<floor_meter>(cores, floor_places, 1000);
  return std::make_unique<connection_floor>(cores, floor_places, far_floor_calls);
}

core_pair cores_of(const bench_options& options) {
  if (kind_of(options) == link_kind::gpu) {
    if (options.target_cpu)
      throw usage_problem(
          "--target-cpu: a GPU runs on none of this machine's processors; leave it out");
    return {choose_cores(options.host_cpu, std::nullopt).host, no_core};
  }
  if (options.targets.empty() || options.target_cpu) return options.cores();
  const std::optional<unsigned> named = parse_targets(options.targets).front().cpu;
  const std::vector<int> here = allowed_cpus();
  // The URL may name a processor of a larger machine.
  if (!named || std::find(here.begin(), here.end(), static_cast<int>(*named)) == here.end())
    return options.cores();
  return choose_cores(options.host_cpu, static_cast<int>(*named));
}

std::string with_option(const std::string& url, std::string_view key, std::size_t value) {
  if (url.find(',') != std::string::npos || has_option(url, key)) return url;
  return fmt::format("{}{}{}={}", url, url.find('?') == std::string::npos ? '?' : '&', key, value);
}

} // namespace farcall::tool
