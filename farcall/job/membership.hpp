#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/memory/shared_heap.hpp>
#include <farcall/transport/control_socket.hpp>
#include <farcall/transport/cuda/cuda.hpp>
#include <farcall/transport/process.hpp>
#include <farcall/transport/shm/shm.hpp>
#include <farcall/transport/target_url.hpp>
#include <farcall/transport/tcp/access.hpp>
#include <farcall/transport/tcp/reactor.hpp>
#include <farcall/transport/tcp/relay.hpp>
#include <farcall/transport/tcp/remote_target.hpp>
#include <farcall/transport/tcp/tcp.hpp>
#include <farcall/transport/transport.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace farcall {

/// What a program is, for nodes that must know whether they run the same one.
struct program_identity {
  std::string build;
  std::uint64_t key_digest = 0;
};

/// A device as the layers below want it driven, and what it runs: addresses by key.
struct device_with_code {
  std::unique_ptr<cuda::device_api> device;
  cuda::device_program program;
};

struct membership_options {
  std::vector<target_url> targets;
  /// Makes the device of a URL. Throws error that says why there is none.
  std::function<device_with_code(const target_url&)> make_device;
  std::string program;                        ///< of targets whose URL names none; empty: our own
  std::vector<std::string> arguments;         ///< of the targets, argv[0] included
  std::chrono::milliseconds start_timeout{0}; ///< for all targets to join
  std::chrono::milliseconds stop_timeout{0};  ///< for targets to finish, then they are killed
  std::uint32_t lane_bytes = 0;               ///< size of a ring; a power of two
  std::uint64_t heap_bytes = 0;          ///< most memory a node can share; 0: all the machine has
  farcall::access access;                ///< to servers; empty: in the clear
  std::chrono::milliseconds liveness{0}; ///< a server that is silent for longer is gone
  std::vector<std::byte> settings;       ///< passed on to the targets, for the layers below
};

/// Called on a thread of the membership's own, one at a time.
struct membership_events {
  std::function<void(node_id, const std::string& why)> node_failed;
  std::function<void()> shut_down; ///< targets only: finish and end
};

/// Who is in the job, how each node is reached, and whether it still lives. On the host it owns the
/// target processes; on a target it owns the tie to the host: when the host goes, so does the
/// process.
class membership {
 public:
  /// True in a process that was started as a target.
  [[nodiscard]] static bool is_target() noexcept;

  /// Host: starts the targets and waits until all have joined. Throws start_failed naming the node
  /// and the reason; nothing is left running then.
  [[nodiscard]] static std::unique_ptr<membership> launch(const membership_options& o,
                                                          const program_identity& program);

  /// Target: joins the job of the host that started us. Throws error.
  [[nodiscard]] static std::unique_ptr<membership> join(const program_identity& program);

  membership(const membership&) = delete;
  membership& operator=(const membership&) = delete;
  ~membership();

  [[nodiscard]] node_id self() const noexcept { return self_; }
  [[nodiscard]] std::size_t nodes() const noexcept { return cards_.size(); }
  [[nodiscard]] const card& card_of(node_id node) const { return cards_.at(node); }
  [[nodiscard]] std::span<const std::byte> settings() const noexcept { return settings_; }

  /// How a node is reached. Both ends come to the same result.
  struct way {
    transport* via = nullptr;
    std::string reason;
  };
  [[nodiscard]] const way& way_to(node_id node) const { return ways_.at(node); }

  /// The device that the node is, or null for one that is a process, or another's device.
  [[nodiscard]] cuda::cuda_transport* device_of(node_id node) const noexcept;

  /// How long targets may take to finish.
  [[nodiscard]] std::chrono::milliseconds stop_timeout() const noexcept { return stop_timeout_; }

  /// Every transport through which lanes may arrive.
  [[nodiscard]] std::vector<transport*> transports() const;

  [[nodiscard]] std::span<bell> bells() const noexcept { return home_.bells(); }
  [[nodiscard]] const std::shared_ptr<shared_heap>& heap() const noexcept { return heap_; }

  /// Target: tells the host why this process cannot go on with the job; before it ends.
  void give_up(const std::string& why);

