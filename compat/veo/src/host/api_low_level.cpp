#include "last_error.hpp"

#include <ve_offload.h>
#include <veo_vedma.h>
#include <veo_veshm.h>
#include <veo_vhveshm.h>

#include <cerrno>
#include <string>

/// The card's DMA engine and its shared memory, which no other machine has. Nobody calls these but
/// NEC's MPI; they say so.
namespace {

void refuse(const char* function) {
  errno = ENOTSUP;
  farcall::veo::set_last_error(std::string(function) +
                               " needs the Vector Engine's own hardware; use veo_write_mem, "
                               "veo_read_mem, or memory of farcall");
}

void* no_address() {
  return reinterpret_cast<void*>(-1); // NOLINT(performance-no-int-to-ptr): what the API returns
}

} // namespace

extern "C" {

int veo_dma_post(veo_proc_handle* /*proc*/, uint64_t /*dst*/, uint64_t /*src*/, int /*size*/,
                 ve_dma_handle_t* /*handle*/) {
  refuse("veo_dma_post");
  return -ENOTSUP;
}

int veo_dma_poll(veo_proc_handle* /*proc*/, ve_dma_handle_t* /*handle*/) {
  refuse("veo_dma_poll");
  return -ENOTSUP;
}

int veo_dma_post_wait(veo_proc_handle* /*proc*/, uint64_t /*dst*/, uint64_t /*src*/, int /*size*/) {
  refuse("veo_dma_post_wait");
  return -ENOTSUP;
}

uint64_t veo_register_mem_to_dmaatb(void* /*addr*/, size_t /*size*/) {
  refuse("veo_register_mem_to_dmaatb");
  return ~uint64_t{0};
}

int veo_unregister_mem_from_dmaatb(veo_proc_handle* /*proc*/, uint64_t /*vehva*/) {
  refuse("veo_unregister_mem_from_dmaatb");
  return -1;
}

void veo_access_pcircvsyc_register(veo_proc_handle* /*proc*/) {
  refuse("veo_access_pcircvsyc_register");
}

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
  return no_address();
}

int veo_shared_mem_detach(veo_proc_handle* /*proc*/, void* /*addr*/, long long /*mode*/) {
  refuse("veo_shared_mem_detach");
  return -1;
}

int veo_shmget(veo_proc_handle* /*proc*/, key_t /*key*/, size_t /*size*/, int /*flag*/) {
  refuse("veo_shmget");
  return -1;
}

void* veo_shmat(veo_proc_handle* /*proc*/, int /*id*/, const void* /*addr*/, int /*flag*/,
                void** /*vehva*/) {
  refuse("veo_shmat");
  return no_address();
}

int veo_shmdt(veo_proc_handle* /*proc*/, const void* /*addr*/) {
  refuse("veo_shmdt");
  return -1;
}
}
