// SPDX-License-Identifier: Apache-2.0
#include "resident.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace fc = farcall;

namespace cg {
namespace {

/// Numbers that a member adds to the numbers of the others.
using addends = std::array<double, 2>;

// ---- targets ------------------------------------------------------------------------------------

/// Rows and columns of a member.
struct member_shape {
  row_range range;
  std::size_t first_column = 0;
  std::size_t columns = 0;
};

row_range shared_columns(const member_shape& to, const member_shape& of) {
  const std::size_t first = std::max(to.first_column, of.range.first);
  const std::size_t last = std::min(to.first_column + to.columns, of.range.last);
  return {first, std::max(first, last)};
}

/// Own vectors of a member at a checkpoint.
using checkpoint =
    std::tuple<solver_numbers, std::vector<double>, std::vector<double>, std::vector<double>>;
std::uint64_t iteration_of(const checkpoint& c) { return std::get<0>(c).iterations; }

/// The two newest checkpoints. A member may be one ahead of another.
struct checkpoints {
  std::array<checkpoint, 2> all;
  /// Replaces the older one, whose memory is used again.
  void add(const solver_numbers& numbers, std::span<const double> x, std::span<const double> r,
           std::span<const double> p) {
    std::ranges::sort(all, {}, iteration_of);
    auto& [old_numbers, old_x, old_r, old_p] = all.front();
    old_numbers = numbers;
    old_x.assign(x.begin(), x.end());
    old_r.assign(r.begin(), r.end());
    old_p.assign(p.begin(), p.end());
  }
  [[nodiscard]] const checkpoint& at(std::uint64_t iteration) const {
    const auto found = std::ranges::find(all, iteration, iteration_of);
    if (found == all.end()) throw std::out_of_range("no checkpoint of this iteration");
    return *found;
  }
  [[nodiscard]] std::array<std::uint64_t, 2> iterations() const {
    return {iteration_of(all[0]), iteration_of(all[1])};
  }
};

/// The solver's part in this process. Handlers run on one thread, and while one of them waits.
struct resident {
  std::size_t me = 0;
  std::vector<member_shape> members;
  system_part part;
  solver_state state;
  checkpoints own, of_neighbour; ///< the neighbour is the member before
  std::vector<fc::node> nodes;

  // ---- messages of other members ----
  std::uint32_t epoch = 0;
  bool is_abandoned = false;
  std::uint64_t turn = 0; ///< number of additions so far
  /// Numbers of all members, for an addition and the next one: a member may be one ahead.
  std::array<std::vector<addends>, 2> numbers;
  std::array<std::size_t, 2> counts{}; ///< of the numbers that have arrived
  std::size_t shares = 0;              ///< other members whose entries of p have arrived
  std::optional<fc::promise<void>> change;

