// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/offload/incoming.hpp>
#include <farcall/offload/job_state.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// Reductions of jobs of equals.
///
/// The nodes form groups of 2^k neighbours. Two neighbouring groups combine their values, the lower
/// one on the left, so that values are always combined in the order of the node numbers. If the
/// number of nodes is not a power of two, the lowest nodes first combine their values in pairs, and
/// the lower node of each pair continues for both. The number of pairs is chosen so that a power of
/// two continues. So the operands of each operation depend only on the number of nodes; reduce()
/// and all_reduce() of any size give the same bits.
///
/// * A short all_reduce() exchanges all values between the members of two groups (recursive
///   doubling). A long one exchanges halves, halves of these halves, and so on, until each node has
///   combined a part of the values; then the nodes exchange the parts (Rabenseifner).
/// * A short reduce() passes the values of each group to its lowest member (binomial tree), and
/// node
///   0 passes the result to the root. A long one combines halves, too, and the root gathers them.
///   So each node sends to a node that does not depend on the root before it waits for another one,
///   and nodes that name different roots notice it.
/// * In a scan(), each node passes its result to the next node, piece by piece. If the values are
///   short and there are many nodes, the nodes instead combine the values of 2^k nodes in round k
///   (Hillis and Steele), which takes more messages, but fewer steps.
namespace farcall::detail {
namespace {

/// Size from which on values are sent in parts, because bytes then cost more than messages.
constexpr std::size_t long_from = std::size_t{16} << 10;

/// Number of nodes up to which each node passes a short scan's result to the next one.
constexpr node_id most_in_chain = 4;

/// Size up to which the memory of reduce() is kept for the next one.
constexpr std::size_t most_scratch = std::size_t{4} << 20;

/// Numbers of rounds. Rounds of groups of 2^k nodes have these numbers plus k.
constexpr std::uint32_t round_of_pairs = 0;
constexpr std::uint32_t round_of_groups = 1;
constexpr std::uint32_t round_of_parts = 32;
constexpr std::uint32_t last_round = 64;

/// Returns the size of an element for a label.
std::uint32_t size_in_label(const reduction& how) noexcept {
  return static_cast<std::uint32_t>(std::min<std::size_t>(how.element_size, UINT32_MAX));
}

/// Range [first, last) of bytes.
struct part {
  std::size_t first;
  std::size_t last;
  [[nodiscard]] std::size_t size() const noexcept { return last - first; }
};

} // namespace

struct collectives::reducing {
  collectives& all;
  job_state& job;
  const reduction& how;
  time_point deadline;
  /// Values of this node, combined with the values that it has received. Points to the caller's
  /// values at first, and later to `result`.
  const std::byte* values;
  std::byte* result;
  std::size_t bytes;
  node_id root = no_node;
  node_id self = job.members->self();
  node_id nodes = static_cast<node_id>(job.members->nodes());
  node_id places = std::bit_floor(nodes);
  node_id pairs = nodes - places;
  /// Ranges of the values that this node had before each round in which it gave half away.
  std::vector<part> parts{};

  // ---- messages ----

  /// True if no message is sent for a part. If the nodes give no values at all, empty messages are
  /// sent nevertheless, because another node may give values, and wait for this one.
  [[nodiscard]] bool is_skipped(part p) const noexcept { return p.size() == 0 && bytes != 0; }
  void send(node_id to, std::uint32_t round, part p) const {
    if (is_skipped(p)) return;
    all.send(job, to, round, {values + p.first, p.size()}, deadline, how.element_size);
  }
  void receive(node_id from, std::uint32_t round, part p) {
    if (is_skipped(p)) return;
    all.receive(job, from, round, {result + p.first, p.size()}, deadline);
  }
  /// Consumes pieces of values by combining them with the values in `result`.
  struct combination {
    const reduction& how;
    std::byte* to;
    bool from_is_left;

