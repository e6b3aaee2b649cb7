#include <farcall/memory/segment.hpp>
#include <farcall/transport/transport_module.hpp>
#include <tests/conformance/pairs.hpp>

#include <array>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace farcall::conformance {
namespace {

#if defined(MPI_MODULE)

constexpr std::size_t window_bytes = std::size_t{16} << 20;

/// The row of the module, which is loaded as a program would.
const transport_entry& mpi_row() {
  static const std::vector<transport_entry> rows = [] {
    std::vector<transport_entry> made;
    add_modules(made, MPI_MODULE, "this test");
    return made;
  }();
  return rows.at(0);
}

/// A node with a thread that does what a job's would: it has the transport move bytes when its
/// descriptor says so. Both nodes are the same process of MPI's, which nothing has started: it
/// sends to itself.
class mpi_end final : public node_end {
 public:
  mpi_end(node_id id, std::uint32_t ring_bytes)
      : id_(id), ring_bytes_(ring_bytes),
        window_(segment::create("farcall-test-window", window_bytes)),
        stop_(::eventfd(0, EFD_CLOEXEC)), transport_(make_transport()) {}
  ~mpi_end() override {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(stop_.get(), &one, sizeof one);
    if (thread_.joinable()) thread_.join();
  }
  mpi_end(const mpi_end&) = delete;
  mpi_end& operator=(const mpi_end&) = delete;

  node_id id() const override { return id_; }
  transport& link() override { return *transport_; }
  std::span<doorbell> doorbells() override { return doorbells_; }
  std::span<std::byte> window() override { return {window_.data(), window_.size()}; }
  void meet(const card& peer) override {
    link().admit(peer);
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  }

 private:
  std::unique_ptr<transport> make_transport() {
    transport_site site;
    site.self = id_;
    site.nodes = 2;
    site.lane_bytes = ring_bytes_;
    site.doorbells = doorbells_;
    site.windows = {{reinterpret_cast<std::uintptr_t>(window_.data()), window_.size()}};
    site.group = group_place{};
    auto made = mpi_row().make(site);
    if (made == nullptr) throw std::runtime_error("MPI cannot be used");
    return made;
  }

  void run() {
    for (;;) {
      pollfd watched[2] = {{stop_.get(), POLLIN, 0}, {transport_->wait_fd(), POLLIN, 0}};
      if (::poll(watched, 2, -1) < 0) continue;
      if (watched[0].revents != 0) return;
      transport_->progress();
    }
  }

  node_id id_;
  std::uint32_t ring_bytes_;
  segment window_;
  unique_fd stop_;
  std::array<doorbell, 8> doorbells_;
  std::unique_ptr<transport> transport_;
  std::thread thread_;
};

class mpi_node_pair final : public node_pair {
 public:
  explicit mpi_node_pair(std::uint32_t ring_bytes) : ring_bytes_(ring_bytes) {}
  std::unique_ptr<node_end> make_end(unsigned side) override {
    return std::make_unique<mpi_end>(side, ring_bytes_);
  }

 private:
  std::uint32_t ring_bytes_;
};

std::unique_ptr<node_pair> mpi_pair(std::uint32_t ring_bytes) {
  return std::make_unique<mpi_node_pair>(ring_bytes);
}

/// MPI cannot be used in a child of a process that uses it, so both nodes are threads. Under a
/// sanitizer there are none: MPI's library is not instrumented, and gives back less than it takes.
std::vector<backend> places() {
  if (test::under_sanitizer) return {};
  return {{.place = "threads", .make = &mpi_pair, .wake_ups = 300, .comes_back = false}};
}

INSTANTIATE_TEST_SUITE_P(mpi, transport_conformance, ::testing::ValuesIn(places()));

#else

TEST(mpi, keeps_to_what_is_asked_of_transports) {
  GTEST_SKIP() << "built without MPI: its headers (libopenmpi-dev) are not here";
}

#endif

} // namespace
} // namespace farcall::conformance
