// SPDX-License-Identifier: Apache-2.0
#include <farcall/copy/copy_plan.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace farcall::test::copy_plan_test {
namespace {

using detail::copy_end;
using detail::copy_facts;
using detail::copy_plan;
using detail::copy_way;
using detail::plan_copy;

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t mib = 1024 * kib;
/// Threshold of RMA engines over networks; "t" in the table.
constexpr std::uint64_t threshold = 8 * kib;
/// Sizes at which plans change.
constexpr std::array<std::uint64_t, 6> sizes{0, threshold, 128 * kib, 512 * kib, 4 * mib, 16 * mib};

/// A line of facts in the table, which holds in both directions.
struct facts_row {
  const char* ends;
  const char* condition;
  copy_facts facts;
};

copy_facts facts_of(copy_end from, copy_end to) {
  return {.from = from, .to = to, .bytes = 0, .is_sync = true};
}

std::vector<facts_row> all_facts() {
  using enum copy_end;
  std::vector<facts_row> rows;
  rows.push_back({"own, mapped", "synchronous", facts_of(own, mapped)});
  rows.push_back({"own, mapped", "asynchronous", facts_of(own, mapped)});
  rows.back().facts.is_sync = false;
  copy_facts f = facts_of(own, machine);
  f.rma_threshold = 0;
  f.is_rma_mutual = true;
  rows.push_back({"own, machine", "RMA engines of both nodes", f});
  f.has_deadline = true;
  rows.push_back({"own, machine", "the same, with a deadline", f});
  f = facts_of(own, machine);
  f.rma_threshold = 0;
  rows.push_back({"own, machine", "RMA engine of this node", f});
  f = facts_of(own, remote);
  f.rma_threshold = threshold;
  rows.push_back({"own, remote", "RMA engine", f});
  rows.push_back({"own, remote", "no RMA engine", facts_of(own, remote)});
  f = facts_of(own, domain);
  f.rma_threshold = threshold;
  rows.push_back({"own, domain", "", f});
  f.from = mapped;
  rows.push_back({"mapped, domain", "", f});
  f.from = domain;
  rows.push_back({"domain, domain", "", f});
  f.from = machine;
  rows.push_back({"machine, domain", "", f});
  f.from = remote;
  rows.push_back({"remote, domain", "", f});
  rows.push_back({"mapped, machine or remote, of two other nodes", "", facts_of(mapped, remote)});
  return rows;
}

copy_plan plan_of(copy_facts f, std::uint64_t bytes) {
  f.bytes = bytes;
  return plan_copy(f);
}

bool is_same(const copy_plan& a, const copy_plan& b) {
  return a.way == b.way && a.rival == b.rival && a.fallback == b.fallback;
}

std::string text_of(copy_way way) {
  switch (way) {
  case copy_way::none:
    return "fails";
  case copy_way::in_place:
    return "in place";
  case copy_way::in_pieces:
    return "in pieces";
  case copy_way::by_rma:
    return "RMA engine";
  case copy_way::by_both_ends:
    return "RMA engines of both ends";
  case copy_way::by_ring:
    return "ring";
  case copy_way::by_messages:
    return "messages";
  case copy_way::by_destination:
    return "destination's node";
  case copy_way::by_host:
    return "memory of this node";
  }
  return "?";
}

std::string text_of(std::uint64_t bytes) {
  if (bytes == threshold) return "t";
  return bytes < mib ? std::to_string(bytes / kib) + " KiB" : std::to_string(bytes / mib) + " MiB";
}

std::string row_of(const facts_row& r, std::uint64_t from, std::optional<std::uint64_t> to,
                   const copy_plan& plan) {
  std::string range = "any";
  if (from != 0 && to) range = text_of(from) + " to " + text_of(*to);
  if (from != 0 && !to) range = "from " + text_of(from);
  if (from == 0 && to) range = "below " + text_of(*to);
  std::string way = text_of(plan.way);
  if (plan.rival != plan.way) way += " or " + text_of(plan.rival) + ", the faster one";
  const bool may_refuse = plan.way == copy_way::by_rma || plan.way == copy_way::by_both_ends;
  return std::string("| ") + r.ends + " | " + r.condition + " | " + range + " | " + way + " | " +
         (may_refuse ? text_of(plan.fallback) : "") + " |";
}

std::vector<std::string> table() {
  std::vector<std::string> lines;
  for (const facts_row& r : all_facts()) {
    std::uint64_t from = 0;
    for (const std::uint64_t size : sizes) {
      if (is_same(plan_of(r.facts, from), plan_of(r.facts, size))) continue;
      lines.push_back(row_of(r, from, size, plan_of(r.facts, from)));
      from = size;
    }
    lines.push_back(row_of(r, from, std::nullopt, plan_of(r.facts, from)));
  }
  return lines;
}

TEST(copy_plans, are_what_the_documentation_says) {
  std::ifstream file(FARCALL_DOCUMENTS "/copies.md");
  std::vector<std::string> lines;
  bool is_inside = false;
  for (std::string line; std::getline(file, line);) {
    if (is_inside && line.starts_with("| ")) lines.push_back(line);
    if (line.starts_with("|---") && lines.empty()) is_inside = true;
    if (line.empty()) is_inside = false;
  }
  std::string text;
  for (const std::string& line : table())
    text += line + "\n";
  EXPECT_EQ(lines, table()) << "the table of docs/copies.md must be\n" << text;
}

TEST(copy_plans, are_the_same_in_both_directions) {
  for (const facts_row& r : all_facts()) {
    copy_facts back = r.facts;
    std::swap(back.from, back.to);
    for (const std::uint64_t size : sizes)
      EXPECT_TRUE(is_same(plan_of(r.facts, size), plan_of(back, size))) << r.ends << " " << size;
  }
}

TEST(copy_plans, change_at_no_other_size) {
  for (const facts_row& r : all_facts()) {
    for (std::size_t i = 1; i < sizes.size(); ++i)
      EXPECT_TRUE(is_same(plan_of(r.facts, sizes[i - 1]), plan_of(r.facts, sizes[i] - 1))) << i;
    EXPECT_TRUE(is_same(plan_of(r.facts, sizes.back()), plan_of(r.facts, UINT64_MAX - 1)));
  }
}

TEST(copy_plans, give_long_asynchronous_copies_to_the_copy_thread) {
  for (const facts_row& r : all_facts()) {
    copy_facts f = r.facts;
    f.is_sync = false;
    const copy_plan plan = plan_of(f, async_copy_from);
    const bool asks_others = plan.way == copy_way::by_destination || plan.way == copy_way::by_host;
    EXPECT_EQ(plan.is_on_thread, !asks_others) << r.ends;
    EXPECT_FALSE(plan_of(f, async_copy_from - 1).is_on_thread) << r.ends;
    f.is_sync = true;
    EXPECT_FALSE(plan_of(f, async_copy_from).is_on_thread) << r.ends;
  }
}

TEST(copy_plans, leave_copies_between_other_nodes_to_the_destination) {
  using enum copy_end;
  for (const copy_end from : {mapped, machine, remote}) {
    for (const copy_end to : {mapped, machine, remote})
      EXPECT_EQ(plan_copy(facts_of(from, to)).way, copy_way::by_destination);
  }
}

} // namespace
} // namespace farcall::test::copy_plan_test
