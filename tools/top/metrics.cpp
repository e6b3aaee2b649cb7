#include "metrics.hpp"

#include <farcall/base/text.hpp>
#include <tools/common/outcome.hpp>

#include <farcall/base/error.hpp>
#include <farcall/transport/tcp/address.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <httplib.h>

#include <sys/socket.h>

namespace farcall::tool {
namespace {

/// The lines of one metric: they have to stand together.
class metric {
 public:
  metric(std::string name, std::string_view type, std::string_view help)
      : name_(std::move(name)),
        text_(fmt::format("# HELP {} {}\n# TYPE {} {}\n", name_, help, name_, type)) {}
  void add(const std::string& labels, double value) {
    text_ += fmt::format("{}{{{}}} {}\n", name_, labels, value);
  }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string name_;
  std::string text_;
};

std::string labels_of(const job_sample::process& p) {
  return fmt::format("job=\"{}\",node=\"{}\",pid=\"{}\"", job_of(p).second, p.counts.node,
                     p.number);
}

/// Of a pool that no server has taken.
struct end_of_pool {
  void operator()(httplib::ThreadPool* pool) const {
    pool->shutdown();
    delete pool;
  }
};

bool is_number_of_loopback(std::string_view host) {
  return host == "::1" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos);
}

/// Of a request, as "localhost:9464" or "[::1]:9464". A page from elsewhere whose name its owner
/// has let lead here names itself, and is not to be answered.
bool asks_for_loopback(std::string_view host) {
  if (host.starts_with('[')) {
    host = host.substr(1, host.find(']') - 1);
  } else {
    host = host.substr(0, host.find(':'));
  }
  return host.empty() || host == "localhost" || is_number_of_loopback(host);
}

double as_double(std::uint64_t count) noexcept { return static_cast<double>(count); }

} // namespace

std::string metrics_text(const job_sample& sample) {
  metric calls("farcall_calls_total", "counter", "Calls sent, by the node that they went to.");
  metric posts("farcall_posts_total", "counter", "Calls sent that want no answer.");
  metric answers("farcall_answers_total", "counter", "Calls that have ended.");
  metric failures("farcall_call_failures_total", "counter", "Calls that ended with an exception.");
  metric full("farcall_lane_full_total", "counter", "Times that a caller waited for space.");
  metric sent("farcall_sent_bytes_total", "counter", "Bytes of requests and of answers sent.");
  metric handlers("farcall_handler_calls_total", "counter", "Requests served, by function.");
  metric sleeps("farcall_worker_sleeps_total", "counter", "Times that a worker slept.");
  metric puts("farcall_put_bytes_total", "counter", "Bytes put.");
  metric gets("farcall_get_bytes_total", "counter", "Bytes got.");
  metric processor("farcall_processor_seconds_total", "counter", "Processor time of the process.");
  metric resident("farcall_resident_bytes", "gauge", "Memory of the process.");
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
      answers.add(labels, as_double(called.answers));
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
  for (const metric* m : {&calls, &posts, &answers, &failures, &full, &sent, &handlers, &sleeps,
                          &puts, &gets, &processor, &resident})
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
  if (where.host != "localhost" && !is_number_of_loopback(where.host)) {
    throw usage_problem("--listen takes a loopback address, as 127.0.0.1:9464: whoever asks is "
                        "answered; let a proxy, or ssh -L, ask for others");
  }
  // Taken by this thread, whichever thread of the server's they would arrive at.
  sigset_t end;
  ::sigemptyset(&end);
  ::sigaddset(&end, SIGINT);
  ::sigaddset(&end, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &end, nullptr);
  httplib::Server server;
  server.set_keep_alive_max_count(1);
  // Not SO_REUSEPORT, which the library would set: two could share a port then.
  server.set_socket_options([](int socket) {
    constexpr int yes = 1;
    (void)::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.set_read_timeout(5);
  server.set_write_timeout(5);
  std::mutex one_at_a_time;
  server.Get("/metrics", [&](const httplib::Request& request, httplib::Response& response) {
    if (!asks_for_loopback(request.get_header_value("Host"))) {
      response.status = 403;
      response.set_content("ask for localhost\n", "text/plain; charset=utf-8");
      return;
    }
    const std::lock_guard guard(one_at_a_time);
    response.set_content(text(), "text/plain; version=0.0.4; charset=utf-8");
  });
  const int bound = where.port == 0 ? server.bind_to_any_port(where.host)
                    : server.bind_to_port(where.host, where.port) ? where.port
                                                                  : -1;
  if (bound < 0) {
    throw failed_run(fmt::format("cannot listen at {}: is the port taken, or the address none of "
                                 "this machine?",
                                 where.text()));
  }
  // Some may say nothing for a while. Made here, where a thread that cannot be started is an error;
  // the server would end the process.
  constexpr std::size_t most_at_once = 16;
  std::unique_ptr<httplib::ThreadPool, end_of_pool> answering(
      new httplib::ThreadPool(most_at_once));
  server.new_task_queue = [&] { return answering.release(); };
  std::promise<void> ended;
  std::thread serving([&] {
    server.listen_after_bind();
    ended.set_value();
  });
  where.port = static_cast<std::uint16_t>(bound);
  listening(where.text());
  int signal = 0;
  ::sigwait(&end, &signal);
  server.stop();
  // It waits for requests that have begun, and a client may take for ever to say what it wants.
  if (ended.get_future().wait_for(std::chrono::seconds(1)) != std::future_status::ready) {
    std::fflush(nullptr);
    std::_Exit(0);
  }
  serving.join();
}

} // namespace farcall::tool
