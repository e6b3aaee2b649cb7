// SPDX-License-Identifier: Apache-2.0
#include "handles.hpp"
#include "hooks.hpp"
#include "processes.hpp"

#include <veo_hmem.h>

#include <cstdlib>
#include <cstring>
#include <memory>

/// veo_*: memory, tagged addresses, hooks.
namespace {

using namespace farcall::veo;

/// Returns the process whose tag the address has. Throws error if there is none, and forked if the
/// process belongs to a parent process.
process& owner_of(const void* address) {
  const int identifier = veo_get_proc_identifier_from_hmem(address);
  process* p = process_with(identifier);
  if (p == nullptr) {
    throw invalid_argument(identifier < 0 ? "this address has no tag: it is of this program"
                                          : "process " + std::to_string(identifier) +
                                                ", which the address belongs to, does not exist");
  }
  return behind(handle_of(*p));
}

/// Throws invalid_argument if a copy would access memory of this program at address NULL.
void require_memory(const void* here, std::size_t size) {
  if (here == nullptr && size != 0)
    throw invalid_argument("the address in the memory of this program is NULL");
}

/// An asynchronous allocation or release, and the hook that is called after it. The hook is called
/// by a host function, which the context runs as the request after the allocation or release.
struct hooked_request {
  context* where;
  std::uint64_t request;
  hook told;
  std::uint64_t address;
  std::size_t bytes;
  bool is_allocation;
};

std::uint64_t tell_hook(void* argument) {
  const std::unique_ptr<hooked_request> h(static_cast<hooked_request*>(argument));
  const context::taken t = h->where->wait(h->request);
  if (t.state != command_state::ok) return 0;
  veo_thr_ctxt* c = handle_of(*h->where);
  if (!h->is_allocation) {
    h->told.function(h->told.payload, c, h->address);
  } else if (t.value != 0) {
    h->told.function(h->told.payload, c, t.value, h->bytes);
  }
  return t.value;
}

std::uint64_t submit_hooked(hooked_request r) {
  auto kept = std::make_unique<hooked_request>(r);
  const std::uint64_t id = r.where->call_here(&tell_hook, kept.get());
  // Release ownership, because tell_hook() deletes the object.
  [[maybe_unused]] const hooked_request* const told = kept.release();
  return id;
}

} // namespace

extern "C" {

// ---- memory -------------------------------------------------------------------------------------

int veo_alloc_mem(veo_proc_handle* proc, uint64_t* addr, const size_t size) {
  return guarded(-2, [&] {
    process& p = behind(proc);
    if (addr == nullptr)
      throw invalid_argument("veo_alloc_mem: the pointer to the address is NULL");
    const found f = p.ask(allocate_memory{}, std::uint64_t{size});
    if (f.value == 0) {
      report_error(std::to_string(size) + " bytes cannot be allocated: " + f.why);
      errno = ENOMEM;
      return -1;
    }
    *addr = f.value;
    if (const hook h = hook_of(hook_key(&veo_alloc_mem))) h.function(h.payload, proc, addr, size);
    return 0;
  });
}

int veo_free_mem(veo_proc_handle* proc, uint64_t addr) {
  return guarded(-1, [&] {
    // Return 0 also for an invalid address, as programs expect; the helper logs such addresses.
    (void)behind(proc).ask(release_memory{}, untagged(addr));
    if (const hook h = hook_of(hook_key(&veo_free_mem))) h.function(h.payload, proc, addr);
    return 0;
  });
}

int veo_read_mem(veo_proc_handle* proc, void* dst, uint64_t src, size_t size) {
  return guarded(-1, [&] {
    require_memory(dst, size);
    behind(proc).read(dst, untagged(src), size);
    return 0;
  });
}

int veo_write_mem(veo_proc_handle* proc, uint64_t dst, const void* src, size_t size) {
  return guarded(-1, [&] {
    require_memory(src, size);
    behind(proc).write(untagged(dst), src, size);
    return 0;
  });
}

uint64_t veo_async_read_mem(veo_thr_ctxt* ctx, void* dst, uint64_t src, size_t size) {
  return guarded(context::invalid_request, [&] {
    require_memory(dst, size);
    return behind(ctx).read(dst, untagged(src), size);
  });
}

uint64_t veo_async_write_mem(veo_thr_ctxt* ctx, uint64_t dst, const void* src, size_t size) {
  return guarded(context::invalid_request, [&] {
    require_memory(src, size);
    return behind(ctx).write(untagged(dst), src, size);
  });
}

uint64_t veo_alloc_mem_async(veo_thr_ctxt* ctx, const size_t size) {
  return guarded(context::invalid_request, [&] {
    context& c = behind(ctx);
    const std::uint64_t id = c.allocate(size);
    const hook h = hook_of(hook_key(&veo_alloc_mem_async));
    return h ? submit_hooked({&c, id, h, 0, size, true}) : id;
  });
}

uint64_t veo_free_mem_async(veo_thr_ctxt* ctx, uint64_t addr) {
  return guarded(context::invalid_request, [&] {
    context& c = behind(ctx);
    const std::uint64_t id = c.release(untagged(addr));
    const hook h = hook_of(hook_key(&veo_free_mem_async));
    return h ? submit_hooked({&c, id, h, addr, 0, false}) : id;
  });
}

// ---- tagged addresses ---------------------------------------------------------------------------

void* veo_set_proc_identifier(void* addr, int proc_ident) {
  if (proc_ident < 0 || proc_ident >= max_tagged_processes) return nullptr;
  constexpr unsigned remote_bit = 63;
  constexpr unsigned identifier_shift = 59;
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(addr) |
                                 (std::uintptr_t{1} << remote_bit) |
                                 (static_cast<std::uintptr_t>(proc_ident) << identifier_shift));
}

