// SPDX-License-Identifier: Apache-2.0
#include <tests/model/explorer.hpp>

#include <atomic>
#include <cstring>
#include <string_view>

namespace farcall::check {
namespace {

const char* order_word(std::memory_order o) noexcept {
  switch (o) {
  case std::memory_order_relaxed:
    return "relaxed";
  case std::memory_order_consume:
    return "consume";
  case std::memory_order_acquire:
    return "acquire";
  case std::memory_order_release:
    return "release";
  case std::memory_order_acq_rel:
    return "acq_rel";
  default:
    return "seq_cst";
  }
}

/// Returns, for example, "commit" for "void farcall::commit(farcall::outbox&, …)".
std::string short_name(std::string_view function) {
  function = function.substr(0, function.find('('));
  if (const auto at = function.find_last_of(" :*&"); at != std::string_view::npos)
    function.remove_prefix(at + 1);
  return std::string(function);
}

/// True for sites in tests, which are not mutated.
bool is_of_a_test(const site& s) {
  return std::string_view(s.where.file_name()).find("tests/model/") != std::string_view::npos;
}

} // namespace

const char* word_of(operation what) noexcept {
  switch (what) {
  case operation::load:
    return "load";
  case operation::store:
    return "store";
  case operation::update:
    return "update";
  case operation::fence:
    return "fence";
  case operation::barrier:
    return "barrier";
  case operation::lock:
    return "lock";
  case operation::try_lock:
    return "try_lock";
  case operation::unlock:
    return "unlock";
  case operation::sleep:
    return "sleep";
  case operation::wake:
    return "wake";
  case operation::awake:
    return "awake";
  default:
    return "pause";
  }
}

const char* word_of(mutation m) noexcept {
  switch (m) {
  case mutation::weaken:
    return "weakened";
  case mutation::omit:
    return "omitted";
  case mutation::repeat:
    return "repeated";
  case mutation::delay:
    return "delayed";
  default:
    return "unchanged";
  }
}

bool site::operator==(const site& other) const noexcept {
  return where.line() == other.where.line() && where.column() == other.where.column() &&
         what == other.what && is_pointer == other.is_pointer &&
         std::strcmp(where.file_name(), other.where.file_name()) == 0;
}

std::string site::text() const {
  std::string all = short_name(where.function_name()) + ": " + check::word_of(what);
  if (what <= operation::fence) all += std::string(" ") + order_word(order);
  return all;
}

std::vector<mutant> mutants_of(const outcome& correct) {
  std::vector<mutant> all;
  for (const site& s : correct.sites) {
    if (is_of_a_test(s)) continue;
    const bool has_order = s.what <= operation::fence || s.what == operation::barrier;
    if (has_order && s.order != std::memory_order_relaxed) all.push_back({mutation::weaken, s});
    if (s.is_pointer && s.what == operation::load) {
      all.push_back({mutation::repeat, s});
    } else if (s.what == operation::load || s.what == operation::store ||
               s.what == operation::update || s.what == operation::wake ||
               s.what == operation::sleep) {
      all.push_back({mutation::omit, s});
    }
    if (s.what == operation::store) all.push_back({mutation::delay, s});
  }
  return all;
}

} // namespace farcall::check
