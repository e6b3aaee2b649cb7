// SPDX-License-Identifier: Apache-2.0
#include <farcall/trace/recorder.hpp>
#include <farcall/trace/trace_range.hpp>

#include <array>
#include <exception>
#include <string>

namespace farcall {
namespace {

/// Names that the thread has used recently, cached so that most ranges need no lock.
struct recent_names {
  struct entry {
    const trace::recorder* by = nullptr;
    std::string name;
    std::uint32_t number = 0;
  };
  std::array<entry, 16> entries;

  recent_names() = default;
  recent_names(const recent_names&) = delete;
  recent_names& operator=(const recent_names&) = delete;
  ~recent_names() { have_ended = true; }

  /// True after the destruction of the cache. Thread-local objects that are destroyed later may
  /// still make ranges.
  static constinit thread_local bool have_ended;

  static entry& of(std::string_view name) {
    static thread_local recent_names own;
    const std::size_t mixed =
        name.size() * 7 + (name.empty() ? 0U : static_cast<unsigned char>(name.back()));
    return own.entries[mixed % own.entries.size()];
  }
};

constinit thread_local bool recent_names::have_ended = false;

} // namespace

constinit std::atomic<bool> trace_range::is_traced{false};

void trace_range::begin(std::string_view name) noexcept {
  trace::recorder* const by = trace::recorder::current();
  if (by == nullptr || recent_names::have_ended) return;
  try {
    recent_names::entry& recent = recent_names::of(name);
    if (recent.by != by || recent.name != name) {
      recent.by = nullptr;
      recent.name = name;
      recent.number = by->number_of_range(name);
      recent.by = by;
    }
    name_ = recent.number;
  } catch (const std::exception&) {
    return; // do not record the range, because there is no memory for its name
  }
  by_ = by;
  by->record(trace::event_kind::range_begin, 0, 0, 0, name_, 0);
}

void trace_range::end() noexcept { by_->record(trace::event_kind::range_end, 0, 0, 0, name_, 0); }

} // namespace farcall
