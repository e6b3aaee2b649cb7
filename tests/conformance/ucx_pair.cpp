// SPDX-License-Identifier: Apache-2.0
#include <tests/conformance/module_end.hpp>
#include <tests/conformance/pairs.hpp>

#include <cstdlib>
#include <vector>

namespace farcall::conformance {
namespace {

#if defined(UCX_MODULE)

/// Returns the module's entry of the transport table.
const transport_entry& ucx_row() {
  static const transport_entry row = [] {
    // Disable UCX's memory hooks, which this transport does not need: they crash in a sanitizer's
    // hooks. UCX reads the variable when it is loaded.
    if (test::under_sanitizer) ::setenv("UCX_MEM_EVENTS", "no", 1);
    return load_module(UCX_MODULE);
  }();
  return row;
}

class ucx_node_pair final : public node_pair {
 public:
  ucx_node_pair(std::uint32_t ring_bytes, const char* transports) : ring_bytes_(ring_bytes) {
    // UCX reads the variable when a node is made, in this process or a child.
    ::setenv("UCX_TLS", transports, 1);
  }
  std::unique_ptr<node_end> make_end(unsigned side) override {
    return std::make_unique<module_end>(ucx_row(), side, ring_bytes_);
  }

 private:
  std::uint32_t ring_bytes_;
};

std::unique_ptr<node_pair> tcp(std::uint32_t ring_bytes) {
  return std::make_unique<ucx_node_pair>(ring_bytes, "tcp");
}
std::unique_ptr<node_pair> shared_memory(std::uint32_t ring_bytes) {
  return std::make_unique<ucx_node_pair>(ring_bytes, "posix,cma");
}

/// Returns the instances of the suite, with threads and with processes. A sanitizer's runtime does
/// not survive a fork after UCX has had threads, so it gets threads only. ThreadSanitizer gets no
/// instance: UCX is not instrumented, so races would be reported between the two nodes.
std::vector<backend> places(std::unique_ptr<node_pair> (*make)(std::uint32_t ring_bytes)) {
  if (test::under_thread_sanitizer) return {};
  std::vector<backend> all{
      {.place = "threads", .make = make, .wake_ups = 3'000, .comes_back = false}};
  if (!test::under_sanitizer) {
    all.push_back({.place = "processes", .make = make, .wake_ups = 3'000, .comes_back = false});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(ucx_over_tcp, transport_conformance, ::testing::ValuesIn(places(&tcp)));
INSTANTIATE_TEST_SUITE_P(ucx_over_shared_memory, transport_conformance,
                         ::testing::ValuesIn(places(&shared_memory)));

#else

TEST(ucx, passes_the_conformance_tests) {
  GTEST_SKIP() << "built without UCX: its headers (libucx-dev) are not here";
}

#endif

} // namespace
} // namespace farcall::conformance
