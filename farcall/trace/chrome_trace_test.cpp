// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/trace/chrome_trace.hpp>
#include <farcall/trace/timeline_test_support.hpp>

#include <cstdlib>
#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace farcall::trace::chrome_trace_test {
namespace {

struct free_text {
  void operator()(char* at) const { std::free(at); }
};

/// Writes with ticks of one nanosecond that begin at 1000.
std::string written(const timeline& t) {
  char* text = nullptr;
  std::size_t bytes = 0;
  std::FILE* const to = ::open_memstream(&text, &bytes);
  EXPECT_TRUE(write_chrome_trace(to, t, {1000, 1e9}, [](node_id node) { return node_text(node); }));
  std::fclose(to);
  const std::unique_ptr<char, free_text> owned(text);
  return {text, bytes};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(chrome_trace, shows_calls_and_handlers_in_microseconds_of_the_host) {
  const std::string text = written(one_call());
  EXPECT_TRUE(has(text, R"({"ph": "X", "name": "solve<\"x\\\">", "cat": "call", "pid": 0, )"
                        R"("tid": 0, "ts": 0.500, "dur": 2.250, )"
                        R"("args": {"to node": 1, "lane": 1}})"))
      << text;
  EXPECT_TRUE(has(text, R"("cat": "handler", "pid": 1, "tid": 0, "ts": 1.000, "dur": 1.000)"));
  EXPECT_TRUE(has(text, "\"args\": {\"name\": \"main thread (77)\"}"));
  EXPECT_TRUE(has(text, R"("missed events": 3)"));
  EXPECT_TRUE(has(text, R"({"node": 1, "error_ns": 0, "is_hosts": true, "is_known": true})"));
}

TEST(chrome_trace, draws_an_arrow_to_the_handler_and_back) {
  const std::string text = written(one_call());
  const std::string same = R"("name": "request", "cat": "request", "id": "0.1.64", )";
  EXPECT_TRUE(has(text, R"({"ph": "s", )" + same + R"("pid": 0, "tid": 0, "ts": 0.500})"));
  EXPECT_TRUE(has(text, R"({"ph": "t", )" + same + R"("pid": 1, "tid": 0, "ts": 1.000})"));
  EXPECT_TRUE(
      has(text, R"({"ph": "f", )" + same + R"("pid": 0, "tid": 0, "ts": 2.749, "bp": "e"})"));
}

TEST(chrome_trace, draws_no_arrow_whose_other_end_is_unknown) {
  timeline t(100);
  batch host;
  host.node = 0;
  host.events.lanes = {{1, 1, true, 0}};
  host.events.threads = {{0, 7, "", 0, {make(1500, event_kind::post, 1, 0, 64, 16)}}};
  t.add(host);
  const std::string text = written(t);
  EXPECT_TRUE(has(text, R"("name": "send function 16")"));
  EXPECT_FALSE(has(text, R"("ph": "s")"));
}

TEST(chrome_trace, draws_overlapping_sends_side_by_side) {
  timeline t(100);
  batch host;
  host.node = 0;
  host.events.lanes = {{1, 1, true, 0}};
  host.events.threads = {{0,
                          77,
                          "main thread",
                          0,
                          {make(1500, event_kind::call_begin, 1, 0, 64, 16),
                           make(1540, event_kind::call_begin, 1, 1, 128, 16),
                           make(3750, event_kind::call_end, 1, 0, 0, 0),
                           make(3760, event_kind::call_end, 1, 1, 0, 0)}}};
  t.add(host);
  const std::string text = written(t);
  EXPECT_TRUE(has(text, R"("ts": 0.500, "dur": 0.040)")) << text;
  EXPECT_TRUE(has(text, R"("ts": 0.540, "dur": 0.100)")) << text;
}

TEST(chrome_trace, writes_text_of_any_bytes_as_json) {
  timeline t(100);
  batch host;
  host.node = 0;
  host.events.ranges = {"a\n\x7f\xc3\xa4\xff\xed\xa0\x80z"};
  host.events.threads = {{0,
                          7,
                          "thread\t1",
                          0,
                          {make(1500, event_kind::range_begin, 0, 0, 0, 0),
                           make(1600, event_kind::range_end, 0, 0, 0, 0)}}};
  t.add(host);
  const std::string text = written(t);
  // Valid characters are kept; control characters, invalid bytes and lone surrogates are replaced.
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_TRUE(has(text, "\"a" + bad + bad + "\xc3\xa4" + bad + bad + "z\"")) << text;
  EXPECT_TRUE(has(text, "thread" + bad + "1 (7)"));
}

TEST(chrome_trace, tells_that_it_could_not_be_written) {
  std::FILE* const full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  EXPECT_FALSE(
      write_chrome_trace(full, one_call(), {1000, 1e9}, [](node_id) { return std::string(); }));
  std::fclose(full);
}

} // namespace
} // namespace farcall::trace::chrome_trace_test
