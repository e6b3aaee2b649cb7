#include <farcall/memory/segment.hpp>
#include <farcall/transport/transport_module.hpp>
#include <tests/conformance/pairs.hpp>

#include <array>
#include <cstdlib>
#include <thread>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace farcall::conformance {
namespace {

#if defined(UCX_MODULE)

constexpr std::size_t window_bytes = std::size_t{16} << 20;

/// The row of the module, which is loaded as a program would.
const transport_entry& ucx_row() {
  static const std::vector<transport_entry> rows = [] {
    // UCX's hooks in the functions that map memory, of which this transport needs none, crash in a
    // sanitizer's. UCX reads it when it is loaded.
    if (test::under_sanitizer) ::setenv("UCX_MEM_EVENTS", "no", 1);
    std::vector<transport_entry> made;
    add_modules(made, UCX_MODULE, "this test");
    return made;
  }();
  return rows.at(0);
}

/// A node with a thread that does what a job's would: it has the transport move bytes when its
/// descriptor says so.
class ucx_end final : public node_end {
 public:
  ucx_end(node_id id, std::uint32_t ring_bytes)
      : id_(id), ring_bytes_(ring_bytes),
        window_(segment::create("farcall-test-window", window_bytes)),
        stop_(::eventfd(0, EFD_CLOEXEC)) {}
  ~ucx_end() override {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(stop_.get(), &one, sizeof one);
    if (thread_.joinable()) thread_.join();
  }
  ucx_end(const ucx_end&) = delete;
  ucx_end& operator=(const ucx_end&) = delete;

  node_id id() const override { return id_; }
  transport& link() override {
    // Not before: UCX cannot be used in a child of a process that uses it.
    if (transport_ == nullptr) transport_ = make_transport();
    return *transport_;
  }
  bool has_rma_engine() override { return true; }
  bool shares_memory() override { return false; }
  std::span<doorbell> doorbells() override { return doorbells_; }
  std::span<std::byte> window() override { return {window_.data(), window_.size()}; }
  /// Only now is there a thread, as for pipes.
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
    auto made = ucx_row().make(site);
    if (made == nullptr) throw std::runtime_error("UCX cannot be used");
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

class ucx_node_pair final : public node_pair {
 public:
  ucx_node_pair(std::uint32_t ring_bytes, const char* transports) : ring_bytes_(ring_bytes) {
    // UCX reads it when a node is made, in whichever process.
    ::setenv("UCX_TLS", transports, 1);
  }
  std::unique_ptr<node_end> make_end(unsigned side) override {
    return std::make_unique<ucx_end>(side, ring_bytes_);
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
