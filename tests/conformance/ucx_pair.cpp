#include <tests/conformance/module_end.hpp>
#include <tests/conformance/pairs.hpp>

#include <cstdlib>
#include <vector>

namespace farcall::conformance {
namespace {

#if defined(UCX_MODULE)

/// The row of the module.
const transport_entry& ucx_row() {
  static const transport_entry row = [] {
    // UCX's hooks in the functions that map memory, of which this transport needs none, crash in a
    // sanitizer's. UCX reads it when it is loaded.
    if (test::under_sanitizer) ::setenv("UCX_MEM_EVENTS", "no", 1);
    return load_module(UCX_MODULE);
  }();
  return row;
}

class ucx_node_pair final : public node_pair {
 public:
  ucx_node_pair(std::uint32_t ring_bytes, const char* transports) : ring_bytes_(ring_bytes) {
    // UCX reads it when a node is made, in whichever process.
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

/// In threads and in processes. A sanitizer's runtime does not survive the fork of a process that
/// has had threads of UCX's. ThreadSanitizer does not see what orders two nodes of one process:
/// UCX is not instrumented.
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

TEST(ucx, keeps_to_what_is_asked_of_transports) {
  GTEST_SKIP() << "built without UCX: its headers (libucx-dev) are not here";
}

#endif

} // namespace
} // namespace farcall::conformance
