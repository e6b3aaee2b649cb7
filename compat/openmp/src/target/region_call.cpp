// SPDX-License-Identifier: Apache-2.0
#include "region_call.hpp"

#include <farcall/base/error.hpp>

#include <cstddef>
#include <memory>
#include <vector>

#include <ffi.h>

namespace farcall::openmp {

namespace {

/// Description of a call with a number of pointers. `types` must stay where it is.
struct prepared_call {
  std::vector<ffi_type*> types;
  ffi_cif description{};

  explicit prepared_call(std::size_t arguments) : types(arguments, &ffi_type_pointer) {
    if (ffi_prep_cif(&description, FFI_DEFAULT_ABI, static_cast<unsigned>(arguments),
                     &ffi_type_void, types.data()) != FFI_OK)
      throw error("libffi cannot call a target region with " + std::to_string(arguments) +
                  " arguments");
  }
};

/// Returns the description of calls with `arguments` arguments, which each thread makes once.
ffi_cif& call_with(std::size_t arguments) {
  thread_local std::vector<std::unique_ptr<prepared_call>> prepared;
  if (prepared.size() <= arguments) prepared.resize(arguments + 1);
  auto& found = prepared[arguments];
  if (!found) found = std::make_unique<prepared_call>(arguments);
  return found->description;
}

} // namespace

void call_region(std::uint64_t code, std::span<const std::uint64_t> arguments) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address in an image, which this process told
  auto* const function = reinterpret_cast<void (*)()>(code);
  if (arguments.empty()) return function();
  constexpr std::size_t usual = 32;
  void* near[usual];
  std::vector<void*> far(arguments.size() > usual ? arguments.size() : 0);
  void** const places = far.empty() ? near : far.data();
  for (std::size_t i = 0; i < arguments.size(); ++i)
    places[i] =
        const_cast<std::uint64_t*>(&arguments[i]); // NOLINT(*-const-cast): libffi reads only
  ffi_call(&call_with(arguments.size()), function, nullptr, places);
}

} // namespace farcall::openmp
