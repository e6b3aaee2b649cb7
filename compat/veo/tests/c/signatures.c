/* SPDX-License-Identifier: Apache-2.0 */

/* Declares all functions of the API again, so that the compiler reports headers that differ, and
   uses each function, so that the linker reports functions that the library lacks. */
#include <farcall_veo.h>
#include <ve_offload.h>
#include <veo_vedma.h>
#include <veo_veshm.h>
#include <veo_vhveshm.h>

#include <stdio.h>

_Static_assert(VEO_API_VERSION == 16, "");
_Static_assert(VEO_SYMNAME_LEN_MAX == 255, "");
_Static_assert(VEO_MAX_NUM_ARGS == 256, "");
_Static_assert(VEO_REQUEST_ID_INVALID == UINT64_MAX, "");
_Static_assert(sizeof VEO_LOG_CATEGORY == sizeof "veos.veo.veo", "");
_Static_assert(VEO_STATE_UNKNOWN == 0 && VEO_STATE_RUNNING == 1 && VEO_STATE_SYSCALL == 2, "");
_Static_assert(VEO_STATE_BLOCKED == 3 && VEO_STATE_EXIT == 4, "");
_Static_assert(VEO_COMMAND_OK == 0 && VEO_COMMAND_EXCEPTION == 1 && VEO_COMMAND_ERROR == 2, "");
_Static_assert(VEO_COMMAND_UNFINISHED == 3, "");
_Static_assert(VEO_QUEUE_READY == 0 && VEO_QUEUE_CLOSED == 1, "");
_Static_assert(VEO_INTENT_IN == 0 && VEO_INTENT_INOUT == 1 && VEO_INTENT_OUT == 2, "");
_Static_assert(VE_SHM_RO == 1 && VE_PCISYNC == 2 && VE_REGISTER_PCI == 4, "");
_Static_assert(VE_MAP_256MB == 0x10, "");
_Static_assert(VE_REGISTER_NONE == 0x1000 && VE_REGISTER_VEMVA == 0x2000, "");
_Static_assert(VE_REGISTER_VEHVA == 0x4000 && VE_MEM_LOCAL == 0x8000, "");
_Static_assert(sizeof(ve_dma_handle_t) == 2 * sizeof(int), "");