int veo_alloc_hmem(veo_proc_handle* proc, void** addr, const size_t size) {
  return guarded(-1, [&] {
    if (addr == nullptr)
      throw invalid_argument("veo_alloc_hmem: the pointer to the address is NULL");
    if (proc == nullptr) {
      *addr = std::malloc(size);
      if (*addr != nullptr) return 0;
      throw std::bad_alloc();
    }
    process& p = behind(proc);
    if (p.identifier() >= max_tagged_processes) {
      throw farcall::error("an address's tag has space for " +
                           std::to_string(max_tagged_processes) + " processes; this is number " +
                           std::to_string(p.identifier()) + ", which can use veo_alloc_mem");
    }
    std::uint64_t made = 0;
    if (veo_alloc_mem(proc, &made, size) != 0) return -1;
    *addr = tagged(p, made);
    if (const hook h = hook_of(hook_key(&veo_alloc_hmem))) h.function(h.payload, proc, *addr, size);
    return 0;
  });
}

int veo_free_hmem(void* addr) {
  return guarded(-1, [&] {
    if (veo_is_ve_addr(addr) == 0) {
      std::free(addr);
      return 0;
    }
    process& p = owner_of(addr);
    if (veo_free_mem(handle_of(p), untagged(addr)) != 0) return -1;
    if (const hook h = hook_of(hook_key(&veo_free_hmem))) h.function(h.payload, handle_of(p), addr);
    return 0;
  });
}

int veo_hmemcpy(void* dst, const void* src, size_t size) {
  return guarded(-1, [&] {
    const bool to_helper = veo_is_ve_addr(dst) != 0;
    const bool from_helper = veo_is_ve_addr(src) != 0;
    if (!to_helper && !from_helper) {
      std::memcpy(dst, src, size);
    } else if (!from_helper) {
      owner_of(dst).write(untagged(dst), src, size);
    } else if (!to_helper) {
      owner_of(src).read(dst, untagged(src), size);
    } else {
      process& p = owner_of(src);
      if (&p != &owner_of(dst)) throw farcall::error("veo_hmemcpy does not copy between processes");
      (void)p.accept(p.ask(copy_memory{}, untagged(dst), untagged(src), std::uint64_t{size}));
    }
    return 0;
  });
}

veo_proc_handle* veo_get_proc_handle_from_hmem(const void* addr) {
  return guarded<veo_proc_handle*>(nullptr, [&] { return handle_of(owner_of(addr)); });
}

pid_t veo_get_pid_from_hmem(const void* addr) {
  return guarded<pid_t>(-1, [&] { return static_cast<pid_t>(owner_of(addr).pid()); });
}

int veo_get_venum_from_hmem(const void* addr) {
  return guarded(-1, [&] { return owner_of(addr).node_number(); });
}

// ---- hooks --------------------------------------------------------------------------------------

void veo_register_hook(void* func, void (*hook)(void*, ...), void* payload) {
  (void)guarded(0, [&] {
    set_hook(func, {hook, payload});
    return 0;
  });
}

void* veo_get_hook(void* func) { return reinterpret_cast<void*>(hook_of(func).function); }

void veo_unregister_hook(void* func) { remove_hook(func); }
}
