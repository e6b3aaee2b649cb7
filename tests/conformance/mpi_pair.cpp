// SPDX-License-Identifier: Apache-2.0
#include <tests/conformance/module_end.hpp>
#include <tests/conformance/pairs.hpp>

#include <vector>

namespace farcall::conformance {
namespace {

#if defined(MPI_MODULE)

/// Both nodes are the same MPI process, a singleton, which sends to itself.
class mpi_node_pair final : public node_pair {
 public:
  explicit mpi_node_pair(std::uint32_t ring_bytes) : ring_bytes_(ring_bytes) {}
  std::unique_ptr<node_end> make_end(unsigned side) override {
    static const transport_entry row = load_module(MPI_MODULE);
    return std::make_unique<module_end>(row, side, ring_bytes_, group_place{});
  }

 private:
  std::uint32_t ring_bytes_;
};

std::unique_ptr<node_pair> mpi_pair(std::uint32_t ring_bytes) {
  return std::make_unique<mpi_node_pair>(ring_bytes);
}

/// Returns the instances of the suite. Both nodes are threads, because MPI does not work in a child
/// of a process that uses it. There is no instance under a sanitizer: MPI's library is not
/// instrumented, and leaks memory.
std::vector<backend> places() {
  if (test::under_sanitizer) return {};
  return {{.place = "threads", .make = &mpi_pair, .wake_ups = 300, .comes_back = false}};
}

INSTANTIATE_TEST_SUITE_P(mpi, transport_conformance, ::testing::ValuesIn(places()));

#else

TEST(mpi, passes_the_conformance_tests) {
  GTEST_SKIP() << "built without MPI: its headers (libopenmpi-dev) are not here";
}

#endif

} // namespace
} // namespace farcall::conformance
