/* SPDX-License-Identifier: Apache-2.0 */

/* Tests libsysve.h, userdma.h, vedma.h, veshm.h, vhshm.h, veaio.h. The argument is a file to
 * create. */
#include <libsysve.h>
#include <userdma.h>
#include <veaio.h>
#include <vedma.h>
#include <veshm.h>
#include <vhshm.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static void dma(void) {
  char from[100];
  char to[100];
  ve_dma_handle_t handle;
  memset(from, 3, sizeof from);
  memset(to, 0, sizeof to);

  CHECK(ve_dma_init() == 0 && ve_dma_init() == 0);
  const uint64_t source = ve_register_mem_to_dmaatb(from, sizeof from);
  const uint64_t target = ve_register_mem_to_dmaatb(to, sizeof to);
  CHECK(ve_dma_post_wait(target, source, 50) == 0);
  CHECK(to[49] == 3 && to[50] == 0);
  CHECK(ve_dma_post(target + 60, source, 10, &handle) == 0);
  CHECK(ve_dma_poll(&handle) == 0);
  CHECK(to[59] == 0 && to[60] == 3 && to[69] == 3 && to[70] == 0);
  CHECK(ve_dma_post_wait(target, 8, 10) == 0x4000);
  CHECK(ve_dma_post(8, source, 10, &handle) == 0);
  CHECK(ve_dma_poll(&handle) == 0x4000);
  CHECK(ve_dma_post_wait(target, source, -1) == -EINVAL);
  CHECK(ve_unregister_mem_from_dmaatb(source) == 0);
  errno = 0;
  CHECK(ve_register_mem_to_dmaatb(NULL, 4) == (uint64_t)-1 && errno == EINVAL);
}

static void shared_memory(void) {
  const key_t key = (key_t)(0x0fa70000 + getpid() % 0x10000);
  const int made = shmget(key, 4096, IPC_CREAT | IPC_EXCL | 0600);
  void* vehva = NULL;
  if (made == -1) {
    fprintf(stderr, "no System V shared memory here: %s\n", strerror(errno));
    return;
  }
  char* host = shmat(made, NULL, 0);
  strcpy(host, "from the host");

  const int id = vh_shmget(key, 4096, 0);
  CHECK(id == made);
  char* memory = vh_shmat(id, NULL, 0, &vehva);
  CHECK(memory != (void*)-1 && memory != host);
  CHECK(strcmp(memory, "from the host") == 0);
  char text[16] = "";
  CHECK(ve_dma_post_wait((uint64_t)(uintptr_t)text, (uint64_t)(uintptr_t)vehva, 16) == 0);
  CHECK(strcmp(text, "from the host") == 0);
  CHECK(vh_shmdt(memory) == 0);
  errno = 0;
  CHECK(vh_shmat(id, host, 0, &vehva) == (void*)-1 && errno == EINVAL);
  errno = 0;
  CHECK(vh_shmget(key, 4096, IPC_CREAT) == -1 && errno == EINVAL);
  shmdt(host);
  shmctl(made, IPC_RMID, NULL);
}

static void asynchronous_files(const char* path) {
  enum { COUNT = 8, SIZE = 100000 };
  struct ve_aio_ctx* contexts[COUNT];
  char* buffers[COUNT];
  ssize_t result = 0;
  int error = 0;
  const int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(file >= 0);

  for (int i = 0; i < COUNT; ++i) {
    contexts[i] = ve_aio_init();
    buffers[i] = malloc(SIZE);
    memset(buffers[i], 'a' + i, SIZE);
    CHECK(ve_aio_write(contexts[i], file, SIZE, buffers[i], (off_t)i * SIZE) == 0);
  }
  for (int i = 0; i < COUNT; ++i) {
    CHECK(ve_aio_wait(contexts[i], &result, &error) == 0);
    CHECK(result == SIZE && error == 0);
    /* A result can be taken only once. */
    CHECK(ve_aio_wait(contexts[i], &result, &error) == -1);
    CHECK(ve_aio_query(contexts[i], &result, &error) == -1);
  }
  CHECK(lseek(file, 0, SEEK_END) == (off_t)COUNT * SIZE);

  /* Read across two of the pieces, and beyond the end. */
  CHECK(ve_aio_read(contexts[0], file, SIZE, buffers[0], SIZE / 2) == 0);
  CHECK(ve_aio_read(contexts[1], file, SIZE, buffers[1], (off_t)COUNT * SIZE - 10) == 0);
  int state = 1;
  for (int i = 0; i < 20000 && state == 1; ++i) {
    state = ve_aio_query(contexts[0], &result, &error);
    usleep(1000);
  }
  CHECK(state == 0 && result == SIZE && error == 0);
  CHECK(buffers[0][0] == 'a' && buffers[0][SIZE / 2] == 'b');
  CHECK(ve_aio_wait(contexts[1], &result, &error) == 0);
  CHECK(result == 10 && buffers[1][9] == 'a' + COUNT - 1);

  CHECK(ve_aio_write(contexts[0], -1, 1, buffers[0], 0) == 0);
  CHECK(ve_aio_wait(contexts[0], &result, &error) == 0);
  CHECK(result == -1 && error == EBADF);
  for (int i = 0; i < COUNT; ++i) {
    CHECK(ve_aio_fini(contexts[i]) == 0);
    free(buffers[i]);
  }
  close(file);
}

static void machine(void) {
  char text[256] = "";
  char name[] = "num_of_core";
  char other[] = "no such thing";
  unsigned node = 12345;
  CHECK(ve_get_numa_node(&node) == 0 && node < 12345);
  CHECK(ve_get_ve_info(name, text, sizeof text) == (ssize_t)strlen(text));
  CHECK(atol(text) == sysconf(_SC_NPROCESSORS_ONLN));
  errno = 0;
  CHECK(ve_get_ve_info(name, text, 1) == -1 && errno == ERANGE);
  errno = 0;
  CHECK(ve_get_ve_info(other, text, sizeof text) == -1 && errno == ENOENT);
  CHECK(ve_get_ve_product_name(text, sizeof text) == 0 && text[0] != 0);
  CHECK(ve_is_acc_io_enabled() == 0);
}

static void what_needs_the_card(void) {
  char memory[64];
  uint64_t word = 0;
  errno = 0;
  CHECK(ve_shared_mem_open(memory, sizeof memory, 0, VE_REGISTER_NONE) == -1 && errno == ENOTSUP);
  errno = 0;
  CHECK(ve_shared_mem_attach(getpid(), memory, sizeof memory, 0, VE_REGISTER_NONE) == (void*)-1 &&
        errno == ENOTSUP);
  errno = 0;
  CHECK(ve_map_dmades(&word, &word) == -1 && errno == ENOTSUP);
  errno = 0;
  CHECK(ve_get_fixed_vehva(0, &word) == -1 && errno == ENOTSUP);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s <file to make>\n", argv[0]);
    return 2;
  }
  machine();
  what_needs_the_card();
  dma();
  shared_memory();
  asynchronous_files(argv[1]);
  return failures();
}
