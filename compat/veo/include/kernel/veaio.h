/* SPDX-License-Identifier: Apache-2.0 */

/* Asynchronous reads and writes of files, for kernels. A context has at most one operation in
 * progress; a kernel that wants several at once uses several contexts. The operations of all
 * contexts are executed by VE_ASYNC_IO_THREAD threads, from 1 to 64; the default is 4. Functions
 * return 0, or -1 with errno. Link with -lveio -pthread. */
#ifndef FARCALL_COMPAT_VEO_VEAIO_H
#define FARCALL_COMPAT_VEO_VEAIO_H

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ve_aio2_ctx;
#define ve_aio_ctx ve_aio2_ctx

/* Allocates a context for file operations. Returns NULL and sets errno if it fails. */
struct ve_aio_ctx* ve_aio_init(void);

/* Frees a context. Fails with EBUSY while the context's operation is running. */
int ve_aio_fini(struct ve_aio_ctx* context);

/* Start an operation that transfers `count` bytes at `offset` of the file. Fail with EBUSY while
 * the context's last operation is running. */
int ve_aio_write(struct ve_aio_ctx* context, int fd, ssize_t count, void* buffer, off_t offset);
int ve_aio_read(struct ve_aio_ctx* context, int fd, ssize_t count, void* buffer, off_t offset);

/* Waits for the end of the context's operation. Stores the number of transferred bytes in *retval,
 * or -1 if the operation failed before the first byte. Stores the errno of a failure in *errnoval,
 * or 0. Fails with EINVAL if the context has no operation whose result was not taken. */
int ve_aio_wait(struct ve_aio_ctx* context, ssize_t* retval, int* errnoval);

/* Takes the operation's result like ve_aio_wait(), but returns 1 without waiting if the operation
 * is still running. */
int ve_aio_query(struct ve_aio_ctx* context, ssize_t* retval, int* errnoval);

#ifdef __cplusplus
}
#endif

#endif