  void notify() {
    if (std::optional<fc::promise<void>> waiting = std::exchange(change, std::nullopt))
      waiting->set_value();
  }
  /// Lets other handlers run until `holds()` is true.
  void wait_until(const auto& holds) {
    while (!holds()) {
      if (is_abandoned) throw std::runtime_error("the host has given this attempt up");
      fc::future<void> changed = change.emplace().get_future();
      changed.get();
    }
  }
};
resident here;

void take_numbers(std::uint32_t epoch, std::uint32_t from, std::uint64_t turn, addends values) {
  if (epoch != here.epoch) return;
  here.numbers[turn % 2].at(from) = values;
  ++here.counts[turn % 2];
  here.notify();
}

void take_entries(std::uint32_t epoch, std::uint64_t first, std::span<const double> entries) {
  if (epoch != here.epoch) return;
  std::ranges::copy(entries, here.state.p.begin() +
                                 static_cast<std::ptrdiff_t>(first - here.part.rows.first_column));
  ++here.shares;
  here.notify();
}

void keep_checkpoint(std::uint32_t epoch, const solver_numbers& numbers, std::span<const double> x,
                     std::span<const double> r, std::span<const double> p) {
  if (epoch == here.epoch) here.of_neighbour.add(numbers, x, r, p);
}

void abandon(std::uint32_t epoch) {
  if (epoch != here.epoch) return;
  here.is_abandoned = true;
  here.notify();
}

/// Sends numbers to all members, and returns the numbers of all.
std::vector<addends> exchange(addends mine) {
  const std::size_t slot = here.turn % 2;
  for (std::size_t other = 0; other < here.nodes.size(); ++other) {
    if (other != here.me)
      fc::post(here.nodes[other], take_numbers, here.epoch, static_cast<std::uint32_t>(here.me),
               here.turn, mine);
  }
  here.numbers[slot][here.me] = mine;
  ++here.counts[slot];
  here.wait_until([&] { return here.counts[slot] == here.nodes.size(); });
  here.counts[slot] = 0;
  ++here.turn;
  return here.numbers[slot];
}

void multiply_part(std::span<double> p, std::span<double> q) {
  const member_shape& mine = here.members[here.me];
  std::size_t expected = 0;
  for (std::size_t other = 0; other < here.members.size(); ++other) {
    if (other == here.me) continue;
    const row_range given = shared_columns(here.members[other], mine);
    if (given.size() != 0) {
      fc::post(here.nodes[other], take_entries, here.epoch, std::uint64_t{given.first},
               std::span<const double>(p.subspan(given.first - mine.first_column, given.size())));
    }
    expected += shared_columns(mine, here.members[other]).size() != 0 ? 1 : 0;
  }
  here.wait_until([&] { return here.shares == expected; });
  here.shares = 0;
  const row_block& rows = here.part.rows;
  multiply_rows(rows.row_start, rows.column, rows.value, p, q);
}

void save(const solver_state& now, std::uint64_t checkpoint_interval) {
  if (now.iterations % checkpoint_interval != 0 || here.nodes.size() == 1) return;
  const member_shape& mine = here.members[here.me];
  const std::span<const double> x(now.x);
  const std::span<const double> r(now.r);
  const auto p =
      std::span<const double>(now.p).subspan(mine.range.first - mine.first_column, x.size());
  here.own.add(now, x, r, p);
  fc::post(here.nodes[(here.me + 1) % here.nodes.size()], keep_checkpoint, here.epoch,
           static_cast<const solver_numbers&>(now), x, r, p);
}

// ---- what the host calls ------------------------------------------------------------------------

void take_rows(std::uint64_t me, const std::vector<member_shape>& members,
               std::span<const std::uint64_t> row_start, std::span<const std::uint32_t> column,
               std::span<const double> value, std::span<const double> b,
               std::span<const double> diagonal) {
  here = {};
  here.me = me;
  here.members = members;
  const auto copy = [](auto from, auto& to) { to.assign(from.begin(), from.end()); };
  row_block& rows = here.part.rows;
  rows.range = members.at(me).range;
  rows.first_column = members[me].first_column;
  rows.columns = members[me].columns;
  copy(row_start, rows.row_start);
  copy(column, rows.column);
  copy(value, rows.value);
  copy(b, here.part.b);
  copy(diagonal, here.part.diagonal);
}

/// Begins an attempt. Called on all targets before any of them runs it.
void begin(std::uint32_t epoch, const std::vector<fc::node>& nodes) {
  here.epoch = epoch;
  here.is_abandoned = false;
  here.nodes = nodes;
  here.turn = 0;
  here.counts = {};
  here.shares = 0;
  for (std::vector<addends>& all : here.numbers)
    all.assign(nodes.size(), {});
}

std::pair<outcome, solver_numbers> run(const solver_options& options, std::uint64_t fails_in) {
  const row_block& rows = here.part.rows;
  member m{.before = rows.range.first - rows.first_column,
           .after = rows.first_column + rows.columns - rows.range.last,
           .apply = multiply_part};
  m.add = [](std::span<double> values) {
    addends mine{};
    std::ranges::copy(values, mine.begin());
    std::ranges::fill(values, 0.0);
    for (const addends& other : exchange(mine))
      for (std::size_t k = 0; k < values.size(); ++k)
        values[k] += other[k];
  };
  m.largest = [](double own) {
    for (const addends& other : exchange({own}))
      own = std::max(own, other[0]);
    return own;
  };
  solution s = conjugate_gradient(m, here.part.b, here.part.diagonal, options, here.state,
                                  [&](const solver_state& now) {
                                    if (now.iterations == fails_in) ::raise(SIGKILL);
                                    save(now, options.checkpoint_interval);
                                  });
  here.state.x = std::move(s.x);
  return {s.how, here.state};
}

std::vector<double> result() { return here.state.x; }

std::pair<std::array<std::uint64_t, 2>, std::array<std::uint64_t, 2>> saved_iterations() {
  return {here.own.iterations(), here.of_neighbour.iterations()};
}
checkpoint checkpoint_of_neighbour(std::uint64_t iteration) {
  return here.of_neighbour.at(iteration);
}

void go_back_to(const checkpoint& to) {
  here.state = {};
  if (iteration_of(to) == 0) return;
  const member_shape& mine = here.members[here.me];
  static_cast<solver_numbers&>(here.state) = std::get<0>(to);
  here.state.x = std::get<1>(to);
  here.state.r = std::get<2>(to);
  here.state.p.assign(mine.columns, 0.0);
  std::ranges::copy(std::get<3>(to),
                    here.state.p.begin() +
                        static_cast<std::ptrdiff_t>(mine.range.first - mine.first_column));
}
void go_back_to_own(std::uint64_t iteration) {
  go_back_to(iteration == 0 ? checkpoint() : here.own.at(iteration));
}

} // namespace

// ---- the host -----------------------------------------------------------------------------------

resident_solver::resident_solver(fc::job& job, const csr_matrix& matrix, std::span<const double> b)
    : job_(job), parts_(split(matrix, b, job.targets().size())) {
  if (job.targets().empty()) throw std::invalid_argument("the job has no target to compute on");
  targets_.assign(job.targets().begin(),
                  job.targets().begin() + static_cast<std::ptrdiff_t>(parts_.size()));
  for (std::size_t i = 0; i < parts_.size(); ++i)
    send_rows(i);
}

void resident_solver::send_rows(std::size_t member) {
  std::vector<member_shape> shapes;
  for (const system_part& part : parts_)
    shapes.push_back({part.rows.range, part.rows.first_column, part.rows.columns});
  const system_part& own = parts_[member];
  fc::sync(targets_[member], take_rows, std::uint64_t{member}, shapes, own.rows.row_start,
           own.rows.column, own.rows.value, own.b, own.diagonal);
}

std::vector<std::optional<solver_numbers>>
resident_solver::run_all(const solver_options& options, std::uint64_t fails_in, outcome& how) {
  ++epoch_;
  for (const fc::node& target : targets_)
    fc::sync(target, begin, epoch_, targets_);
  using result_of_run = std::pair<outcome, solver_numbers>;
  std::vector<fc::future<result_of_run>> running;
  for (const fc::node& target : targets_) {
    const bool fails = &target == &targets_.back();
    running.push_back(fc::async(target, run, options, fails ? fails_in : 0));
  }
  std::vector<std::optional<solver_numbers>> results(targets_.size());
  std::vector<std::size_t> member_of(targets_.size());
  for (std::size_t i = 0; i < member_of.size(); ++i)
    member_of[i] = i;
  std::exception_ptr failure;
  bool has_lost_one = false;
  while (!running.empty()) {
    auto any = fc::when_any(std::move(running)).get();
    running = std::move(any.futures);
    const std::size_t member = member_of[any.index];
    try {
      std::tie(how, results[member].emplace()) = running[any.index].get();
    } catch (const fc::error& e) {
      results[member].reset();
      has_lost_one = has_lost_one || (dynamic_cast<const fc::node_failed*>(&e) != nullptr &&
                                      e.node() == targets_[member].id());
      if (!failure) {
        failure = std::current_exception();
        // The others wait for this target. Futures tell which of them have failed, too.
        for (const std::size_t other : member_of) {
          try {
            if (other != member) fc::post(targets_[other], abandon, epoch_);
          } catch (const fc::node_failed&) {
          }
        }
      }
    }
    const auto place = static_cast<std::ptrdiff_t>(any.index);
    running.erase(running.begin() + place);
    member_of.erase(member_of.begin() + place);
  }
  if (failure && !has_lost_one) std::rethrow_exception(failure);
  return results;
}

std::uint64_t resident_solver::replace(const std::vector<std::size_t>& failed) {
  const std::size_t members = targets_.size();
  const auto is_failed = [&](std::size_t m) { return std::ranges::count(failed, m) != 0; };
  // A checkpoint is complete if the neighbour of each failed target has it, and each other target.
  std::vector<std::array<std::uint64_t, 2>> saved;
  for (std::size_t m = 0; m < members; ++m) {
    if (is_failed(m)) continue;
    const auto [own, of_neighbour] = fc::sync(targets_[m], saved_iterations);
    saved.push_back(own);
    if (is_failed((m + members - 1) % members)) saved.push_back(of_neighbour);
  }
  std::uint64_t newest = 0;
  const bool have_all = saved.size() == members; // no failed target is another's neighbour
  for (const std::uint64_t iteration : have_all ? saved.front() : std::array<std::uint64_t, 2>{}) {
    if (iteration > newest && std::ranges::all_of(saved, [&](const auto& each) {
          return std::ranges::count(each, iteration) != 0;
        }))
      newest = iteration;
  }
  for (const std::size_t m : failed) {
    targets_[m] = job_.restart(targets_[m]);
    send_rows(m);
    if (newest != 0) {
      const checkpoint kept =
          fc::sync(targets_[(m + 1) % members], checkpoint_of_neighbour, newest);
      fc::sync(targets_[m], go_back_to, kept);
    }
  }
  for (std::size_t m = 0; m < members; ++m)
    if (!is_failed(m)) fc::sync(targets_[m], go_back_to_own, newest);
  return newest;
}

solution resident_solver::solve(const solver_options& options, std::uint64_t fails_in,
                                const std::function<void(const std::string&)>& tell) {
  for (const fc::node& target : targets_)
    fc::sync(target, go_back_to_own, std::uint64_t{0});
  solution s;
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const std::vector<std::optional<solver_numbers>> results =
        run_all(options, std::exchange(fails_in, 0), s.how);
    std::vector<std::size_t> failed;
    for (std::size_t m = 0; m < targets_.size(); ++m) {
      // A target that has not failed, but was abandoned, has no result either.
      if (!results[m] && !std::ranges::count(job_.live_targets(), targets_[m].id(), &fc::node::id))
        failed.push_back(m);
    }
    if (failed.empty()) {
      s.iterations = results.front()->iterations;
      s.residual = results.front()->residual;
      break;
    }
    std::string text;
    for (const std::size_t m : failed)
      text += join(text.empty() ? "" : ", ", targets_[m].name());
    const std::uint64_t from = replace(failed);
    text += join(" failed; another target has its rows, and all go on from iteration ", from);
    if (tell) tell(text);
  }
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (const fc::node& target : targets_) {
    const std::vector<double> own = fc::sync(target, result);
    s.x.insert(s.x.end(), own.begin(), own.end());
  }
  return s;
}

std::vector<std::string> resident_solver::descriptions() const {
  std::vector<std::string> all;
  for (std::size_t m = 0; m < targets_.size(); ++m)
    all.push_back(join(targets_[m].id(), ' ', targets_[m].name(), ": ", parts_[m].rows.range.size(),
                       " rows, ", parts_[m].rows.nonzeros(), " nonzeros"));
  return all;
}

} // namespace cg
