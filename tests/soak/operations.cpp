// SPDX-License-Identifier: Apache-2.0
#include "tests/soak/soak.hpp"

#include <algorithm>
#include <deque>
#include <stdexcept>
#include <thread>
#include <utility>

namespace soak {
namespace {

std::uint64_t mix(std::uint64_t v) { return (v ^ (v >> 27)) * 0x94d049bb133111ebU; }

std::string stretched(std::string v, std::uint64_t n) {
  std::string all;
  for (std::uint64_t i = 0; i < n; ++i)
    all += v;
  return all;
}

std::uint64_t sum_of(fc::remote_span<const std::uint64_t> s) {
  std::uint64_t sum = 0;
  for (const std::uint64_t v : s)
    sum += v;
  return sum;
}

void scale(fc::remote_span<std::uint64_t> s, std::uint64_t by) {
  for (std::uint64_t& v : s)
    v *= by;
}

std::uint64_t back_and_forth(std::uint64_t depth, const fc::node& other) {
  return depth == 0 ? 0 : 1 + fc::sync(other, back_and_forth, depth - 1, fc::this_node());
}

void fail_with(std::uint64_t v) { throw std::domain_error("value " + std::to_string(v)); }

fc::future<std::uint64_t> mixed_twice(fc::node a, fc::node b, std::uint64_t v) {
  const std::uint64_t once = co_await fc::async(a, mix, v);
  co_return co_await fc::async(b, mix, once);
}

std::atomic<std::uint64_t> posted_here{0};

/// The operations of one thread.
class operations {
 public:
  operations(const fc::job& j, generator& random, tally& t) : job_(j), random_(random), tally_(t) {}

