/* Asynchronous reading and writing of files, for kernels. A context has one operation at a time;
 * take several for more. Threads do the work, VE_ASYNC_IO_THREAD of them (4). -lveio -pthread.
 * Functions return 0, else -1 with errno. */
#ifndef FARCALL_COMPAT_VEO_VEAIO_H
#define FARCALL_COMPAT_VEO_VEAIO_H

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ve_aio2_ctx;
#define ve_aio_ctx ve_aio2_ctx

/* NULL with errno. */
struct ve_aio_ctx* ve_aio_init(void);

/* EBUSY while its operation is under way. */
int ve_aio_fini(struct ve_aio_ctx* context);

/* Start an operation on `count` bytes at `offset` of the file. EBUSY: the last one is under way. */
int ve_aio_write(struct ve_aio_ctx* context, int fd, ssize_t count, void* buffer, off_t offset);
int ve_aio_read(struct ve_aio_ctx* context, int fd, ssize_t count, void* buffer, off_t offset);

/* Waits for its end. *retval: the bytes, or -1, and then *errnoval says why. */
int ve_aio_wait(struct ve_aio_ctx* context, ssize_t* retval, int* errnoval);

/* The same without waiting: 1 while it is under way. */
int ve_aio_query(struct ve_aio_ctx* context, ssize_t* retval, int* errnoval);

#ifdef __cplusplus
}
#endif

#endif
