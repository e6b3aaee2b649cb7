/* SPDX-License-Identifier: Apache-2.0 */

/* Version 16 of NEC's API for the Vector Engine (VEO, AVEO). Programs use this API to run
 * functions, the kernels, in another process.
 *
 * A process (veo_proc_handle) runs kernels from libraries that are loaded into it. The process is
 * on this machine, or on another machine that FARCALL_VEO_NODES names. A context (veo_thr_ctxt) is
 * a thread of the process with a queue of requests. The requests of one context run one after the
 * other; contexts run in parallel. Requests are numbered from 1 in each context. The result of a
 * request is collected once, by the request's number.
 *
 * A function whose comment ends with "Never blocks" returns at once. A function that submits a
 * request returns the number of the request, or VEO_REQUEST_ID_INVALID if it fails. A function
 * whose comment ends with "Blocks" waits for the process. If such a function takes a process, it
 * first waits for the requests of the process's main context.
 *
 * All functions are thread-safe, with two exceptions: only one thread at a time may use an object
 * for arguments or attributes, and only one thread at a time may call the functions for hooks.
 * farcall_veo_last_error() in farcall_veo.h returns the reason of a failure. */
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
/* Maximum number of arguments in older versions, for programs that use this macro. In this version
 * a call may have more arguments. */
#define VEO_MAX_NUM_ARGS (256)
#define VEO_REQUEST_ID_INVALID (~0UL)

#define CMD_VEGDB "/opt/nec/ve/bin/ve-gdb"
#define CMD_XTERM "/usr/bin/xterm"

