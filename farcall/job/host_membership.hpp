#pragma once

#include <farcall/base/clock.hpp>
#include <farcall/base/node_table.hpp>
#include <farcall/base/unique_fd.hpp>
#include <farcall/job/membership.hpp>
#include <farcall/job/output_collector.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/hosted_node.hpp>
#include <farcall/transport/launcher.hpp>
#include <farcall/transport/transport_entry.hpp>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// The host's part: getting targets, introducing them to each other, watching them, and ending
/// them.
namespace farcall {

/// What a process needs to map the memory of a node of its machine.
struct memory_files {
  std::uint64_t receive_segment_bytes = 0;
  std::vector<std::uint64_t> window_bytes;
  std::vector<unique_fd> files; ///< of the receive segment, then of each window; empty: none
};

/// What a target is to be told, and has no space for yet.
struct notice {
  control kind{};
  std::vector<std::byte> body;
  node_id memory_of = no_node; ///< whose descriptors go with it
};

/// A target's fault, as it has told.
struct told_fault {
  time_point names_until;  ///< then its end is told without names of functions
  time_point report_until; ///< it has ended by then, unless its report hangs
  int signal = 0;
  std::string where{};
  bool is_whole = false; ///< it says no more
};

/// A target: a process, or a node that lives in this one.
struct target {
  target_url url;
  std::unique_ptr<target_process> process;
  std::unique_ptr<hosted_node> hosted;
  bool maps_memory = false; ///< of nodes of this machine, which map its
  memory_files memory;
  bool is_existing = false;            ///< somebody else has started it; it cannot be restarted
  std::atomic<bool> is_removed{false}; ///< it is to finish and end; whoever removes it sets it
  std::atomic<bool> is_overdue{false}; ///< and has not in time
  std::atomic<bool> is_lost{false};    ///< its end was told
  bool is_told_to_stop = false;
  bool is_deaf = false;            ///< its socket has ended
  std::string last_words;          ///< why it ends, as it has said, or its server
  std::optional<told_fault> fault; ///< that it dies of
  bool is_dying = false;           ///< that was told as its end; the process writes its report
  std::deque<notice> notices;      ///< not yet sent
  unsigned silent_beats = 0;       ///< heartbeats since it was last heard
  std::set<node_id> acquaintances; ///< targets that know it, or will soon
  std::set<node_id> expectant;     ///< of them, those to be told of it once it knows them
  std::set<node_id> unconfirmed;   ///< those that know it, to be told once it knows them
  std::string failure;             ///< why it has failed
  int exit_code = -1;              ///< as its server has said; less than 0: it has not
  // In a job of equals.
  bool has_left = false;               ///< it has said why it goes
  std::uint32_t quiet_in = 0;          ///< the round in which it was quiet last
  bool was_active = false;             ///< in that round
  std::atomic<bool> is_cut_off{false}; ///< for the thread that watches
  std::mutex telling;                  ///< others' threads use the socket, which its end closes
};

class host_membership final : public membership {
 public:
  host_membership(membership_options o, const program_identity& program);
  ~host_membership() override;

  void start(time_point deadline);

  hosted_node* hosted(node_id node) const noexcept override {
    const target* const t = targets_.find(node);
    return t == nullptr ? nullptr : t->hosted.get();
  }
  void shut_down(const std::function<void()>& meanwhile) override;

  std::vector<node_id> add(const std::vector<target_url>& urls, time_point deadline) override;
  /// Does what add() does; throws other errors of the system, too.
  std::vector<node_id> start_more(const std::vector<target_url>& urls, time_point deadline);
  void remove(node_id node, time_point deadline, const std::function<void()>& meanwhile) override;
  const target_url& url_of(node_id node) const override;

  void give_up(const std::string& why) override;
  bool send_file(node_id to, std::uint64_t number, int file) noexcept override;
  void survive(bool goes_on) override { survives_.store(goes_on, std::memory_order_relaxed); }
  void cut_off(node_id node) override;
  void be_quiet(bool was_active) override;
  int wait_for_others() override;

 private:
  void watch_others(int stop_signal) override;
  bool tell(node_id peer, const std::string& scheme, std::span<const std::byte> bytes,
            std::span<const int> files) noexcept override;
  template <class Message>
  bool tell_now(node_id node, const Message& m, std::span<const int> files) noexcept;
  std::vector<transport*> hosted_transports() const override;

  // ---- starting
  /// Processes that something else has started, beside this one.
  [[nodiscard]] std::uint32_t ranks() const noexcept {
    return options_.group ? options_.group->size - 1 : 0;
  }
  [[nodiscard]] launcher& launcher_of(const transport_entry& row);
  /// Has those that something else has started come.
  void gather(time_point deadline);
  void start_processes(time_point deadline);
  void take_process(target& t, std::unique_ptr<target_process> process);
  void make_memories();
  void greet(node_id node, target& t, time_point deadline);
  [[nodiscard]] part own_part();
  void host_nodes();
  [[nodiscard]] static card receive_card(node_id node, target& t, time_point deadline);
  void let_start(node_id node, target& t, time_point deadline);
  [[nodiscard]] static std::string who(node_id node, const target& t) {
    return node_text(node) + " (\"" + t.process->program() + "\")";
  }
  [[noreturn]] static void throw_not_joined(node_id node, target& t, const char* what);
  static control_message expect(node_id node, target& t, control kind, const char* what,
                                time_point deadline);

