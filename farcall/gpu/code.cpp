// SPDX-License-Identifier: Apache-2.0
#include <farcall/gpu/code.hpp>

namespace farcall {

constinit device_code* device_code::first_ = nullptr;
constinit gpu_key* gpu_key::first_ = nullptr;

void gpu_key::for_each(const std::function<void(const entry&, const void* symbol)>& tell) {
  for (const gpu_key* k = first_; k != nullptr; k = k->next_)
    tell(*k->what_, k->symbol_);
}

void device_code::for_each(kind k,
                           const std::function<void(const entry&, address_function)>& tell) {
  for (const device_code* c = first_; c != nullptr; c = c->next_) {
    if (c->kind_ == k) tell(*c->what_, c->address_);
  }
}

std::vector<bool> device_code::existing(kind k) {
  std::vector<bool> all(function_registry::instance().rows().size());
  for_each(k, [&](const entry& what, address_function /*ask*/) { all[what.index()] = true; });
  return all;
}

std::vector<const void*> device_code::kernels(kind k) {
  std::vector<const void*> all;
  for (const device_code* c = first_; c != nullptr; c = c->next_) {
    if (c->kind_ == k && c->kernel_ != nullptr) all.push_back(c->kernel_);
  }
  return all;
}

std::vector<std::uint64_t> device_code::addresses(kind k) {
  std::vector<std::uint64_t> all(function_registry::instance().rows().size());
  for_each(k, [&](const entry& what, address_function ask) { all[what.index()] = ask(); });
  return all;
}

} // namespace farcall
