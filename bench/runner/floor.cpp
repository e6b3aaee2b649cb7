// SPDX-License-Identifier: Apache-2.0
#include "floor.hpp"
#include "echo.hpp"
#include "options.hpp"

#include <tools/common/table.hpp>

#include <array>
#include <atomic>

#include <fmt/format.h>

namespace farcall::tool {

namespace {

/// Distance of the two flags: two cache lines, because the adjacent-line prefetcher fetches pairs.
constexpr std::size_t apart = 128;

/// Pairs of flags, a different one for each batch, like messages in a ring. The slice of the shared
/// cache that holds a line changes the round trip by up to a third, so a single pair would be a
/// matter of luck.
constexpr std::uint64_t places = floor_places;

/// Two flags, each written by one side.
struct place {
  alignas(apart) std::atomic<std::uint64_t> ping{0}; ///< written by the host
  alignas(apart) std::atomic<std::uint64_t> pong{0}; ///< written by the echo
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// Packs the number of the round trip and the index of the next pair into a flag.
constexpr std::uint64_t flag_value(std::uint64_t number, std::uint64_t next_place) {
  return number * places + next_place;
}
constexpr std::uint64_t number_in(std::uint64_t flag) { return flag / places; }
constexpr std::uint64_t next_place_in(std::uint64_t flag) { return flag % places; }

/// Link of two flags, one in each direction.
struct flags {
  using memory = std::array<place, places>;

  class host_side {
   public:
    explicit host_side(memory& at) : at_(at) {}
    /// Sends a round trip. All of a batch use one pair; the last one moves both sides to the next
    /// pair.
    void ask(bool is_last) {
      here_ = &at_[next_];
      if (is_last) next_ = (next_ + 1) % places;
      asked_ = flag_value(++sent_, next_);
      here_->ping.store(asked_, std::memory_order_release); // partner: the load in reply()
    }
    [[nodiscard]] bool take() const {
      return here_->pong.load(std::memory_order_acquire) == asked_; // partner: the store in reply()
    }

   private:
    memory& at_;
    place* here_ = nullptr;
    std::uint64_t next_ = 0;
    std::uint64_t sent_ = 0;
    std::uint64_t asked_ = 0;
  };

  class echo_side {
   public:
    explicit echo_side(memory& at) : at_(at), here_(at.data()) {}
    [[nodiscard]] bool reply() {
      const std::uint64_t asked =
          here_->ping.load(std::memory_order_acquire); // partner: the store in ask()
      if (number_in(asked) != replied_ + 1) return false;
      here_->pong.store(asked, std::memory_order_release); // partner: the load in take()
      ++replied_;
      here_ = &at_[next_place_in(asked)];
      return true;
    }

   private:
    memory& at_;
    place* here_;
    std::uint64_t replied_ = 0;
  };
};

} // namespace

struct floor_meter::process : echo<flags> {
  explicit process(core_pair cores) : echo(cores, "the floor") {}
};

floor_meter::floor_meter(core_pair cores, std::size_t batches, std::size_t calls)
    // On a shared core each round trip costs two context switches, with spinning before each.
    : floor_probe(cores), batches_(batches), calls_(cores.shared() ? 100 : calls),
      echo_(std::make_unique<process>(cores)) {
  const scoped_pin pin{cores.host};
  echo_->tell(echo_state::echoing);
  for (std::uint64_t i = 0; i < places; ++i)
    echo_->round_trips(10); // both sides touch every pair
  echo_->tell(echo_state::asleep);
}

floor_meter::~floor_meter() = default;

std::vector<double> floor_meter::take_samples() {
  const scoped_pin pin{cores().host};
  echo_->tell(echo_state::echoing);
  const std::size_t warm_up = cores().shared() ? 1 : 10; // until both cores run at full speed
  std::vector<double> samples =
      time_batches(batches_, calls_, warm_up, [&] { echo_->round_trips(calls_); });
  echo_->tell(echo_state::asleep);
  return samples;
}

connection_floor::connection_floor(core_pair cores, std::size_t batches, std::size_t calls)
    : floor_probe(cores), peer_(cores), batches_(batches), calls_(cores.shared() ? 20 : calls) {}

std::vector<double> connection_floor::take_samples() {
  const scoped_pin pin{cores().host};
  peer_.connect();
  std::vector<double> samples = time_batches(batches_, calls_, cores().shared() ? 1 : 5, [&] {
    for (std::size_t i = 0; i < calls_; ++i)
      peer_.round_trip();
  });
  peer_.disconnect();
  return samples;
}

bus_floor::bus_floor(core_pair cores, std::uint32_t device, std::size_t batches, std::size_t calls)
    : floor_probe(cores), code_(code_for_gpus()), device_(device), batches_(batches),
      calls_(calls) {}

std::vector<double> bus_floor::take_samples() {
  const scoped_pin pin{cores().host};
  return code_.time_flags(device_, batches_, calls_);
}

std::string floor_text(const floor_probe& floor) {
  const summary ns = floor.pooled();
  const auto text = [](double value) {
    std::string time = format_time(value);
    if (time.ends_with(" us")) time.replace(time.size() - 2, 1, "µ");
    return time;
  };
  return fmt::format("floor of the whole run: {} (p1 {}, p99 {}), {}\n", text(ns.p50), text(ns.p1),
                     text(ns.p99), floor.what());
}

} // namespace farcall::tool