    static void take(void* argument, std::size_t offset, std::span<const std::byte> piece) {
      const auto& [how, to, from_is_left] = *static_cast<const combination*>(argument);
      if (piece.empty()) return;
      if (offset % how.element_size != 0 || piece.size() % how.element_size != 0) {
        throw error("a message of a reduction divides a value of " +
                    std::to_string(how.element_size) + " bytes");
      }
      const std::byte* from = piece.data();
      std::unique_ptr<std::byte[]> aligned;
      if (reinterpret_cast<std::uintptr_t>(from) % how.alignment != 0) {
        // operator new[] aligns for all types but over-aligned ones, which reducible excludes.
        aligned.reset(new std::byte[piece.size()]);
        std::memcpy(aligned.get(), from, piece.size());
        from = aligned.get();
      }
      how.combine(how.argument, from, to + offset, piece.size() / how.element_size, from_is_left);
    }
  };
  /// Brings the part `p` of the values into `result`, whose bytes can be changed.
  void own(part p) {
    if (values != result && p.size() != 0)
      std::memcpy(result + p.first, values + p.first, p.size());
    values = result;
  }
  /// Receives a part of another node's values, and combines it with this node's.
  void combine(node_id from, std::uint32_t round, part p, bool from_is_left) {
    if (is_skipped(p)) return;
    own(p);
    combination with{how, result + p.first, from_is_left};
    incoming in(all, job, from, round, p.size(), {&combination::take, &with});
    in.wait(p.size(), deadline);
  }
  [[nodiscard]] part whole() const noexcept { return {0, bytes}; }

  // ---- places ----

  /// Returns the place of a node's pair, or of a node without one, in the order of the nodes.
  [[nodiscard]] node_id place_of(node_id node) const noexcept {
    return node < 2 * pairs ? node / 2 : node - pairs;
  }
  /// Returns the node that has a place: for a pair, its lower node.
  [[nodiscard]] node_id node_at(node_id place) const noexcept {
    return place < pairs ? 2 * place : place + pairs;
  }

  // ---- steps ----

  /// Combines the values of the pairs. Returns false if the other node continues for this one.
  [[nodiscard]] bool begin_pair() {
    if (self >= 2 * pairs) return true;
    if (self % 2 == 1) {
      send(self - 1, round_of_pairs, whole());
      return false;
    }
    combine(self + 1, round_of_pairs, whole(), false);
    return true;
  }

  void exchange_all() {
    const node_id place = place_of(self);
    std::uint32_t round = round_of_groups;
    for (node_id group = 1; group < places; group *= 2, ++round) {
      const node_id other = place ^ group;
      send(node_at(other), round, whole());
      combine(node_at(other), round, whole(), other < place);
    }
  }

  /// Combines a part of the values of all nodes on each node.
  void exchange_halves() {
    const node_id place = place_of(self);
    std::uint32_t round = round_of_groups;
    part mine = whole();
    for (node_id group = 1; group < places; group *= 2, ++round) {
      const node_id other = place ^ group;
      parts.push_back(mine);
      const std::size_t elements = mine.size() / how.element_size;
      const std::size_t middle = mine.first + elements / 2 * how.element_size;
      part theirs = {middle, mine.last};
      mine = {mine.first, middle};
      if (other < place) std::swap(mine, theirs);
      send(node_at(other), round, theirs);
      combine(node_at(other), round, mine, other < place);
    }
    parts.push_back(mine);
  }

  /// Exchanges the parts that exchange_halves() has combined. If there is a root, only sends them
  /// towards the root.
  void gather_parts() {
    const node_id place = place_of(self);
    node_id group = places;
    std::uint32_t round = round_of_parts;
    for (std::size_t k = parts.size() - 1; k-- > 0; ++round) {
      group /= 2;
      const node_id other = place ^ group;
      const part mine = parts[k + 1];
      const part both = parts[k];
      const part theirs =
          mine.first == both.first ? part{mine.last, both.last} : part{both.first, mine.first};
      const bool takes = root == no_node || ((place_of(root) ^ place) & group) == 0;
      if (root == no_node || !takes) send(node_at(other), round, mine);
      if (!takes) return;
      receive(node_at(other), round, theirs);
    }
  }

