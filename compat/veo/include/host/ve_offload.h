/* The API of VEO and AVEO, version 16, over farcall.
 *
 * A process (veo_proc_handle) runs kernels out of libraries that are loaded into it; it is a
 * process of this machine, or of another one that FARCALL_VEO_NODES names. A context (veo_thr_ctxt)
 * is one thread in it with a queue of requests, done one after the other; contexts run side by
 * side. A request has a number, from 1 on in each context, by which its result is collected, once.
 *
 * Kinds of functions below: "local" ones return at once; "queues" ones submit a request and return
 * its number, or VEO_REQUEST_ID_INVALID; "blocks" ones wait for the process. Those that take a
 * process use the queue of its main context, and so wait for what was queued there before.
 *
 * All of it may be called from several threads, but for objects of arguments and of attributes, and
 * the hooks: one thread at a time for these. Why a call failed: farcall_veo_last_error() in
 * farcall_veo.h. */
#ifndef FARCALL_COMPAT_VEO_VE_OFFLOAD_H
#define FARCALL_COMPAT_VEO_VE_OFFLOAD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#include "veo_hmem.h"

#define VEO_API_VERSION 16
#define VEO_SYMNAME_LEN_MAX (255)
#define VEO_LOG_CATEGORY "veos.veo.veo"
/* Not a limit here: a call may have more. */
#define VEO_MAX_NUM_ARGS (256)
#define VEO_REQUEST_ID_INVALID (~0UL)

#define CMD_VEGDB "/opt/nec/ve/bin/ve-gdb"
#define CMD_XTERM "/usr/bin/xterm"

