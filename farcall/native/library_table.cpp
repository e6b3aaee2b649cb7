// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/log.hpp>
#include <farcall/native/library_file.hpp>
#include <farcall/native/library_table.hpp>

#include <bit>
#include <chrono>
#include <utility>

#include <dlfcn.h>
#include <unistd.h>

namespace farcall::native {
namespace {

/// Returns a number for the upper half of ids, with which this process refuses ids of other
/// processes. Two processes most likely have different numbers.
std::uint64_t new_salt() noexcept {
  const auto now =
      static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  constexpr std::uint64_t odd_factor = 0x9e3779b97f4a7c15;
  return ((now ^ static_cast<std::uint64_t>(::getpid()) << 32) * odd_factor) &
         0xffff'ffff'0000'0000;
}

std::string name_of(const std::string& path) {
  return path.empty() ? "the program" : "the library '" + path + "'";
}

} // namespace

// ---- functions ----------------------------------------------------------------------------------

function_list::place function_list::place_of(std::uint32_t number) noexcept {
  const std::uint64_t shifted = std::uint64_t{number} + first_chunk;
  const auto chunk =
      static_cast<std::size_t>(std::bit_width(shifted) - std::bit_width(first_chunk));
  return {chunk, shifted - (std::uint64_t{first_chunk} << chunk)};
}

std::uint32_t function_list::add(function added) {
  // Relaxed, because one thread at a time adds functions.
  const std::uint32_t size = size_.load(std::memory_order_relaxed);
  for (std::uint32_t number = 0; number < size; ++number) {
    const function& known = *at(number);
    if (known.name == added.name && known.type == added.type) return number;
  }
  const place p = place_of(size);
  if (p.chunk == chunk_count) throw error("too many functions of one library were looked up");
  if (!chunks_[p.chunk])
    chunks_[p.chunk] = std::make_unique<function[]>(std::size_t{first_chunk} << p.chunk);
  chunks_[p.chunk][p.offset] = std::move(added);
  // Release, paired with the acquire load in at(), so that the function is visible.
  size_.store(size + 1, std::memory_order_release);
  return size;
}

// ---- libraries ----------------------------------------------------------------------------------

library_table::library_table() : salt_(new_salt()), slots_(std::make_unique<slot[]>(slot_count)) {}

library_table::~library_table() {
  for (std::size_t i = 0; i < slot_count; ++i) {
    if (slots_[i].content) ::dlclose(slots_[i].content->handle);
  }
}

library_table& library_table::instance() {
  // The table is never destroyed, because threads may still run calls while the program ends.
  static auto* const table = new library_table;
  return *table;
}

library_table::slot* library_table::slot_of(std::uint64_t id) const noexcept {
  const auto index = static_cast<std::uint32_t>(id);
  return index < slot_count ? &slots_[index] : nullptr;
}

bool library_table::is_loaded(std::uint64_t state, std::uint64_t id) const noexcept {
  return (state & one_generation) != 0 && ((state ^ salt_ ^ id) >> 32) == 0;
}

std::uint64_t library_table::load(const std::string& path) {
  auto made = std::make_unique<library>();
  made->path = path;
  std::string why;
  // Load without the mutex, because the library's constructors run, which may wait for other calls.
  made->handle = path.empty() ? ::dlopen(nullptr, RTLD_NOW)
                              : open_library_file(path.c_str(), RTLD_NOW | RTLD_LOCAL, "", why);
  if (made->handle == nullptr) throw error(path.empty() ? last_loader_error() : why);

  {
    const std::lock_guard guard(mutex_);
    for (std::size_t i = 0; i < slot_count; ++i) {
      slot& s = slots_[i];
      if (s.content || s.is_closing) continue;
      s.content = std::move(made);
      // Release, paired with the acquire operation in use(), so that the library is visible.
      const std::uint64_t state =
          s.state.fetch_add(one_generation, std::memory_order_release) + one_generation;
      return ((state ^ salt_) & ~(one_generation - 1)) | i;
    }
  }
  ::dlclose(made->handle);
  throw error("there are " + std::to_string(slot_count) +
              " libraries loaded for native calls; unload some");
}

void library_table::unload(std::uint64_t id) {
  slot* const s = slot_of(id);
  {
    const std::lock_guard guard(mutex_);
    // Relaxed, because the generation changes only under the mutex.
    if (s == nullptr || !is_loaded(s->state.load(std::memory_order_relaxed), id))
      throw unknown_library("this library was unloaded before, or was loaded by another process");
    s->is_closing = true;
    // Release, paired with the acquire operation in use(): a use that still sees the old generation
    // is counted before, and leave() then sees the new one.
    s->state.fetch_add(one_generation, std::memory_order_acq_rel);
  }
  const std::string why = close_if_unused(*s);
  if (!why.empty()) throw error(why);
}

std::string library_table::close_if_unused(slot& s) noexcept {
  std::unique_ptr<library> closed;
  {
    const std::lock_guard guard(mutex_);
    // Acquire, paired with the release operation in leave(), so that the uses have ended.
    if (!s.is_closing || uses_of(s.state.load(std::memory_order_acquire)) != 0) return {};
    s.is_closing = false;
    closed = std::move(s.content);
  }
  return ::dlclose(closed->handle) == 0 ? std::string() : last_loader_error();
}

void library_table::leave(slot& s) noexcept {
  // Release, paired with the acquire load in close_if_unused(); acquire, paired with the operation
  // in unload(), so that `is_closing` is seen.
  const std::uint64_t before = s.state.fetch_sub(1, std::memory_order_acq_rel);
  if (uses_of(before) != 1 || (before & one_generation) != 0) [[likely]]
    return;
  const std::string why = close_if_unused(s);
  if (!why.empty()) log::warning("a library of native calls could not be unloaded: " + why);
}

std::uint32_t library_table::find(std::uint64_t id, const std::string& symbol,
                                  const std::string& signature_text) {
  const signature& type = signature::of(signature_text);
  if (!has_register_calls)
    throw error("functions cannot be called by a signature on this processor");
  const use used(*this, id);
  library& in = used.get();
  const void* const code = ::dlsym(in.handle, symbol.c_str());
  if (code == nullptr) {
    throw error(name_of(in.path) + " has no function '" + symbol + "' (" + last_loader_error() +
                ")");
  }
  const std::lock_guard guard(mutex_);
  return in.functions.add({symbol, &type, code});
}

library_table::use::use(library_table& table, std::uint64_t id) noexcept
    : table_(table), slot_(table.slot_of(id)) {
  if (slot_ == nullptr) return;
  // Acquire, paired with the release operation in load(), so that the library is visible.
  const std::uint64_t state = slot_->state.fetch_add(1, std::memory_order_acquire);
  if (table.is_loaded(state, id)) library_ = slot_->content.get();
}

library_table::library& library_table::use::get() const {
  if (library_ == nullptr) {
    throw unknown_library("the library of this function was unloaded, or was loaded by another "
                          "process");
  }
  return *library_;
}

const function& library_table::use::at(std::uint32_t number) const {
  const function* const found = get().functions.at(number);
  if (found == nullptr) throw unknown_library("this function was not looked up in its library");
  return *found;
}

} // namespace farcall::native
