// SPDX-License-Identifier: Apache-2.0
#include "handles.hpp"
#include "processes.hpp"

#include <veo_dev_mem.h>
#include <veo_vedma.h>
#include <veo_veshm.h>
#include <veo_vhveshm.h>

#include <cerrno>
#include <string>

/// Functions for the card's DMA engine and shared memory. A DMA copy within a process is a plain
/// copy here, and helpers can attach System V segments of this machine. Functions that give one
/// process access to the memory of another need the card's hardware, so they fail with ENOTSUP.
namespace {

using namespace farcall::veo;

/// Error code that NEC's hardware reports if a page is missing.
constexpr int missing_page = 0x4000;

constexpr std::uint64_t no_dma_address = ~std::uint64_t{0};

/// Runs `f` like guarded(). If the process does not reply, sets errno to EBUSY, the error that
/// VEO's low-level functions use in this case.
template <class R, class F>
R with_low_level_errors(R otherwise, F&& f) noexcept {
  const R got = guarded(otherwise, f);
  if (got == otherwise && errno == EIO) errno = EBUSY;
  return got;
}

/// Runs `f` like with_low_level_errors(). Returns the result of `f`, or the negative errno if `f`
/// fails.
template <class F>
int negative_error(F&& f) noexcept {
  constexpr int failed = -4096;
  const int got = with_low_level_errors(failed, f);
  return got == failed ? -errno : got;
}

/// Returns the value of a system call that the helper has made. Sets errno if the system call
/// failed.
std::int64_t value_of(const system_result& r, const char* function) {
  if (r.error != 0) {
    report_error(std::string(function) + ": error " + std::to_string(r.error) +
                 " in the helper process");
    errno = r.error;
  }
  return r.value;
}

void* address_of(std::int64_t word) {
  return reinterpret_cast<void*>(word); // NOLINT(performance-no-int-to-ptr): what the API returns
}

void refuse(const char* function) {
  errno = ENOTSUP;
  report_error(std::string(function) +
               " needs the Vector Engine's own hardware; use veo_write_mem, veo_read_mem, or a "
               "System V segment and veo_shmat");
}

int refuse_gpu(veo_proc_handle* proc, const char* function) {
  return negative_error([&] {
    (void)behind(proc);
    errno = ENOTSUP;
    report_error(std::string(function) +
                 " needs the Vector Engine's own hardware; copy by way of this program's memory");
    return -ENOTSUP;
  });
}

} // namespace