#ifdef __cplusplus
extern "C" {
#endif

/* Of these, contexts have RUNNING and EXIT only. */
enum veo_context_state {
  VEO_STATE_UNKNOWN = 0,
  VEO_STATE_RUNNING = 1,
  VEO_STATE_SYSCALL = 2,
  VEO_STATE_BLOCKED = 3,
  VEO_STATE_EXIT = 4
};

enum veo_command_state {
  VEO_COMMAND_OK = 0,
  VEO_COMMAND_EXCEPTION = 1,
  VEO_COMMAND_ERROR = 2,
  VEO_COMMAND_UNFINISHED = 3
};

enum veo_queue_state { VEO_QUEUE_READY = 0, VEO_QUEUE_CLOSED = 1 };

enum veo_args_intent { VEO_INTENT_IN = 0, VEO_INTENT_INOUT = 1, VEO_INTENT_OUT = 2 };

struct veo_args;
struct veo_proc_handle;
struct veo_thr_ctxt;
struct veo_thr_ctxt_attr;

/* --- version ---------------------------------------------------------------------------------- */

/* The VEO_API_VERSION of the library. Local. */
int veo_api_version(void);

/* The version of the library's package, a text that lives for ever. Local. */
const char* veo_version_string(void);

/* --- processes -------------------------------------------------------------------------------- */

/* Starts a process on that node; -1 is the node of VE_NODE_NUMBER, or 0. With _VENODELIST, a number
 * is an index into it. The program is VEORUN_BIN, or the library's own. NULL when it fails. Blocks.
 */
struct veo_proc_handle* veo_proc_create(int venode);

/* The same with that program, which may be followed by arguments, separated by blanks. NULL when it
 * fails. Blocks. */
struct veo_proc_handle* veo_proc_create_static(int venode, const char* veobin);

/* Finishes what is queued, ends the process and all its contexts. Always 0. Blocks. */
int veo_proc_destroy(struct veo_proc_handle* proc);

/* The number of the process in this program: the lowest that was free, from 0; -1 when there is no
 * such process. Local. */
int veo_proc_identifier(struct veo_proc_handle* proc);

/* The address with the tag of a process, 0 to 15; NULL for another number. Local. */
void* veo_set_proc_identifier(void* addr, int proc_ident);

/* The architecture of a node, 1 or 3; 0 when there is no such node, -1 when that cannot be told.
 * Local. */
int veo_get_ve_arch(int venode);

/* --- libraries and symbols -------------------------------------------------------------------- */

/* Loads a library of kernels, with its symbols for all that are loaded later. A handle; 0 when it
 * fails, with errno ENAMETOOLONG for names longer than 255. Blocks. */
uint64_t veo_load_library(struct veo_proc_handle* proc, const char* libname);

/* Gives the library up. 0, else -1. Blocks. */
int veo_unload_library(struct veo_proc_handle* proc, const uint64_t libhdl);

/* The address of a function or of data in the process; with handle 0, of what is linked into its
 * program. 0 when there is no such symbol. Blocks, the second time not. */
uint64_t veo_get_sym(struct veo_proc_handle* proc, uint64_t libhdl, const char* symname);

/* --- memory ----------------------------------------------------------------------------------- */

/* Memory in the process, aligned for any type, not cleared. 0; -1 when there is none left, -2 when
 * the process does not answer. Blocks. */
int veo_alloc_mem(struct veo_proc_handle* proc, uint64_t* addr, const size_t size);

/* Gives it back. 0, also when the address is none that was given out; -1 when the process does not
 * answer. Blocks. */
int veo_free_mem(struct veo_proc_handle* proc, uint64_t addr);

/* Copies from the process, any size and alignment, any memory it has. 0, else -1. Blocks. */
int veo_read_mem(struct veo_proc_handle* proc, void* dst, uint64_t src, size_t size);

/* Copies to the process. 0, else -1. Blocks. */
int veo_write_mem(struct veo_proc_handle* proc, uint64_t dst, const void* src, size_t size);

/* The same as requests of a context, with result 0; the buffer must live until then. Queue. */
uint64_t veo_async_read_mem(struct veo_thr_ctxt* ctx, void* dst, uint64_t src, size_t size);
uint64_t veo_async_write_mem(struct veo_thr_ctxt* ctx, uint64_t dst, const void* src, size_t size);

/* The result is the address; 0 when there is no memory left. Queues. */
uint64_t veo_alloc_mem_async(struct veo_thr_ctxt* ctx, const size_t size);

/* The result is 0. Queues. */
uint64_t veo_free_mem_async(struct veo_thr_ctxt* ctx, uint64_t addr);

/* --- contexts --------------------------------------------------------------------------------- */

/* How many contexts are open, the main one included; -1 and EINVAL for NULL. Local. */
int veo_num_contexts(struct veo_proc_handle* proc);

/* The context that was opened as number idx, 0 for the main one; NULL when there is none. Local. */
struct veo_thr_ctxt* veo_get_context(struct veo_proc_handle* proc, int idx);

/* The main context for the first caller, then a new one, with a thread of its own. NULL and errno
 * when it fails. Blocks. */
struct veo_thr_ctxt* veo_context_open(struct veo_proc_handle* proc);

/* The same; a new one gets the attributes. NULL and EINVAL without process or attributes. Blocks.
 */
struct veo_thr_ctxt* veo_context_open_with_attr(struct veo_proc_handle* proc,
                                                struct veo_thr_ctxt_attr* tca);

/* Finishes what is queued and ends the context; results that nobody has collected are gone. The
 * main context stays as it is. Always 0. Blocks. */
int veo_context_close(struct veo_thr_ctxt* ctx);

/* VEO_STATE_RUNNING, or VEO_STATE_EXIT once the process has ended. Local. */
int veo_get_context_state(struct veo_thr_ctxt* ctx);

/* Waits until all that was submitted before is done; the results can still be collected. Blocks. */
void veo_context_sync(struct veo_thr_ctxt* ctx);

/* Attributes for contexts, with defaults; NULL when there is no memory. Local. */
struct veo_thr_ctxt_attr* veo_alloc_thr_ctxt_attr(void);

/* Frees them; contexts opened with them do not care. 0; -1 and EINVAL for NULL. Local. */
int veo_free_thr_ctxt_attr(struct veo_thr_ctxt_attr* tca);

/* The stack of the context's thread, 128 MiB unless set. 0; -1 and EINVAL for less than 4 MiB, or
 * for NULL. Local. */
int veo_set_thr_ctxt_stacksize(struct veo_thr_ctxt_attr* tca, size_t stack_sz);

/* Writes it to *stack_sz. 0; -1 and EINVAL for NULL. Local. */
int veo_get_thr_ctxt_stacksize(struct veo_thr_ctxt_attr* tca, size_t* stack_sz);

/* --- arguments -------------------------------------------------------------------------------- */

/* An object that holds the arguments of calls, for any number of them; NULL when there is no
 * memory. Local. */
struct veo_args* veo_args_alloc(void);

/* Takes all arguments out. Local. */
void veo_args_clear(struct veo_args* ca);

/* Frees the object; calls made with it do not care. Local. */
void veo_args_free(struct veo_args* ca);

/* Set argument argnum, from 0; the last value counts. An integer is widened to 64 bits by its own
 * signedness. A call with a hole between its arguments is refused. 0, else -1. Local. */
int veo_args_set_i64(struct veo_args* ca, int argnum, int64_t val);
int veo_args_set_u64(struct veo_args* ca, int argnum, uint64_t val);
int veo_args_set_i32(struct veo_args* ca, int argnum, int32_t val);
int veo_args_set_u32(struct veo_args* ca, int argnum, uint32_t val);
int veo_args_set_i16(struct veo_args* ca, int argnum, int16_t val);
int veo_args_set_u16(struct veo_args* ca, int argnum, uint16_t val);
int veo_args_set_i8(struct veo_args* ca, int argnum, int8_t val);
int veo_args_set_u8(struct veo_args* ca, int argnum, uint8_t val);
int veo_args_set_double(struct veo_args* ca, int argnum, double val);
int veo_args_set_float(struct veo_args* ca, int argnum, float val);

/* The kernel gets a pointer to a copy of the buffer. IN is copied when the call is submitted, OUT
 * back when it is done, until when the buffer must live. 0, else -1. Local. */
int veo_args_set_stack(struct veo_args* ca, enum veo_args_intent inout, int argnum, char* buff,
                       size_t len);

/* The kernel gets the address with its tag. 0, else -1. Local. */
int veo_args_set_hmem(struct veo_args* ca, int argnum, void* val);

/* --- calls ------------------------------------------------------------------------------------ */

/* Calls a function on the main context and waits. 0 and its result, else negative. Blocks. */
int veo_call_sync(struct veo_proc_handle* proc, uint64_t addr, struct veo_args* ca,
                  uint64_t* result);

/* Calls a function; the arguments may be changed and freed at once. Queues. */
uint64_t veo_call_async(struct veo_thr_ctxt* ctx, uint64_t addr, struct veo_args* ca);

/* The same by the function's name, which is looked up first. Queues; blocks for the first call of a
 * name. */
uint64_t veo_call_async_by_name(struct veo_thr_ctxt* ctx, uint64_t libhdl, const char* symname,
                                struct veo_args* ca);

/* Calls a function of this program, on a thread of this program, when all before it is done; what
 * is behind it starts when it has returned. Queues. */
uint64_t veo_call_async_vh(struct veo_thr_ctxt* ctx, uint64_t (*func)(void*), void* arg);

/* Collects a result if it is there: a veo_command_state. UNFINISHED leaves it to be collected; what
 * was collected before, or never submitted, is ERROR. With EXCEPTION, *retp is the number of the
 * signal. Local. */
int veo_call_peek_result(struct veo_thr_ctxt* ctx, uint64_t reqid, uint64_t* retp);

/* The same when it is there. Never UNFINISHED; -1 for an error inside the library. Blocks. */
int veo_call_wait_result(struct veo_thr_ctxt* ctx, uint64_t reqid, uint64_t* retp);

/* Between the two, nobody but the calling thread submits to the context. They may be nested. Begin
 * blocks while another thread is between them. */
void veo_req_block_begin(struct veo_thr_ctxt* ctx);
void veo_req_block_end(struct veo_thr_ctxt* ctx);

/* --- memory with tagged addresses ------------------------------------------------------------- */

/* Memory in a process, or, for NULL, in this program; bit 63 of the address tells, bits 62 to 59
 * are the process's identifier. 0; -1 when there is none left, or too many processes for the tag.
 * Blocks. */
int veo_alloc_hmem(struct veo_proc_handle* proc, void** addr, const size_t size);

/* Gives it back, where it is from. 0, else -1. Blocks. */
int veo_free_hmem(void* addr);

/* Copies between any two of this program and a process; not between two processes. 0, else -1.
 * Blocks. */
int veo_hmemcpy(void* dst, const void* src, size_t size);

/* The process of a tagged address; NULL when it has no tag, or there is no such process. Local. */
struct veo_proc_handle* veo_get_proc_handle_from_hmem(const void* addr);

/* The process's number in its system, and that of its node; -1 when there is none. Local. */
pid_t veo_get_pid_from_hmem(const void* addr);
int veo_get_venum_from_hmem(const void* addr);

/* --- hooks ------------------------------------------------------------------------------------ */

/* Has `hook(payload, ...)` called after each success of a function of this API: one of
 *   veo_alloc_mem        (proc, uint64_t *addr, size_t)   veo_free_mem        (proc, uint64_t addr)
 *   veo_alloc_hmem       (proc, void *addr, size_t)       veo_free_hmem       (proc, void *addr)
 *   veo_alloc_mem_async  (ctx, uint64_t addr, size_t)     veo_free_mem_async  (ctx, uint64_t addr)
 * Those of the last line run as veo_call_async_vh, whose request is what the caller gets. Local. */
void veo_register_hook(void* func, void (*hook)(void*, ...), void* payload);

/* The hook of a function, or NULL. Local. */
void* veo_get_hook(void* func);

/* Takes it away. Local. */
void veo_unregister_hook(void* func);

/* Hooks for the four functions that do not tag addresses; they get the addresses with tags. Local.
 */
void veo_register_hmem_hook_functions(void (*alloc)(void*, size_t), void (*free)(uint64_t));
void veo_unregister_hmem_hook_functions(void);

#ifdef __cplusplus
}
#endif

#endif