int veo_api_version(void);
const char* veo_version_string(void);
struct veo_proc_handle* veo_proc_create(int);
struct veo_proc_handle* veo_proc_create_static(int, const char*);
int veo_proc_destroy(struct veo_proc_handle*);
int veo_proc_identifier(struct veo_proc_handle*);
void* veo_set_proc_identifier(void*, int);
uint64_t veo_load_library(struct veo_proc_handle*, const char*);
int veo_unload_library(struct veo_proc_handle*, uint64_t);
uint64_t veo_get_sym(struct veo_proc_handle*, uint64_t, const char*);
int veo_alloc_mem(struct veo_proc_handle*, uint64_t*, size_t);
int veo_free_mem(struct veo_proc_handle*, uint64_t);
int veo_read_mem(struct veo_proc_handle*, void*, uint64_t, size_t);
int veo_write_mem(struct veo_proc_handle*, uint64_t, const void*, size_t);
int veo_num_contexts(struct veo_proc_handle*);
struct veo_thr_ctxt* veo_get_context(struct veo_proc_handle*, int);
struct veo_thr_ctxt* veo_context_open(struct veo_proc_handle*);
struct veo_thr_ctxt* veo_context_open_with_attr(struct veo_proc_handle*, struct veo_thr_ctxt_attr*);
int veo_context_close(struct veo_thr_ctxt*);
int veo_get_context_state(struct veo_thr_ctxt*);
void veo_context_sync(struct veo_thr_ctxt*);
struct veo_thr_ctxt_attr* veo_alloc_thr_ctxt_attr(void);
int veo_free_thr_ctxt_attr(struct veo_thr_ctxt_attr*);
int veo_set_thr_ctxt_stacksize(struct veo_thr_ctxt_attr*, size_t);
int veo_get_thr_ctxt_stacksize(struct veo_thr_ctxt_attr*, size_t*);
struct veo_args* veo_args_alloc(void);
void veo_args_clear(struct veo_args*);
void veo_args_free(struct veo_args*);
int veo_args_set_i64(struct veo_args*, int, int64_t);
int veo_args_set_u64(struct veo_args*, int, uint64_t);
int veo_args_set_i32(struct veo_args*, int, int32_t);
int veo_args_set_u32(struct veo_args*, int, uint32_t);
int veo_args_set_i16(struct veo_args*, int, int16_t);
int veo_args_set_u16(struct veo_args*, int, uint16_t);
int veo_args_set_i8(struct veo_args*, int, int8_t);
int veo_args_set_u8(struct veo_args*, int, uint8_t);
int veo_args_set_double(struct veo_args*, int, double);
int veo_args_set_float(struct veo_args*, int, float);
int veo_args_set_stack(struct veo_args*, enum veo_args_intent, int, char*, size_t);
int veo_args_set_hmem(struct veo_args*, int, void*);
int veo_call_sync(struct veo_proc_handle*, uint64_t, struct veo_args*, uint64_t*);
uint64_t veo_call_async(struct veo_thr_ctxt*, uint64_t, struct veo_args*);
uint64_t veo_call_async_by_name(struct veo_thr_ctxt*, uint64_t, const char*, struct veo_args*);
uint64_t veo_call_async_vh(struct veo_thr_ctxt*, uint64_t (*)(void*), void*);
int veo_call_peek_result(struct veo_thr_ctxt*, uint64_t, uint64_t*);
int veo_call_wait_result(struct veo_thr_ctxt*, uint64_t, uint64_t*);
uint64_t veo_async_read_mem(struct veo_thr_ctxt*, void*, uint64_t, size_t);
uint64_t veo_async_write_mem(struct veo_thr_ctxt*, uint64_t, const void*, size_t);
uint64_t veo_alloc_mem_async(struct veo_thr_ctxt*, size_t);
uint64_t veo_free_mem_async(struct veo_thr_ctxt*, uint64_t);
void veo_req_block_begin(struct veo_thr_ctxt*);
void veo_req_block_end(struct veo_thr_ctxt*);
int veo_alloc_hmem(struct veo_proc_handle*, void**, size_t);
int veo_free_hmem(void*);
int veo_hmemcpy(void*, const void*, size_t);
struct veo_proc_handle* veo_get_proc_handle_from_hmem(const void*);
pid_t veo_get_pid_from_hmem(const void*);
int veo_get_venum_from_hmem(const void*);
int veo_get_ve_arch(int);
void veo_register_hook(void*, void (*)(void*, ...), void*);
void* veo_get_hook(void*);
void veo_unregister_hook(void*);
void veo_register_hmem_hook_functions(void (*)(void*, size_t), void (*)(uint64_t));
void veo_unregister_hmem_hook_functions(void);
int veo_is_ve_addr(const void*);
void* veo_get_hmem_addr(void*);
int veo_get_max_proc_identifier(void);
int veo_get_proc_identifier_from_hmem(const void*);
signed long syscall_wrapper(int, signed long, signed long, signed long, signed long, signed long,
                            signed long);
int veo_dma_post(struct veo_proc_handle*, uint64_t, uint64_t, int, ve_dma_handle_t*);
int veo_dma_poll(struct veo_proc_handle*, ve_dma_handle_t*);
int veo_dma_post_wait(struct veo_proc_handle*, uint64_t, uint64_t, int);
uint64_t veo_register_mem_to_dmaatb(void*, size_t);
int veo_unregister_mem_from_dmaatb(struct veo_proc_handle*, uint64_t);
void veo_access_pcircvsyc_register(struct veo_proc_handle*);
int veo_shared_mem_open(void*, size_t, int, long long);
int veo_shared_mem_close(void*, size_t, int, long long);
void* veo_shared_mem_attach(struct veo_proc_handle*, pid_t, void*, size_t, int, long long);
int veo_shared_mem_detach(struct veo_proc_handle*, void*, long long);
int veo_shmget(struct veo_proc_handle*, key_t, size_t, int);
void* veo_shmat(struct veo_proc_handle*, int, const void*, int, void**);
int veo_shmdt(struct veo_proc_handle*, const void*);
const char* farcall_veo_last_error(void);

