// SPDX-License-Identifier: Apache-2.0
#include "metrics.hpp"

#include <farcall/base/text.hpp>
#include <tools/common/http_server.hpp>
#include <tools/common/metric_family.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/address.hpp>

#include <csignal>
#include <cstdint>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace farcall::tool {
namespace {

std::string labels_of(const job_sample::process& p) {
  return fmt::format("job=\"{}\",node=\"{}\",pid=\"{}\"", job_of(p).second, p.counts.node,
                     p.number);
}

double as_double(std::uint64_t count) noexcept { return static_cast<double>(count); }

} // namespace

std::string metrics_text(const job_sample& sample) {
  metric_family calls("farcall_calls_total", "counter",
                      "Calls sent, by the node that they went to.");
  metric_family posts("farcall_posts_total", "counter", "Calls sent that need no reply.");
  metric_family ended("farcall_answers_total", "counter", "Calls that have ended.");
  metric_family failures("farcall_call_failures_total", "counter",
                         "Calls that ended with an exception.");
  metric_family full("farcall_lane_full_total", "counter", "Times that a caller waited for space.");
  metric_family sent("farcall_sent_bytes_total", "counter", "Bytes of requests and replies sent.");
  metric_family handlers("farcall_handler_calls_total", "counter", "Requests served, by function.");
  metric_family sleeps("farcall_worker_sleeps_total", "counter", "Times that a worker slept.");
  metric_family puts("farcall_put_bytes_total", "counter", "Bytes put.");
  metric_family gets("farcall_get_bytes_total", "counter", "Bytes got.");
  metric_family processor("farcall_processor_seconds_total", "counter",
                          "Processor time of the process.");
  metric_family resident("farcall_resident_bytes", "gauge", "Memory of the process.");
  for (const job_sample::process& p : sample.processes) {
    const std::string own = labels_of(p);
    for (const process_counters::peer& peer : p.counts.peers) {
      const std::string labels = fmt::format("{},peer=\"{}\"", own, peer.node);
      process_counters::caller called;
      for (const process_counters::caller& l : p.counts.callers) {
        if (l.peer != peer.node) continue;
        called.calls += l.calls;
        called.posts += l.posts;
        called.answers += l.answers;
        called.failures += l.failures;
        called.full += l.full;
        called.bytes_out += l.bytes_out;
      }
      process_counters::server served;
      for (const process_counters::server& s : p.counts.servers) {
        if (s.peer == peer.node) served.bytes_out += s.bytes_out;
      }
      calls.add(labels, as_double(called.calls));
      posts.add(labels, as_double(called.posts));
      ended.add(labels, as_double(called.answers));
      failures.add(labels, as_double(called.failures));
      full.add(labels, as_double(called.full));
      sent.add(labels, as_double(called.bytes_out + served.bytes_out));
    }
    std::map<std::string, std::uint64_t> by_function;
    std::uint64_t all_sleeps = 0;
    for (const process_counters::worker& w : p.counts.workers) {
      all_sleeps += w.sleeps;
      for (std::size_t key = 0; key < w.handlers.size(); ++key) {
        if (w.handlers[key] == 0) continue;
        by_function[handler_name(p.counts, static_cast<std::uint32_t>(key))] += w.handlers[key];
      }
    }
    for (const auto& [name, count] : by_function)
      handlers.add(fmt::format("{},function={}", own, quoted_text(name)), as_double(count));
    sleeps.add(own, as_double(all_sleeps));
    std::uint64_t put = 0;
    std::uint64_t got = 0;
    for (const process_counters::thread& t : p.counts.threads) {
      put += t.bytes_put;
      got += t.bytes_got;
    }
    puts.add(own, as_double(put));
    gets.add(own, as_double(got));
    processor.add(own, p.usage.processor_seconds);
    resident.add(own, as_double(p.usage.resident_bytes));
  }
  std::string text;
  for (const metric_family* m : {&calls, &posts, &ended, &failures, &full, &sent, &handlers,
                                 &sleeps, &puts, &gets, &processor, &resident})
    text += m->text();
  return text;
}

void serve_metrics(const std::string& address, const std::function<std::string()>& text,
                   const std::function<void(const std::string&)>& listening) {
  tcp::address where;
  try {
    where = tcp::parse_address(address, "--listen", true);
  } catch (const setting_error& e) {
    throw usage_problem(e.what());
  }
  if (!is_loopback_name(where.host)) {
    throw usage_problem("--listen takes a loopback address, such as 127.0.0.1:9464, because there "
                        "is no authentication; use a proxy, or ssh -L, for other machines");
  }
  // Block the signals before the server's threads start, so that the threads inherit this. The
  // signals then wait until this thread receives them by sigwait().
  sigset_t end;
  ::sigemptyset(&end);
  ::sigaddset(&end, SIGINT);
  ::sigaddset(&end, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &end, nullptr);
  http_server::pages pages;
  pages["/metrics"] = [&] { return http_reply{200, text(), std::string(metrics_type)}; };
  const http_server serving(where, std::move(pages));
  listening(serving.addresses().front().text());
  int signal = 0;
  ::sigwait(&end, &signal);
}

} // namespace farcall::tool
