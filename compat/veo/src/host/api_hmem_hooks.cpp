// SPDX-License-Identifier: Apache-2.0
#include "handles.hpp"
#include "hooks.hpp"

#include <veo_hmem.h>

#include <cstdarg>

/// Implements veo_register_hmem_hook_functions() by hooks on veo_alloc_mem(), veo_free_mem() and
/// their asynchronous forms. These hooks call the program's functions with tagged addresses.
namespace {

using namespace farcall::veo;

using allocation_hook = void (*)(void*, size_t);
using release_hook = void (*)(uint64_t);

void allocated(void* payload, ...) {
  std::va_list list;
  va_start(list, payload);
  process& p = behind(va_arg(list, veo_proc_handle*));
  const std::uint64_t address = *va_arg(list, std::uint64_t*);
  const auto bytes = va_arg(list, std::size_t);
  va_end(list);
  reinterpret_cast<allocation_hook>(payload)(tagged(p, address), bytes);
}

void released(void* payload, ...) {
  std::va_list list;
  va_start(list, payload);
  process& p = behind(va_arg(list, veo_proc_handle*));
  const auto address = va_arg(list, std::uint64_t);
  va_end(list);
  reinterpret_cast<release_hook>(payload)(reinterpret_cast<std::uintptr_t>(tagged(p, address)));
}

void allocated_async(void* payload, ...) {
  std::va_list list;
  va_start(list, payload);
  process& p = behind(va_arg(list, veo_thr_ctxt*)).owner();
  const auto address = va_arg(list, std::uint64_t);
  const auto bytes = va_arg(list, std::size_t);
  va_end(list);
  reinterpret_cast<allocation_hook>(payload)(tagged(p, address), bytes);
}

void released_async(void* payload, ...) {
  std::va_list list;
  va_start(list, payload);
  process& p = behind(va_arg(list, veo_thr_ctxt*)).owner();
  const auto address = va_arg(list, std::uint64_t);
  va_end(list);
  reinterpret_cast<release_hook>(payload)(reinterpret_cast<std::uintptr_t>(tagged(p, address)));
}

} // namespace

extern "C" {

void veo_register_hmem_hook_functions(void (*alloc)(void*, size_t), void (*free)(uint64_t)) {
  (void)guarded(0, [&] {
    set_hook(hook_key(&veo_alloc_mem), {&allocated, hook_key(alloc)});
    set_hook(hook_key(&veo_free_mem), {&released, hook_key(free)});
    set_hook(hook_key(&veo_alloc_mem_async), {&allocated_async, hook_key(alloc)});
    set_hook(hook_key(&veo_free_mem_async), {&released_async, hook_key(free)});
    return 0;
  });
}

void veo_unregister_hmem_hook_functions(void) {
  for (void* function : {hook_key(&veo_alloc_mem), hook_key(&veo_free_mem),
                         hook_key(&veo_alloc_mem_async), hook_key(&veo_free_mem_async)}) {
    remove_hook(function);
  }
}
}