  /// Starts watching. Call once, before the first lane is opened.
  void watch(membership_events events);

  /// Stops watching. Host: tells the targets to finish, waits for them, and kills those that do not
  /// end in time. Calls `meanwhile` every millisecond: targets may need something to finish.
  void shut_down(const std::function<void()>& meanwhile);

 private:
  membership() = default;

  struct node_memory {
    segment home;
    std::vector<segment> windows;
  };
  struct member_process {
    child_process process;       ///< none for a target of a server
    std::shared_ptr<relay> link; ///< to the server, if the target is one's
    control_socket socket;
    bool failed = false;
    bool is_told_to_stop = false;
    std::deque<std::vector<std::byte>> news; ///< of nodes that have failed, not yet sent
    std::string program;
    std::optional<std::string> end;         ///< of a server's target, in words
    cuda::cuda_transport* device = nullptr; ///< the node is one, and no process
    [[nodiscard]] bool is_remote() const noexcept { return link != nullptr; }
  };
  /// What a node that makes its own memory needs to know.
  struct memory_sizes {
    std::uint32_t lane_bytes = 0;
    std::uint64_t heap_bytes = 0; ///< 0: all the machine has
    std::size_t nodes = 1;        ///< whose heaps one process maps
    bool is_emulated = false;     ///< one of the processes is, and pays for what it maps
  };

  [[nodiscard]] static node_memory make_memory(node_id node, const memory_sizes& sizes);
  void prepare_network(const membership_options& o);
  void start_remote(node_id node, const target_url& url, time_point deadline);
  void start_targets(const membership_options& o, time_point deadline);
  void make_devices(const membership_options& o, const program_identity& program);
  void greet(node_id node, const membership_options& o, const std::vector<node_memory>& memory,
             time_point deadline);
  void take_card(node_id node, time_point deadline);
  void spread_cards(time_point deadline);
  [[noreturn]] void throw_not_joined(node_id node, const char* what);
  control_message expect(node_id node, control kind, const char* what, time_point deadline);
  void set_up(std::vector<node_memory> memory, const program_identity& program,
              std::uint32_t lane_bytes, const std::string& name, const std::string& scheme,
              std::uint32_t workers, const std::string& address);
  void make_network(card& mine, const std::string& address, std::uint32_t lane_bytes);
  void find_ways();
  /// A server's target: takes what it has said; true once it has ended.
  [[nodiscard]] bool hear_remote(node_id node);
  void pass_on_request(node_id from, std::span<const std::byte> body);
  void watch_targets();
  void stop_devices();
  /// The others are to be told.
  void spread_end(node_id node, const std::string& why);
  void send_news(member_process& to) noexcept;
  [[nodiscard]] std::string end_of(node_id node, time_point deadline);
  void watch_host();
  void stop_watching();
  /// Target: a connection that came to our server.
  void take_connection(unique_fd socket);

  node_id self_ = 0;
  std::chrono::milliseconds stop_timeout_{0};
  std::vector<std::byte> settings_;
  std::vector<card> cards_;
  std::vector<way> ways_;

  std::unique_ptr<tcp::reactor> reactor_; ///< in jobs with servers' targets
  std::optional<target_request> network_; ///< the same
  std::shared_ptr<const tcp::tls_identity> identity_;

  segment home_memory_;
  shm::home home_;
  std::shared_ptr<shared_heap> heap_;
  std::unique_ptr<transport> self_transport_;
  std::unique_ptr<shm::shm_transport> shm_transport_;
  std::unique_ptr<tcp::tcp_transport> tcp_transport_;
  std::vector<std::unique_ptr<cuda::cuda_transport>> devices_; ///< host

  control_socket to_host_;                ///< targets
  unique_fd host_process_;                ///< targets; none where the system cannot tell
  std::vector<member_process> processes_; ///< host; by node, the first unused

  membership_events events_;
  unique_fd stop_signal_;
  std::thread watcher_;
  bool is_started_ = false; ///< host: all targets have joined
  bool is_shut_down_ = false;
};

/// Processors that this process may run on, by number.
[[nodiscard]] std::vector<unsigned> allowed_processors();

} // namespace farcall
