// SPDX-License-Identifier: Apache-2.0
#include <farcall/c/errors.hpp>
#include <farcall/c/function_table.hpp>

#include <utility>

namespace farcall::c {

function_table::function_table() { grow(64); }

function_table::~function_table() = default;

function_table& function_table::instance() {
  // The table is never destroyed, because a job that is a static object may still use it after
  // other static objects were destroyed.
  static auto* const table = new function_table;
  return *table;
}

void function_table::place(index& all, row* r) noexcept {
  std::size_t at = r->hash & all.mask;
  // Relaxed, because only threads that hold the mutex fill places.
  while (all.rows[at].load(std::memory_order_relaxed) != nullptr)
    at = (at + 1) & all.mask;
  all.rows[at].store(r, std::memory_order_release);
}

void function_table::grow(std::size_t places) {
  auto larger = std::make_unique<index>(places);
  for (const auto& r : rows_)
    place(*larger, r.get());
  const index* const in_use = larger.get();
  indices_.push_back(std::move(larger));
  index_.store(in_use, std::memory_order_release);
}

function_table::row& function_table::known(std::string_view name, fc_function hash) {
  if (name.empty()) throw invalid_argument("a function needs a name that is not empty");
  if (row* const r = row_of(hash)) {
    if (r->name == name) return *r;
    throw invalid_argument("the functions '" + r->name + "' and '" + std::string(name) +
                           "' have one hash and cannot be told apart; rename one of them");
  }
  if (2 * (rows_.size() + 1) > indices_.back()->rows.size()) {
    grow(2 * indices_.back()->rows.size());
  }
  rows_.push_back(std::make_unique<row>(name, hash));
  place(*indices_.back(), rows_.back().get());
  return *rows_.back();
}

fc_function function_table::know(std::string_view name, fc_function hash) {
  if (const std::string* const there = name_of(hash); there != nullptr && *there == name) {
    return hash;
  }
  const std::lock_guard guard(mutex_);
  return known(name, hash).hash;
}

bool function_table::add(std::string_view name, fc_function hash, registration what) {
  const std::lock_guard guard(mutex_);
  row& r = known(name, hash);
  if (r.now.load(std::memory_order_relaxed) != nullptr) {
    throw invalid_argument("the function '" + r.name +
                           "' is registered already; unregister it first");
  }
  registrations_.push_back(std::make_unique<registration>(what));
  // Release, paired with the acquire load in find(), so that the registration is visible there.
  r.now.store(registrations_.back().get(), std::memory_order_release);
  return !std::exchange(r.had_handler, true);
}

std::string function_table::name_by_handle(function_handle handle) {
  const std::lock_guard guard(mutex_);
  std::string found;
  for (const auto& r : rows_) {
    if (handle_of(r->hash).value != handle.value) continue;
    if (!found.empty()) return {};
    found = r->name;
  }
  return found;
}

bool function_table::remove(fc_function hash) {
  const std::lock_guard guard(mutex_);
  row* const r = row_of(hash);
  // Relaxed, because no other memory access depends on seeing the removal.
  return r != nullptr && r->now.exchange(nullptr, std::memory_order_relaxed) != nullptr;
}

} // namespace farcall::c
