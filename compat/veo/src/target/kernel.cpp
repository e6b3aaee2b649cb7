#include "kernel.hpp"

#include "fault.hpp"
#include "invoke.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

namespace farcall::veo {
namespace {

constexpr std::size_t words_without_allocation = 64;
constexpr unsigned upper_half = 32;

/// Returns the number of upper bits of a 64-bit word that are not part of a value of this class.
constexpr unsigned unused_bits(value_class kind) noexcept {
  switch (kind) {
  case value_class::sint8:
  case value_class::uint8:
  case value_class::boolean:
    return 56;
  case value_class::sint16:
  case value_class::uint16:
    return 48;
  case value_class::sint32:
  case value_class::uint32:
    return 32;
  default:
    return 0;
  }
}

constexpr std::size_t class_count = static_cast<std::size_t>(value_class::wide) + 1;

constexpr auto unused_bits_of = [] {
  std::array<std::uint8_t, class_count> all{};
  for (std::size_t index = 0; index < all.size(); ++index) {
    all[index] = static_cast<std::uint8_t>(unused_bits(static_cast<value_class>(index)));
  }
  return all;
}();

constexpr bool is_signed(value_class kind) noexcept {
  return kind >= value_class::sint8 && kind <= value_class::sint32;
}
static_assert(is_signed(value_class::sint16) && !is_signed(value_class::uint8));

/// Extends the value in a word to the whole register, by its sign or by zeros. A caller extends
/// arguments in this way, and a called function its result. The extension uses shifts, because
/// branches on a class that differs between arguments are slow.
std::uint64_t widened(value_class kind, std::uint64_t word) noexcept {
  const unsigned shift = unused_bits_of[static_cast<std::size_t>(kind)];
  const std::uint64_t top = word << shift;
  const std::uint64_t value =
      is_signed(kind) ? static_cast<std::uint64_t>(static_cast<std::int64_t>(top) >> shift)
                      : top >> shift;
  return kind == value_class::boolean ? static_cast<std::uint64_t>(value != 0) : value;
}

value_class class_of(argument_kind how) noexcept {
  switch (how) {
  case argument_kind::real64:
    return value_class::real64;
  case argument_kind::real32:
    return value_class::real32;
  default:
    return value_class::integer64;
  }
}

} // namespace

kernel::kernel(const void* code, std::optional<signature> known)
    : code_(code), known_(std::move(known)),
      is_callable_(!known_ || (known_->result != value_class::wide &&
                               std::ranges::find(known_->parameters, value_class::wide) ==
                                   known_->parameters.end())) {}

void kernel::place(std::span<const std::uint64_t> words, std::span<const argument_kind> how,
                   register_image& image, std::uint64_t* stack) const noexcept {
  std::span<const value_class> declared;
  if (known_) declared = known_->parameters;
  std::size_t integers = 0;
  std::size_t floats = 0;
  std::size_t stacked = 0;
  for (std::size_t index = 0; index < words.size(); ++index) {
    value_class kind = index < declared.size() ? declared[index] : value_class::unknown;
    if (kind == value_class::unknown && index < how.size()) kind = class_of(how[index]);
    std::uint64_t word = words[index];
    if (kind == value_class::real64 || kind == value_class::real32) {
      if (kind == value_class::real32) word >>= upper_half;
      if (floats < float_registers) {
        image.floats[floats++] = word;
        continue;
      }
    } else {
      word = widened(kind, word);
      if (integers < integer_registers) {
        image.integers[integers++] = word;
        continue;
      }
    }
    stack[stacked++] = word;
  }
  image.floats_used = floats;
  image.stack = stack;
  image.stack_words = stacked;
}

kernel::result kernel::run(register_image& image) const noexcept {
  {
    const fault_guard guard(image);
    farcall_veo_invoke(&image);
  }
  if (image.fault_signal != 0) return {0, static_cast<int>(image.fault_signal)};
  const value_class kind = known_ ? known_->result : value_class::unknown;
  if (kind == value_class::real64) return {image.float_result, 0};
  if (kind == value_class::real32) return {image.float_result << upper_half, 0};
  if (kind == value_class::none) return {0, 0};
  return {widened(kind, image.integer_result), 0};
}

kernel::result kernel::call(std::span<const std::uint64_t> words,
                            std::span<const argument_kind> how, void* stack_top) const {
  // The image is not value-initialized, because that would cost more than setting the members
  // below.
  register_image image;
  std::fill_n(image.integers, std::size(image.integers), std::uint64_t{0});
  image.floats_used = 0;
  image.stack_words = 0;
  image.code = code_;
  image.stack_top = stack_top;
  image.frame = nullptr;
  image.fault_signal = 0;

  if (words.empty()) return run(image);
  // Number of arguments up to which no allocation is needed. The array has 64 words for the stack,
  // and one for each register, because the first arguments are passed in registers.
  constexpr std::size_t enough = words_without_allocation + float_registers + integer_registers;
  if (words.size() <= enough) {
    // The array is not initialized, because place() sets all words that are used.
    std::array<std::uint64_t, enough> stack;
    place(words, how, image, stack.data());
    return run(image);
  }
  const auto stack = std::make_unique_for_overwrite<std::uint64_t[]>(words.size());
  place(words, how, image, stack.get());
  return run(image);
}

} // namespace farcall::veo