  void run(operation o) {
    switch (o) {
    case operation::sync_number:
      return sync_number();
    case operation::sync_text:
      return sync_text();
    case operation::async_window:
      return async_window();
    case operation::post_and_count:
      return post_and_count();
    case operation::put_get:
      return put_get();
    case operation::copy_between:
      return copy_between();
    case operation::map_in_place:
      return map_in_place();
    case operation::through_lane:
      return through_lane();
    case operation::callback:
      return callback();
    case operation::between_targets:
      return between_targets();
    case operation::exception:
      return exception();
    case operation::continuation:
      return continuation();
    case operation::combine:
      return combine();
    case operation::coroutine:
      return coroutine();
    case operation::dropped:
      return dropped();
    case operation::deadline:
      return deadline();
    }
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  const fc::node& any_target() { return job_.targets()[below(job_.targets().size())]; }
  /// Returns a size that is mostly small, and now and then large.
  std::size_t any_size() {
    const std::uint64_t kind = below(100);
    if (kind < 60) return below(100);
    if (kind < 90) return below(10'000);
    if (kind < 99) return below(200'000);
    return below(2'000'000);
  }
  std::vector<std::uint64_t> any_words(std::size_t n) {
    std::vector<std::uint64_t> v(n);
    std::uint64_t state = random_();
    for (std::uint64_t& e : v)
      e = state = mix(state + 1);
    return v;
  }
  void expect(bool right, const char* what) {
    if (!right) tally_.wrong(what);
  }

  void sync_number() {
    const fc::node& to = any_target();
    for (int i = 0; i < 20; ++i) {
      const std::uint64_t v = random_();
      expect(fc::sync(to, mix, v) == mix(v), "a sync call gave a wrong number");
    }
  }

  void sync_text() {
    const std::string text(any_size() % 20'000, static_cast<char>('a' + below(26)));
    const std::uint64_t n = below(6);
    expect(fc::sync(any_target(), stretched, text, n) == stretched(text, n), "a wrong text");
  }

  void async_window() {
    std::deque<std::pair<std::uint64_t, fc::future<std::uint64_t>>> window;
    const std::uint64_t width = 1 + below(500);
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const std::uint64_t v = random_();
      window.emplace_back(v, fc::async(any_target(), fc::fn<&mix>, v));
      if (window.size() < width) continue;
      // Any call, rather than always the oldest one.
      const auto at = window.begin() + static_cast<std::ptrdiff_t>(below(window.size()));
      expect(at->second.get() == mix(at->first), "an async call gave a wrong number");
      window.erase(at);
    }
    for (auto& [v, f] : window)
      expect(f.get() == mix(v), "an async call gave a wrong number");
  }

  void post_and_count() {
    // Other threads post, too. This thread's posts run before its second read of the count.
    const fc::node& to = any_target();
    const auto count = [] { return posted_here.load(); };
    const std::uint64_t before = fc::sync(to, count);
    const std::uint64_t n = below(500);
    for (std::uint64_t i = 0; i < n; ++i)
      fc::post(to, [] { ++posted_here; });
    expect(fc::sync(to, count) >= before + n, "posted calls were lost");
  }

  void put_get() {
    const fc::node& to = any_target();
    const std::vector<std::uint64_t> sent = any_words(any_size());
    const auto memory = to.allocate<std::uint64_t>(sent.size() + below(10));
    fc::put(sent, memory).get();
    std::uint64_t sum = 0;
    for (const std::uint64_t v : sent)
      sum += v;
    expect(fc::sync(to, sum_of, memory.span().first(sent.size())) == sum, "a put arrived wrong");
    fc::sync(to, scale, memory.span().first(sent.size()), std::uint64_t{3});
    std::vector<std::uint64_t> got(sent.size());
    fc::get(memory, got).get();
    expect(std::equal(got.begin(), got.end(), sent.begin(),
                      [](std::uint64_t a, std::uint64_t b) { return a == 3 * b; }),
           "a get brought the wrong contents");
  }

  void copy_between() {
    const std::vector<std::uint64_t> sent = any_words(any_size());
    const auto from = any_target().allocate<std::uint64_t>(sent.size());
    const auto to = any_target().allocate<std::uint64_t>(sent.size());
    fc::put_sync(sent, from);
    fc::copy(from, to).get();
    std::vector<std::uint64_t> got(sent.size());
    fc::get_sync(to, got);
    expect(got == sent, "a copy between targets brought the wrong contents");
  }

  void map_in_place() {
    const fc::node& to = any_target();
    const std::vector<std::uint64_t> words = any_words(1 + below(5000));
    const auto memory = to.allocate<std::uint64_t>(words.size());
    const std::span<std::uint64_t> here = fc::map(memory);
    std::copy(words.begin(), words.end(), here.begin());
    fc::sync(to, scale, memory.span(), std::uint64_t{5});
    expect(std::equal(here.begin(), here.end(), words.begin(),
                      [](std::uint64_t a, std::uint64_t b) { return a == 5 * b; }),
           "mapped memory is not the same");
  }

  void through_lane() {
    const fc::lane stream(any_target());
    std::vector<fc::future<std::uint64_t>> all;
    const std::uint64_t first = random_();
    for (std::uint64_t i = 0; i < 50; ++i)
      all.push_back(fc::async(stream, mix, first + i));
    for (std::uint64_t i = 0; i < 50; ++i) {
      expect(all[i].get() == mix(first + i), "a call in a lane gave a wrong number");
    }
  }

  void callback() {
    const std::uint64_t depth = below(40);
    expect(fc::sync(any_target(), back_and_forth, depth, job_.host()) == depth,
           "recursion between host and target went wrong");
  }

  void between_targets() {
    const std::uint64_t depth = below(40);
    expect(fc::sync(any_target(), back_and_forth, depth, any_target()) == depth,
           "recursion between targets went wrong");
  }

  void exception() {
    const std::uint64_t v = random_();
    try {
      fc::sync(any_target(), fail_with, v);
      expect(false, "an exception was lost");
    } catch (const fc::remote_error& e) {
      expect(e.type_name() == "std::domain_error" && e.text() == "value " + std::to_string(v),
             "an exception came back changed");
    }
  }

  void continuation() {
    const fc::node second = any_target();
    const std::uint64_t v = random_();
    auto f = fc::async(any_target(), mix, v)
                 .then([second](fc::future<std::uint64_t> once) {
                   return fc::async(second, mix, once.get());
                 })
                 .then([](fc::future<std::uint64_t> twice) { return mix(twice.get()); });
    expect(f.get() == mix(mix(mix(v))), "continuations gave a wrong number");
  }

  void combine() {
    std::vector<fc::future<std::uint64_t>> all;
    const std::uint64_t first = random_();
    for (std::uint64_t i = 0; i < 20; ++i)
      all.push_back(fc::async(any_target(), mix, first + i));
    auto any = fc::when_any(std::move(all)).get();
    auto ready = fc::when_all(std::move(any.futures)).get();
    for (std::uint64_t i = 0; i < 20; ++i) {
      expect(ready[i].get() == mix(first + i), "a combined future gave a wrong number");
    }
  }

  void coroutine() {
    const std::uint64_t v = random_();
    expect(mixed_twice(any_target(), any_target(), v).get() == mix(mix(v)),
           "a coroutine gave a wrong number");
  }

  void dropped() {
    const fc::node& to = any_target();
    for (int i = 0; i < 50; ++i)
      (void)fc::async(to, stretched, "dropped", below(1000));
    for (int i = 0; i < 5; ++i) {
      auto f = fc::async(to, stretched, "ready", below(10'000));
      f.wait();
    }
  }

  void deadline() {
    const fc::node& to = any_target();
    try {
      fc::sync(to.within(std::chrono::microseconds(200)),
               [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
      // The call may succeed: the reply arrived before the kernel scheduled this thread again.
    } catch (const fc::timeout&) {
    }
  }

  const fc::job& job_;
  generator& random_;
  tally& tally_;
};

} // namespace

void run_operation(const fc::job& j, generator& random, tally& t) {
  const auto o = static_cast<operation>(random() % operation_names.size());
  operations(j, random, t).run(o);
  t.done(o);
}

} // namespace soak