  /// Combines the values of all places at the first one.
  void pass_to_first() {
    const node_id place = place_of(self);
    std::uint32_t round = round_of_groups;
    for (node_id group = 1; group < places; group *= 2, ++round) {
      if ((place & group) != 0) return send(node_at(place - group), round, whole());
      combine(node_at(place + group), round, whole(), false);
    }
  }

  // ---- collectives ----

  void reduce() {
    if (nodes == 1) return own(whole());
    if (begin_pair()) {
      if (bytes < long_from) {
        pass_to_first();
      } else {
        exchange_halves();
        gather_parts();
      }
    }
    const node_id last = bytes < long_from ? 0 : node_at(place_of(root)); // has the result
    if (last == root) return;
    if (self == last) send(root, last_round, whole());
    if (self == root) receive(last, last_round, whole());
  }

  void all_reduce() {
    if (nodes == 1) return;
    if (!begin_pair()) return receive(self - 1, last_round, whole());
    if (bytes < long_from) {
      exchange_all();
    } else {
      exchange_halves();
      gather_parts();
    }
    if (self < 2 * pairs) send(self + 1, last_round, whole());
  }

  void scan_by_distances() {
    std::uint32_t round = round_of_groups;
    for (node_id distance = 1; distance < nodes; distance *= 2, ++round) {
      if (self + distance < nodes) send(self + distance, round, whole());
      if (self >= distance) combine(self - distance, round, whole(), true);
    }
  }

  void scan_in_chain() {
    combination with{how, result, true};
    const auto pass = [&](incoming* in) {
      label of = all.label_of(job, round_of_groups, bytes);
      const std::size_t piece = collectives::piece_of(how.element_size);
      std::size_t first = 0;
      do {
        const std::size_t last = std::min(first + piece, bytes);
        if (in != nullptr) in->wait(last, deadline);
        if (self + 1 < nodes)
          all.send_piece(job, self + 1, of, {result + first, last - first}, deadline);
        first = last;
      } while (first < bytes);
    };
    if (self == 0) return pass(nullptr);
    incoming in(all, job, self - 1, round_of_groups, bytes, {&combination::take, &with});
    pass(&in);
  }
};

void collectives::reduce(job_state& job, std::span<const std::byte> mine,
                         std::span<std::byte> result, const reduction& how, node_id root,
                         time_point deadline) {
  if (root >= job.members->nodes())
    throw error("reduce(): " + missing_node_text(root, job.members->nodes()));
  const label as{.size = mine.size(),
                 .root = root,
                 .kind = collective::reduce,
                 .operation = how.operation,
                 .type = how.type,
                 .element_size = size_in_label(how)};
  run(job, as, [&] {
    const bool is_root = job.members->self() == root;
    if (!is_root) scratch_.resize(mine.size());
    reducing{*this,       job,         how,
             deadline,    mine.data(), is_root ? result.data() : scratch_.data(),
             mine.size(), root}
        .reduce();
    // Large memory is given back.
    if (scratch_.size() > most_scratch) scratch_ = {};
  });
}

void collectives::all_reduce(job_state& job, std::span<std::byte> values, const reduction& how,
                             time_point deadline) {
  const label as{.size = values.size(),
                 .kind = collective::all_reduce,
                 .operation = how.operation,
                 .type = how.type,
                 .element_size = size_in_label(how)};
  run(job, as, [&] {
    reducing{*this, job, how, deadline, values.data(), values.data(), values.size()}.all_reduce();
  });
}

void collectives::scan(job_state& job, std::span<std::byte> values, const reduction& how,
                       time_point deadline) {
  const label as{.size = values.size(),
                 .kind = collective::scan,
                 .operation = how.operation,
                 .type = how.type,
                 .element_size = size_in_label(how)};
  run(job, as, [&] {
    reducing work{*this, job, how, deadline, values.data(), values.data(), values.size()};
    if (values.size() < long_from && work.nodes > most_in_chain) {
      work.scan_by_distances();
    } else {
      work.scan_in_chain();
    }
  });
}

} // namespace farcall::detail