#ifdef __cplusplus
extern "C" {
#endif

/* States of a context. In this implementation, a context is always in the state RUNNING or EXIT. */
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

/* Returns the value of VEO_API_VERSION with which the library was built. Never blocks. */
int veo_api_version(void);

/* Returns the version of the library's package as a static string. Never blocks. */
const char* veo_version_string(void);

/* --- processes -------------------------------------------------------------------------------- */

/* Starts a process on a node. If `venode` is -1, the environment variable VE_NODE_NUMBER gives the
 * node. If that variable is unset, too, the first node of _VENODELIST is used, or node 0 without
 * such a list. If _VENODELIST is set and `venode` is not negative, `venode` is a position in that
 * list. The process runs the program that FARCALL_VEO_NODES names for the node, otherwise the
 * program VEORUN_BIN, otherwise the library's own program. Returns NULL if it fails. Blocks. */
struct veo_proc_handle* veo_proc_create(int venode);

/* Starts a process that runs the command line `veobin`, a program and its arguments separated by
 * blanks. Returns NULL if it fails. Blocks. */
struct veo_proc_handle* veo_proc_create_static(int venode, const char* veobin);

/* Ends the process and its contexts after all queued requests of the contexts have ended. Always
 * returns 0. Blocks. */
int veo_proc_destroy(struct veo_proc_handle* proc);

/* Returns the identifier of the process. Each new process of this program gets the lowest number
 * from 0 that is free. Returns -1 if there is no such process. Never blocks. */
int veo_proc_identifier(struct veo_proc_handle* proc);

/* Returns the address with the tag of the process that has the identifier `proc_ident`, 0 to 15.
 * Returns NULL for any other identifier. Never blocks. */
void* veo_set_proc_identifier(void* addr, int proc_ident);

/* Returns the architecture of a node, which is 1 or 3; 0 if there is no such node; -1 if the
 * architecture is unknown. Never blocks. */
int veo_get_ve_arch(int venode);

/* --- libraries and symbols -------------------------------------------------------------------- */

/* Loads a library of kernels into the process. Libraries that are loaded later can use its symbols.
 * Returns a handle, or 0 if it fails. A name of more than 255 characters fails with ENAMETOOLONG.
 * Blocks. */
uint64_t veo_load_library(struct veo_proc_handle* proc, const char* libname);

/* Unloads a library of kernels. Returns 0, or -1 if it fails. Blocks. */
int veo_unload_library(struct veo_proc_handle* proc, const uint64_t libhdl);

/* Returns the address of a function or variable of the library. If `libhdl` is 0, searches the
 * program that the process runs. Returns 0 if there is no such symbol. Only the first call for a
 * symbol blocks. */
uint64_t veo_get_sym(struct veo_proc_handle* proc, uint64_t libhdl, const char* symname);

/* --- memory ----------------------------------------------------------------------------------- */

/* Allocates memory in the process, aligned for any type; the memory is not cleared. Returns 0, -1
 * if no memory is left, or -2 if the process does not reply. Blocks. */
int veo_alloc_mem(struct veo_proc_handle* proc, uint64_t* addr, const size_t size);

/* Frees memory of the process. Returns 0, even if the address is invalid, or -1 if the process does
 * not reply. Blocks. */
int veo_free_mem(struct veo_proc_handle* proc, uint64_t addr);

/* Copies memory of the process to this program. `src` can be any mapped address of the process,
 * with any alignment, and `size` any number. Returns 0, or -1 if it fails. Blocks. */
int veo_read_mem(struct veo_proc_handle* proc, void* dst, uint64_t src, size_t size);

/* Copies memory of this program to the process. Returns 0, or -1 if it fails. Blocks. */
int veo_write_mem(struct veo_proc_handle* proc, uint64_t dst, const void* src, size_t size);

/* Submit a copy from or to the process as a request whose result is 0. The buffer must stay valid
 * until the request ends. Return the number of the request. */
uint64_t veo_async_read_mem(struct veo_thr_ctxt* ctx, void* dst, uint64_t src, size_t size);
uint64_t veo_async_write_mem(struct veo_thr_ctxt* ctx, uint64_t dst, const void* src, size_t size);

/* Submits an allocation of memory in the process. The request's result is the address, or 0 if no
 * memory is left. Returns the number of the request. */
uint64_t veo_alloc_mem_async(struct veo_thr_ctxt* ctx, const size_t size);

/* Submits a request that frees memory of the process. The request's result is 0. Returns the number
 * of the request. */
uint64_t veo_free_mem_async(struct veo_thr_ctxt* ctx, uint64_t addr);

/* --- contexts --------------------------------------------------------------------------------- */

/* Returns the number of the process's open contexts, including the main one. Returns -1 and sets
 * errno to EINVAL if `proc` is NULL. Never blocks. */
int veo_num_contexts(struct veo_proc_handle* proc);

/* Returns a context of the process by its position `idx` in the order in which the contexts were
 * opened. The main context has the position 0. Returns NULL if there is no such context. Never
 * blocks. */
struct veo_thr_ctxt* veo_get_context(struct veo_proc_handle* proc, int idx);

/* Opens a context. The first call for a process returns its main context; each later call returns a
 * new context with its own thread. Returns NULL and sets errno if it fails. Blocks. */
struct veo_thr_ctxt* veo_context_open(struct veo_proc_handle* proc);

/* Opens a context like veo_context_open(); if the context is new, it gets the given attributes.
 * Returns NULL and sets errno to EINVAL if an argument is NULL. Blocks. */
struct veo_thr_ctxt* veo_context_open_with_attr(struct veo_proc_handle* proc,
                                                struct veo_thr_ctxt_attr* tca);

/* Waits for the context's queued requests and ends the context. Results that were not collected are
 * lost. The main context is not ended. Returns 0. Blocks. */
int veo_context_close(struct veo_thr_ctxt* ctx);

/* Returns VEO_STATE_RUNNING, or VEO_STATE_EXIT if the context's process has ended. Never blocks. */
int veo_get_context_state(struct veo_thr_ctxt* ctx);

/* Waits until all requests that were submitted to the context before this call have ended. Their
 * results can still be collected. Blocks. */
void veo_context_sync(struct veo_thr_ctxt* ctx);

/* Allocates an attributes object for contexts, with default values. Returns NULL if there is no
 * memory. Never blocks. */
struct veo_thr_ctxt_attr* veo_alloc_thr_ctxt_attr(void);

/* Frees an attributes object; contexts that were opened with it remain valid. Returns 0, or -1 with
 * errno EINVAL if `tca` is NULL. Never blocks. */
int veo_free_thr_ctxt_attr(struct veo_thr_ctxt_attr* tca);

/* Sets the stack size of a context's thread; the default is 128 MiB. Returns 0, or -1 with errno
 * EINVAL if `tca` is NULL or the size is below 4 MiB. Never blocks. */
int veo_set_thr_ctxt_stacksize(struct veo_thr_ctxt_attr* tca, size_t stack_sz);

/* Stores the stack size of the attributes object in *stack_sz. Returns 0, or -1 with errno EINVAL
 * if an argument is NULL. Never blocks. */
int veo_get_thr_ctxt_stacksize(struct veo_thr_ctxt_attr* tca, size_t* stack_sz);

/* --- arguments -------------------------------------------------------------------------------- */

/* Allocates an arguments object, which can be used for any number of calls. Returns NULL if there
 * is no memory. Never blocks. */
struct veo_args* veo_args_alloc(void);

/* Removes all arguments. Never blocks. */
void veo_args_clear(struct veo_args* ca);

/* Frees an arguments object. Calls that were submitted with it are not affected. Never blocks. */
void veo_args_free(struct veo_args* ca);

/* Set the argument with the number `argnum`; the first argument has number 0. A later value
 * replaces an earlier one. Signed integers are sign-extended to 64 bits, unsigned ones
 * zero-extended. A call fails if an argument before the last one is not set. These functions return
 * 0, or -1 if they fail. Never blocks. */
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

/* Sets an argument that is a pointer to a copy of the buffer. With the intents IN and INOUT, the
 * buffer is copied to the process when the call is submitted. With INOUT and OUT, it is copied back
 * when the call ends, so the buffer must stay valid until the call ends. Returns 0, or -1 if it
 * fails. Never blocks. */
int veo_args_set_stack(struct veo_args* ca, enum veo_args_intent inout, int argnum, char* buff,
                       size_t len);

/* Sets an argument that is a tagged address. The kernel gets the address with its tag. Returns 0,
 * or -1 if it fails. Never blocks. */
int veo_args_set_hmem(struct veo_args* ca, int argnum, void* val);

/* --- calls ------------------------------------------------------------------------------------ */

/* Calls a function on the process's main context and stores its result in *result. Returns 0, or a
 * negative number if it fails. Blocks. */
int veo_call_sync(struct veo_proc_handle* proc, uint64_t addr, struct veo_args* ca,
                  uint64_t* result);

/* Submits a call of a function. The arguments object may be changed or freed as soon as this
 * function has returned. Returns the number of the request. */
uint64_t veo_call_async(struct veo_thr_ctxt* ctx, uint64_t addr, struct veo_args* ca);

/* Looks up a function by its name and submits a call of it. The first call of a name blocks while
 * the process looks up the function. Returns the number of the request. */
uint64_t veo_call_async_by_name(struct veo_thr_ctxt* ctx, uint64_t libhdl, const char* symname,
                                struct veo_args* ca);

/* Submits a call of a function of this program, which runs on a thread of this program. The call
 * starts when all earlier requests of the context have ended; later requests start when the
 * function has returned. Returns the number of the request. */
uint64_t veo_call_async_vh(struct veo_thr_ctxt* ctx, uint64_t (*func)(void*), void* arg);

/* Collects the result of a request if the request has ended. Returns a veo_command_state. After
 * UNFINISHED, the result can still be collected. ERROR is also returned for an unknown request and
 * for a result that was collected before. With EXCEPTION, *retp is the number of the signal that
 * ended the kernel. Never blocks. */
int veo_call_peek_result(struct veo_thr_ctxt* ctx, uint64_t reqid, uint64_t* retp);

/* Waits for the end of a request, then collects its result and returns its state like
 * veo_call_peek_result(). Returns -1 if an error occurs inside the library. Blocks. */
int veo_call_wait_result(struct veo_thr_ctxt* ctx, uint64_t reqid, uint64_t* retp);

/* Begin and end a block of requests: until the block ends, only the calling thread can submit
 * requests to the context. Blocks nest. veo_req_block_begin() waits for the end of another thread's
 * block. */
void veo_req_block_begin(struct veo_thr_ctxt* ctx);
void veo_req_block_end(struct veo_thr_ctxt* ctx);

/* --- memory with tagged addresses ------------------------------------------------------------- */

/* Allocates memory in a process, or in this program if `proc` is NULL. An address in a process has
 * bit 63 set and the process's identifier in bits 62 to 59. Returns 0, or -1 if no memory is left
 * or the identifier does not fit into the tag. Blocks. */
int veo_alloc_hmem(struct veo_proc_handle* proc, void** addr, const size_t size);

/* Frees memory that veo_alloc_hmem() has allocated. Returns 0, or -1 if it fails. Blocks. */
int veo_free_hmem(void* addr);

/* Copies memory within this program, within a process, or between this program and a process.
 * Copies between two processes are not supported. Returns 0, or -1 if it fails. Blocks. */
int veo_hmemcpy(void* dst, const void* src, size_t size);

/* Returns the process whose tag the address has. Returns NULL if the address has no tag or there is
 * no such process. Never blocks. */
struct veo_proc_handle* veo_get_proc_handle_from_hmem(const void* addr);

/* Return the process id and the node number of the process whose tag the address has; -1 if there
 * is no such process. Never blocks. */
pid_t veo_get_pid_from_hmem(const void* addr);
int veo_get_venum_from_hmem(const void* addr);

/* --- hooks ------------------------------------------------------------------------------------ */

/* Sets a hook: the library calls `hook(payload, ...)` after each success of the API function
 * `func`. The following functions can have a hook, which the library calls as shown:
 *   veo_alloc_mem:        hook(payload, proc, uint64_t *addr, size_t)
 *   veo_free_mem:         hook(payload, proc, uint64_t addr)
 *   veo_alloc_hmem:       hook(payload, proc, void *addr, size_t)
 *   veo_free_hmem:        hook(payload, proc, void *addr)
 *   veo_alloc_mem_async:  hook(payload, ctx, uint64_t addr, size_t)
 *   veo_free_mem_async:   hook(payload, ctx, uint64_t addr)
 * Hooks of veo_alloc_hmem() and veo_free_hmem() are not called for memory of this program. The hook
 * of an asynchronous function is called by a second request, which runs after the first one like a
 * request of veo_call_async_vh(). The asynchronous function then returns the number of the second
 * request. Never blocks. */
void veo_register_hook(void* func, void (*hook)(void*, ...), void* payload);

/* Returns the hook that is set for an API function, or NULL if there is none. Never blocks. */
void* veo_get_hook(void* func);

/* Removes the hook of an API function. Never blocks. */
void veo_unregister_hook(void* func);

/* Set and remove one hook for veo_alloc_mem() and veo_alloc_mem_async(), and one for veo_free_mem()
 * and veo_free_mem_async(). These four functions use addresses without tags, but the hooks get the
 * addresses with tags. Never blocks. */
void veo_register_hmem_hook_functions(void (*alloc)(void*, size_t), void (*free)(uint64_t));
void veo_unregister_hmem_hook_functions(void);

#ifdef __cplusplus
}
#endif

#endif