extern "C" {

// ---- copies -------------------------------------------------------------------------------------

int veo_dma_post(veo_proc_handle* proc, uint64_t dst, uint64_t src, int size,
                 ve_dma_handle_t* handle) {
  if (handle == nullptr) return -EFAULT;
  const int done = veo_dma_post_wait(proc, dst, src, size);
  if (done < 0) return done;
  handle->index = 0;
  handle->status = done;
  return 0;
}

int veo_dma_poll(veo_proc_handle* proc, ve_dma_handle_t* handle) {
  if (handle == nullptr) return -EFAULT;
  return negative_error([&] {
    (void)behind(proc);
    return handle->status;
  });
}

int veo_dma_post_wait(veo_proc_handle* proc, uint64_t dst, uint64_t src, int size) {
  return negative_error([&] {
    process& p = behind(proc);
    if (size < 0) throw invalid_argument("a copy of " + std::to_string(size) + " bytes");
    const outcome o =
        p.ask(copy_memory{}, untagged(dst), untagged(src), static_cast<std::uint64_t>(size));
    if (o.signal == outcome::no_memory) return missing_page;
    (void)p.accept(o);
    return 0;
  });
}

uint64_t veo_register_mem_to_dmaatb(void* addr, size_t size) {
  return with_low_level_errors(no_dma_address, [&] {
    if (size == 0 || process_with(veo_get_proc_identifier_from_hmem(addr)) == nullptr) {
      throw invalid_argument("veo_register_mem_to_dmaatb: this is no memory of veo_alloc_hmem");
    }
    return untagged(addr);
  });
}

int veo_unregister_mem_from_dmaatb(veo_proc_handle* proc, uint64_t vehva) {
  return with_low_level_errors(-1, [&] {
    (void)behind(proc);
    if (vehva == 0 || vehva == no_dma_address) {
      throw invalid_argument("veo_unregister_mem_from_dmaatb: this address was not registered");
    }
    return 0;
  });
}

void veo_access_pcircvsyc_register(veo_proc_handle* /*proc*/) {
  // Do nothing, because devices do not write to the memory of a helper process.
}

uint64_t veo_register_mem_to_dmaatb_unalign(void* vemva, size_t size) {
  return veo_register_mem_to_dmaatb(vemva, size);
}

int veo_unregister_mem_from_dmaatb_unalign(veo_proc_handle* proc, uint64_t vehva) {
  return veo_unregister_mem_from_dmaatb(proc, vehva);
}

// ---- memory of GPUs -----------------------------------------------------------------------------

int veo_register_gpu_mem(veo_proc_handle* proc, uint64_t /*address*/, uint64_t /*size*/,
                         uint64_t* /*registered*/) {
  return refuse_gpu(proc, "veo_register_gpu_mem");
}

int veo_unregister_gpu_mem(veo_proc_handle* proc, int /*dev_mem_id*/) {
  return refuse_gpu(proc, "veo_unregister_gpu_mem");
}

int64_t veo_attach_dev_mem(veo_proc_handle* proc, int /*dev_mem_id*/) {
  return refuse_gpu(proc, "veo_attach_dev_mem");
}

int veo_detach_dev_mem(veo_proc_handle* proc, const uint64_t /*vehva*/) {
  return refuse_gpu(proc, "veo_detach_dev_mem");
}

// ---- memory of this machine ---------------------------------------------------------------------

int veo_shmget(veo_proc_handle* proc, key_t key, size_t size, int flag) {
  return with_low_level_errors(-1, [&] {
    const system_result r =
        behind(proc).ask(find_segment{}, std::int64_t{key}, std::uint64_t{size}, flag);
    return static_cast<int>(value_of(r, "veo_shmget"));
  });
}

void* veo_shmat(veo_proc_handle* proc, int id, const void* addr, int flag, void** vehva) {
  void* const none = address_of(-1);
  return with_low_level_errors(none, [&] {
    process& p = behind(proc);
    if (addr != nullptr) throw invalid_argument("veo_shmat: the address cannot be chosen");
    if (vehva == nullptr) {
      errno = EFAULT;
      report_error("veo_shmat: the pointer to the address for copies is NULL");
      return none;
    }
    void* const there = address_of(value_of(p.ask(attach_segment{}, id, flag), "veo_shmat"));
    if (there != none) *vehva = there;
    return there;
  });
}

int veo_shmdt(veo_proc_handle* proc, const void* addr) {
  return with_low_level_errors(-1, [&] {
    const system_result r = behind(proc).ask(detach_segment{}, untagged(addr));
    return static_cast<int>(value_of(r, "veo_shmdt"));
  });
}

// ---- memory of another process ------------------------------------------------------------------

int veo_shared_mem_open(void* /*addr*/, size_t /*size*/, int /*syncnum*/, long long /*mode*/) {
  refuse("veo_shared_mem_open");
  return -1;
}

int veo_shared_mem_close(void* /*addr*/, size_t /*size*/, int /*syncnum*/, long long /*mode*/) {
  refuse("veo_shared_mem_close");
  return -1;
}

void* veo_shared_mem_attach(veo_proc_handle* /*proc*/, pid_t /*pid*/, void* /*addr*/,
                            size_t /*size*/, int /*syncnum*/, long long /*mode*/) {
  refuse("veo_shared_mem_attach");
  return address_of(-1);
}

int veo_shared_mem_detach(veo_proc_handle* /*proc*/, void* /*addr*/, long long /*mode*/) {
  refuse("veo_shared_mem_detach");
  return -1;
}
}
