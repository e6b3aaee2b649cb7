// SPDX-License-Identifier: Apache-2.0

// Reads arbitrary bytes as a node's recorded events, and writes the timeline: gives a document
// whose begin and end events match, or an error.

#include <farcall/base/error.hpp>
#include <farcall/trace/chrome_trace.hpp>
#include <farcall/trace/timeline.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>

namespace {

using namespace farcall;

void require(bool condition) {
  if (!condition) std::abort();
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1))
    ++n;
  return n;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trace::timeline all(1000);
  try {
    // Twice, since later batches are added to earlier ones.
    const auto bytes = std::as_bytes(std::span(data, size));
    all.add(trace::decode_batch(bytes));
    all.add(trace::decode_batch(bytes));
  } catch (const malformed_message&) {
    return 0;
  }
  all.expect_rates(1e9);
  char* text = nullptr;
  std::size_t length = 0;
  std::FILE* const to = ::open_memstream(&text, &length);
  require(to != nullptr);
  require(trace::write_chrome_trace(to, all, {1000, 1e9}, [](node_id n) { return node_text(n); }));
  std::fclose(to);
  const std::string_view document(text, length);
  require(document.ends_with("}}\n"));
  require(count(document, R"({"ph": "b")") == count(document, R"({"ph": "e")"));
  require(count(document, "\n{\"ph\": \"X\"") <= 4 * all.events());
  std::free(text);
  return 0;
}