  // ---- adding
  using joiners = std::vector<std::pair<node_id, std::unique_ptr<target>>>;
  [[nodiscard]] launcher& launcher_for_more(const transport_entry& row);
  /// Makes them nodes of the job.
  void take_in(joiners& all, std::vector<card> cards, std::vector<node_memory> memories);

  // ---- introducing
  void introduce(node_id asker, node_id other);
  /// `node` knows `other` now, and serves its lanes.
  void is_introduced(node_id node, node_id other);
  void send_introduction(target& to, node_id of, bool knows_it);

  // ---- watching
  /// Has the thread that watches look at all targets.
  void look_around() noexcept;
  /// It is about to.
  void note_look_around() noexcept;
  /// Those that shall end while the job goes on.
  void see_off(node_id node, target& t);
  void end_cut_off(node_id node, target& t);
  /// Takes what the target has said; false once its socket has ended.
  [[nodiscard]] bool hear(node_id node, target& t, int most);
  void take_message(node_id from, target& t, control_message message);
  void pass_on(node_id from, const messages::transport& m, std::vector<unique_fd> files);
  /// As far as can be told without waiting.
  [[nodiscard]] bool has_ended(node_id node, target& t);
  /// The process has ended, or its socket has.
  void lose(node_id node, target& t);
  /// Tells the end of one that has faulted, as soon as enough is known of that: it takes no more
  /// part, although its process lives as long as it reports the fault.
  void end_faulted(node_id node, target& t);
  /// The process has ended, as far as this thread has to care.
  [[nodiscard]] bool has_gone(node_id node, const target& t) const noexcept {
    return roster_.has_failed(node) && !t.is_dying;
  }
  [[nodiscard]] std::string end_text(node_id node, target& t) const;
  /// Returns false if nobody else is to be told.
  [[nodiscard]] bool tell_end(node_id node, target& t);
  void finish_end(node_id node, target& t, bool is_told);
  /// Asks all targets for a sign, and kills those that have given none for the peer timeout.
  void beat();
  /// Those that know it are to be told.
  void spread_end(node_id node, const target& t);
  template <class Message>
  void notify(target& to, const Message& m, node_id memory_of = no_node) {
    to.notices.push_back({Message::kind, m.encode(), memory_of});
    send_notices(to);
  }
  void send_notices(target& to) noexcept;
  [[nodiscard]] bool send_notice(target& to, const notice& n) noexcept;

  // ---- jobs of equals (equals.cpp)
  /// Begins the next round, or ends the job, once all were quiet in this one.
  void end_round();
  void take_quiet(target& t, const messages::quiet& m);
  /// The target goes without having closed the job.
  void take_leave(node_id node, target& t);
  /// One has ended, or is about to, in the way that `why` says. Ends all unless that is what it
  /// should do, or the others go on; true when these have to be told.
  [[nodiscard]] bool lose_equal(node_id node, target& t, const std::string& why);
  [[noreturn]] void end_all(int code) noexcept;
  /// Spares none if that is the host.
  void kill_all_but(node_id spared) noexcept;
  /// Ends the others if this process has started them, and waits until the target has written its
  /// report.
  void await_report(node_id node, target& t);
  static void warn_of_report(node_id node);
  /// On the thread that watches: kills all once give_up() says so.
  void follow_giving_up() noexcept;

  // ---- ending
  void stop_hosted();
  /// We have started it, and it has not joined a job whose start has failed: nothing of it can be
  /// lost.
  [[nodiscard]] bool may_be_killed_early(node_id node, const target& t) const noexcept;
  void kill_rest();

  membership_options options_;
  std::atomic<bool> survives_;
  program_identity program_;
  launch_site site_;
  output_collector output_;                                                 ///< of targets
  std::map<std::string, std::unique_ptr<launcher>, std::less<>> launchers_; ///< of rows, by scheme
  std::unique_ptr<launcher> children_;
  std::unique_ptr<launcher> existing_;
  memory_files own_memory_;
  std::vector<node_memory> mapped_; ///< of targets, until there are transports
  node_table<target> targets_;      ///< none for the host
  std::mutex adding_mutex_;         ///< one thread adds nodes
  node_id next_node_ = 1;           ///< never given to a node yet; guarded by adding_mutex_
  unique_fd look_around_;           ///< of look_around()
  std::mutex lost_mutex_;
  std::condition_variable lost_;               ///< the end of a node was told; with lost_mutex_
  bool is_started_ = false;                    ///< all targets have joined
  std::atomic<std::uint32_t> own_quiet_in_{0}; ///< a round
  std::atomic<bool> own_was_active_{false};    ///< in that round
  std::atomic<bool> has_given_up_{false};
  bool are_killed_ = false; ///< then; lost_mutex_, but for the thread that changes it
  int exit_code_ = 0;       ///< the first of a target that was not zero; guarded by lost_mutex_
  bool is_shut_down_ = false;
};

} // namespace farcall
