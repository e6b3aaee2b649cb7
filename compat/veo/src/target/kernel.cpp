// SPDX-License-Identifier: Apache-2.0
#include "kernel.hpp"

#include <farcall/native/arguments.hpp>
#include <farcall/native/register_call.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

namespace farcall::veo {
namespace {

constexpr std::size_t words_without_allocation = 64;
constexpr unsigned upper_half = 32;

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
  native::argument_placer placer(image, stack);
  for (std::size_t index = 0; index < words.size(); ++index) {
    value_class kind = index < declared.size() ? declared[index] : value_class::unknown;
    if (kind == value_class::unknown && index < how.size()) kind = class_of(how[index]);
    const std::uint64_t word = words[index];
    placer.add(kind, kind == value_class::real32 ? word >> upper_half : word);
  }
  placer.finish();
}

kernel::result kernel::run(register_image& image) const noexcept {
  {
    const fault_guard guard(image);
    native::invoke(image);
  }
  if (image.fault_signal != 0) return {0, static_cast<int>(image.fault_signal)};
  const value_class kind = known_ ? known_->result : value_class::unknown;
  const std::uint64_t word = native::result_word(kind, image);
  return {kind == value_class::real32 ? word << upper_half : word, 0};
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
  image.passes_exceptions = 0;

  if (words.empty()) return run(image);
  // Number of arguments up to which no allocation is needed. The array has 64 words for the stack,
  // and one for each register, because the first arguments are passed in registers.
  constexpr std::size_t enough =
      words_without_allocation + native::float_registers + native::integer_registers;
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