typedef void (*function)(void);

static const function all[] = {
    (function)&veo_api_version,
    (function)&veo_version_string,
    (function)&veo_proc_create,
    (function)&veo_proc_create_static,
    (function)&veo_proc_destroy,
    (function)&veo_proc_identifier,
    (function)&veo_set_proc_identifier,
    (function)&veo_load_library,
    (function)&veo_unload_library,
    (function)&veo_get_sym,
    (function)&veo_alloc_mem,
    (function)&veo_free_mem,
    (function)&veo_read_mem,
    (function)&veo_write_mem,
    (function)&veo_num_contexts,
    (function)&veo_get_context,
    (function)&veo_context_open,
    (function)&veo_context_open_with_attr,
    (function)&veo_context_close,
    (function)&veo_get_context_state,
    (function)&veo_context_sync,
    (function)&veo_alloc_thr_ctxt_attr,
    (function)&veo_free_thr_ctxt_attr,
    (function)&veo_set_thr_ctxt_stacksize,
    (function)&veo_get_thr_ctxt_stacksize,
    (function)&veo_args_alloc,
    (function)&veo_args_clear,
    (function)&veo_args_free,
    (function)&veo_args_set_i64,
    (function)&veo_args_set_u64,
    (function)&veo_args_set_i32,
    (function)&veo_args_set_u32,
    (function)&veo_args_set_i16,
    (function)&veo_args_set_u16,
    (function)&veo_args_set_i8,
    (function)&veo_args_set_u8,
    (function)&veo_args_set_double,
    (function)&veo_args_set_float,
    (function)&veo_args_set_stack,
    (function)&veo_args_set_hmem,
    (function)&veo_call_sync,
    (function)&veo_call_async,
    (function)&veo_call_async_by_name,
    (function)&veo_call_async_vh,
    (function)&veo_call_peek_result,
    (function)&veo_call_wait_result,
    (function)&veo_async_read_mem,
    (function)&veo_async_write_mem,
    (function)&veo_alloc_mem_async,
    (function)&veo_free_mem_async,
    (function)&veo_req_block_begin,
    (function)&veo_req_block_end,
    (function)&veo_alloc_hmem,
    (function)&veo_free_hmem,
    (function)&veo_hmemcpy,
    (function)&veo_get_proc_handle_from_hmem,
    (function)&veo_get_pid_from_hmem,
    (function)&veo_get_venum_from_hmem,
    (function)&veo_get_ve_arch,
    (function)&veo_register_hook,
    (function)&veo_get_hook,
    (function)&veo_unregister_hook,
    (function)&veo_register_hmem_hook_functions,
    (function)&veo_unregister_hmem_hook_functions,
    (function)&veo_is_ve_addr,
    (function)&veo_get_hmem_addr,
    (function)&veo_get_max_proc_identifier,
    (function)&veo_get_proc_identifier_from_hmem,
    (function)&syscall_wrapper,
    (function)&veo_dma_post,
    (function)&veo_dma_poll,
    (function)&veo_dma_post_wait,
    (function)&veo_register_mem_to_dmaatb,
    (function)&veo_unregister_mem_from_dmaatb,
    (function)&veo_access_pcircvsyc_register,
    (function)&veo_shared_mem_open,
    (function)&veo_shared_mem_close,
    (function)&veo_shared_mem_attach,
    (function)&veo_shared_mem_detach,
    (function)&veo_shmget,
    (function)&veo_shmat,
    (function)&veo_shmdt,
    (function)&farcall_veo_last_error,
};

int main(void) {
  const size_t count = sizeof all / sizeof all[0];
  for (size_t i = 0; i < count; ++i) {
    if (all[i] == NULL) return 1;
  }
  printf("%zu functions\n", count);
  return veo_api_version() == VEO_API_VERSION ? 0 : 1;
}
