#include "io.h"

#include <farcall/files/io_socket.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* The table of functions of a process that is no target, but was started by one: a program, or a
 * child of a fork. The target does what is asked, through one connection of the process. */

static char* address; /* as in FARCALL_IO_SOCKET */
static size_t name_bytes;
static const char* prefixes; /* in `address` */

/* Guards the connection, and is held for a request and its answer. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(int) connection = -1;

DECLARE_REAL(close);
DECLARE_REAL(fcntl);

int use_target(const char* text) {
  const char* const comma = strchr(text, ',');
  const size_t bytes = comma != NULL ? (size_t)(comma - text) : 0;
  if (bytes == 0 || bytes >= FARCALL_IO_SOCKET_NAME) return -1;
  char* const copy = strdup(text);
  if (copy == NULL) return -1;
  free(address);
  address = copy;
  name_bytes = bytes;
  prefixes = copy + bytes + 1;
  return 0;
}

/* ---- whose a path is ---- */

static int is_prefix(const char* path, size_t bytes) {
  for (const char* at = prefixes; *at != '\0';) {
    const size_t length = strcspn(at, ",");
    /* Behind it: ":ro" or ":rw". */
    if (length == bytes + 3 && memcmp(at, path, bytes) == 0) return 1;
    at += length + (at[length] == ',');
  }
  return 0;
}

/* As find_prefix() of access.hpp. */
static int is_hosts(const char* path) {
  char so_far[longest_path];
  size_t bytes = 0;
  if (path[0] != '/' || strlen(path) >= sizeof so_far) return 0;
  for (const char* at = path;;) {
    at += strspn(at, "/");
    const size_t length = strcspn(at, "/");
    if (length == 0) return 0;
    if (length == 2 && memcmp(at, "..", 2) == 0) {
      while (bytes > 0 && so_far[--bytes] != '/') {
      }
    } else if (length != 1 || at[0] != '.') {
      so_far[bytes++] = '/';
      memcpy(so_far + bytes, at, length);
      bytes += length;
      if (is_prefix(so_far, bytes)) return 1;
    }
    at += length;
  }
}

/* ---- the connection ---- */

static void disconnect(void) {
  const int fd = atomic_exchange(&connection, -1);
  if (fd >= 0) REAL(close)(fd);
}

/* True if a process of this user listens there: another user may have taken the name of a target
   that has ended. */
static int is_own_user(int fd) {
  struct ucred who;
  socklen_t bytes = sizeof who;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.uid == geteuid();
}

static int connect_to_target(void) {
  struct sockaddr_un to;
  memset(&to, 0, sizeof to);
  to.sun_family = AF_UNIX;
  memcpy(to.sun_path + 1, address, name_bytes);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + name_bytes);
  int done = 0;
  do {
    done = connect(fd, (const struct sockaddr*)&to, bytes);
  } while (done != 0 && errno == EINTR);
  if (done != 0 || !is_own_user(fd)) {
    REAL(close)(fd);
    return -1;
  }
  const int higher = REAL(fcntl)(fd, F_DUPFD_CLOEXEC, first_own_descriptor);
  if (higher >= 0) REAL(close)(fd);
  atomic_store(&connection, higher >= 0 ? higher : fd);
  return 0;
}

int is_connection(int fd) {
  return fd >= 0 && fd == atomic_load_explicit(&connection, memory_order_relaxed);
}

void leave_connection(void) {
  pthread_mutex_lock(&mutex);
  disconnect();
  pthread_mutex_unlock(&mutex);
}

void client_after_fork(void) {
  /* Another thread may have held it, and that thread is not here. */
  mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  disconnect();
}

/* What is asked, and where the answer goes. */
struct exchange {
  struct farcall_io_request head;
  const char* path;
  const char* to;
  const void* data; /* head.bytes of them, or null */
  void* answer;
  size_t room;
  int descriptor; /* that came with the answer, or -1 */
};

/* 0, or -errno. */
static int send_all(struct iovec* parts, int count) {
  struct msghdr message;
  memset(&message, 0, sizeof message);
  message.msg_iov = parts;
  message.msg_iovlen = (size_t)count;
  while (message.msg_iovlen > 0) {
    const ssize_t sent = sendmsg(connection, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EFAULT ? -EFAULT : -EIO;
    size_t left = (size_t)sent;
    while (message.msg_iovlen > 0 && left >= message.msg_iov->iov_len) {
      left -= message.msg_iov->iov_len;
      ++message.msg_iov;
      --message.msg_iovlen;
    }
    if (message.msg_iovlen > 0) {
      message.msg_iov->iov_base = (char*)message.msg_iov->iov_base + left;
      message.msg_iov->iov_len -= left;
    }
  }
  return 0;
}

static int receive_all(void* to, size_t bytes, int* descriptor) {
  size_t done = 0;
  while (done < bytes) {
    struct iovec part = {(char*)to + done, bytes - done};
    union {
      struct cmsghdr head;
      char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message;
    memset(&message, 0, sizeof message);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(connection, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 && errno == EFAULT ? -EFAULT : -EIO;
    const struct cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    if (rights != NULL && rights->cmsg_type == SCM_RIGHTS)
      memcpy(descriptor, CMSG_DATA(rights), sizeof *descriptor);
    done += (size_t)got;
  }
  return 0;
}

static int64_t exchange_locked(struct exchange* e) {
  if (connection < 0 && connect_to_target() != 0) return -EIO;
  struct iovec parts[4] = {{&e->head, sizeof e->head},
                           {(void*)(uintptr_t)e->path, e->head.path_bytes},
                           {(void*)(uintptr_t)e->to, e->head.to_bytes},
                           {(void*)(uintptr_t)e->data, e->data != NULL ? e->head.bytes : 0}};
  struct farcall_io_answer answer;
  int result = send_all(parts, 4);
  if (result == 0) result = receive_all(&answer, sizeof answer, &e->descriptor);
  if (result == 0 && answer.bytes > e->room) result = -EIO;
  if (result == 0) result = receive_all(e->answer, answer.bytes, &e->descriptor);
  /* What comes, and how much, is told twice. */
  if (result == 0 && (answer.result < -4095 || (e->room > 0 && answer.result > 0 &&
                                                (uint64_t)answer.result != answer.bytes))) {
    result = -EIO;
  }
  if (result == 0) return answer.result;
  /* Half a request or answer may be under way. */
  disconnect();
  return result;
}

static int64_t ask(struct exchange* e) {
  const int why = errno;
  int cancels = 0;
  e->head.version = FARCALL_IO_SOCKET_VERSION;
  e->head.path_bytes = e->path != NULL ? (uint32_t)strlen(e->path) : 0;
  e->head.to_bytes = e->to != NULL ? (uint32_t)strlen(e->to) : 0;
  e->descriptor = -1;
  (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancels);
  pthread_mutex_lock(&mutex);
  const int64_t result = exchange_locked(e);
  pthread_mutex_unlock(&mutex);
  (void)pthread_setcancelstate(cancels, NULL);
  errno = why;
  return result;
}

/* ---- the functions of the table ---- */

/* Members of the request, in braces. */
#define ASK(...)                                                                                   \
  struct exchange e = {.head = {__VA_ARGS__}};                                                     \
  return ask(&e)
#define ASK_PATH(of, ...)                                                                          \
  struct exchange e = {.head = {__VA_ARGS__}, .path = (of)};                                       \
  return ask(&e)

static int64_t open_there(const char* path, int flags, uint32_t mode,
                          struct farcall_io_opened* opened) {
  struct exchange e = {
      .head = {.operation = FARCALL_IO_OPEN, .flags = (uint32_t)flags, .mode = mode},
      .path = path,
      .answer = opened,
      .room = sizeof *opened};
  const int64_t result = ask(&e);
  opened->descriptor = e.descriptor;
  /* The system leaves out what there is no number for. */
  return result == 0 && e.descriptor < 0 ? -EMFILE : result;
}

static int64_t close_there(uint64_t file) {
  /* Where this process has never asked for anything, it has done nothing with the file either. */
  if (connection < 0) return 0;
  ASK(.operation = FARCALL_IO_CLOSE, .file = file);
}

/* In pieces; the first that comes out short is the last. offset -1: at the file's position. */
static int64_t move(uint64_t file, char* to, const char* from, size_t bytes, int64_t offset) {
  const int reads = from == NULL;
  const int is_at = offset != -1;
  int64_t done = 0;
  do {
    const size_t left = bytes - (size_t)done;
    const size_t piece = left < FARCALL_IO_LARGEST_PIECE ? left : FARCALL_IO_LARGEST_PIECE;
    struct exchange e = {.head = {.file = file, .bytes = piece}};
    if (is_at) e.head.offset = offset + done;
    if (reads) {
      e.head.operation = is_at ? FARCALL_IO_PREAD : FARCALL_IO_READ;
      e.answer = to + done;
      e.room = piece;
    } else {
      e.head.operation = is_at ? FARCALL_IO_PWRITE : FARCALL_IO_WRITE;
      e.data = from + done;
    }
    int64_t moved = ask(&e);
    if (moved > (int64_t)piece) moved = -EIO;
    if (moved < 0) return done > 0 ? done : moved;
    done += moved;
    if ((size_t)moved < piece) break;
  } while ((size_t)done < bytes);
  return done;
}

static char nothing; /* where there are no bytes, and perhaps no memory */

static int64_t read_at(uint64_t file, void* to, size_t bytes, int64_t offset) {
  if (to == NULL && bytes > 0) return -EFAULT;
  return move(file, to != NULL ? to : &nothing, NULL, bytes, offset);
}
static int64_t write_at(uint64_t file, const void* from, size_t bytes, int64_t offset) {
  if (from == NULL && bytes > 0) return -EFAULT;
  return move(file, NULL, from != NULL ? from : &nothing, bytes, offset);
}

static int64_t read_there(uint64_t file, void* to, size_t bytes) {
  return read_at(file, to, bytes, -1);
}
static int64_t write_there(uint64_t file, const void* from, size_t bytes) {
  return write_at(file, from, bytes, -1);
}
static int64_t pread_there(uint64_t file, void* to, size_t bytes, int64_t offset) {
  return offset < 0 ? -EINVAL : read_at(file, to, bytes, offset);
}
static int64_t pwrite_there(uint64_t file, const void* from, size_t bytes, int64_t offset) {
  return offset < 0 ? -EINVAL : write_at(file, from, bytes, offset);
}
static int64_t seek_there(uint64_t file, int64_t offset, int whence) {
  ASK(.operation = FARCALL_IO_SEEK, .file = file, .offset = offset, .flags = (uint32_t)whence);
}
static int64_t set_flags_there(uint64_t file, int flags) {
  ASK(.operation = FARCALL_IO_SET_FLAGS, .file = file, .flags = (uint32_t)flags);
}
static int64_t fstat_there(uint64_t file, struct farcall_io_status* status) {
  struct exchange e = {.head = {.operation = FARCALL_IO_FSTAT, .file = file},
                       .answer = status,
                       .room = sizeof *status};
  return ask(&e);
}
static int64_t ftruncate_there(uint64_t file, int64_t size) {
  ASK(.operation = FARCALL_IO_FTRUNCATE, .file = file, .offset = size);
}
static int64_t fsync_there(uint64_t file, int data_only) {
  ASK(.operation = FARCALL_IO_FSYNC, .file = file, .flags = (uint32_t)data_only);
}
static int64_t list_there(uint64_t file, void* to, size_t bytes) {
  const size_t most = bytes < FARCALL_IO_LARGEST_PIECE ? bytes : FARCALL_IO_LARGEST_PIECE;
  struct exchange e = {.head = {.operation = FARCALL_IO_LIST, .file = file, .bytes = most},
                       .answer = to,
                       .room = most};
  return ask(&e);
}
static int64_t stat_there(const char* path, int follows_link, struct farcall_io_status* status) {
  struct exchange e = {.head = {.operation = FARCALL_IO_STAT, .flags = (uint32_t)follows_link},
                       .path = path,
                       .answer = status,
                       .room = sizeof *status};
  return ask(&e);
}
static int64_t access_there(const char* path, int mode) {
  ASK_PATH(path, .operation = FARCALL_IO_ACCESS, .flags = (uint32_t)mode);
}
static int64_t truncate_there(const char* path, int64_t size) {
  ASK_PATH(path, .operation = FARCALL_IO_TRUNCATE, .offset = size);
}
static int64_t unlink_there(const char* path) { ASK_PATH(path, .operation = FARCALL_IO_UNLINK); }
static int64_t rmdir_there(const char* path) { ASK_PATH(path, .operation = FARCALL_IO_RMDIR); }
static int64_t mkdir_there(const char* path, uint32_t mode) {
  ASK_PATH(path, .operation = FARCALL_IO_MKDIR, .mode = mode);
}
static int64_t rename_there(const char* from, const char* to, uint32_t flags) {
  struct exchange e = {
      .head = {.operation = FARCALL_IO_RENAME, .flags = flags}, .path = from, .to = to};
  return ask(&e);
}
static int64_t read_link_there(const char* path, char* to, size_t bytes) {
  const size_t most = bytes < FARCALL_IO_LARGEST_PIECE ? bytes : FARCALL_IO_LARGEST_PIECE;
  struct exchange e = {.head = {.operation = FARCALL_IO_READ_LINK, .bytes = most},
                       .path = path,
                       .answer = to,
                       .room = most};
  return ask(&e);
}

static int64_t link_there(const char* from, const char* to, int follows_link) {
  struct exchange e = {.head = {.operation = FARCALL_IO_LINK, .flags = (uint32_t)follows_link},
                       .path = from,
                       .to = to};
  return ask(&e);
}
static int64_t symlink_there(const char* content, const char* path) {
  struct exchange e = {.head = {.operation = FARCALL_IO_SYMLINK}, .path = content, .to = path};
  return ask(&e);
}
static int64_t allocate_there(uint64_t file, int mode, int64_t offset, int64_t bytes) {
  if (bytes <= 0) return -EINVAL;
  ASK(.operation = FARCALL_IO_ALLOCATE, .file = file, .flags = (uint32_t)mode, .offset = offset,
      .bytes = (uint64_t)bytes);
}
static int64_t set_mode_there(uint64_t file, const char* path, uint32_t mode) {
  ASK_PATH(path, .operation = FARCALL_IO_SET_MODE, .file = file, .mode = mode);
}
static int64_t set_owner_there(uint64_t file, const char* path, int follows_link, uint32_t user,
                               uint32_t group) {
  ASK_PATH(path, .operation = FARCALL_IO_SET_OWNER, .file = file, .flags = (uint32_t)follows_link,
           .user = user, .group = group);
}
static int64_t set_times_there(uint64_t file, const char* path, int follows_link,
                               const struct farcall_io_times* times) {
  struct exchange e = {.head = {.operation = FARCALL_IO_SET_TIMES,
                                .file = file,
                                .flags = (uint32_t)follows_link,
                                .bytes = sizeof *times},
                       .path = path,
                       .data = times};
  return ask(&e);
}
static int64_t space_there(uint64_t file, const char* path, struct farcall_io_space* space) {
  struct exchange e = {.head = {.operation = FARCALL_IO_SPACE, .file = file},
                       .path = path,
                       .answer = space,
                       .room = sizeof *space};
  return ask(&e);
}

const struct farcall_io_table through_target = {
    .version = FARCALL_IO_VERSION,
    .bytes = sizeof(struct farcall_io_table),
    .is_hosts = is_hosts,
    .open = open_there,
    .close = close_there,
    .read = read_there,
    .write = write_there,
    .pread = pread_there,
    .pwrite = pwrite_there,
    .seek = seek_there,
    .set_flags = set_flags_there,
    .fstat = fstat_there,
    .ftruncate = ftruncate_there,
    .fsync = fsync_there,
    .list = list_there,
    .stat = stat_there,
    .access = access_there,
    .truncate = truncate_there,
    .unlink = unlink_there,
    .rmdir = rmdir_there,
    .mkdir = mkdir_there,
    .rename = rename_there,
    .read_link = read_link_there,
    .link = link_there,
    .symlink = symlink_there,
    .allocate = allocate_there,
    .set_mode = set_mode_there,
    .set_owner = set_owner_there,
    .set_times = set_times_there,
    .space = space_there,
};

/* ---- descriptors that a program is started with ---- */

/* What a descriptor stands for. */
struct placeholder {
  struct farcall_io_opened opened;
  int flags;
  const char* path; /* in the message */
};

/* 1: it is one of the target's. Other sockets are not read from. */
static int look_at(int fd, char* message, size_t room, struct placeholder* found) {
  static const char begin[] = FARCALL_IO_PLACEHOLDER_TEXT;
  static const char end[] = FARCALL_IO_PLACEHOLDER_END;
  int is = 0;
  socklen_t bytes = sizeof is;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &is, &bytes) != 0 || is != AF_UNIX) return 0;
  if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &is, &bytes) != 0 || is != SOCK_STREAM) return 0;
  const ssize_t got = recv(fd, message, room - 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < (ssize_t)(sizeof begin + sizeof end) || (size_t)got == room - 1 ||
      memcmp(message, begin, sizeof begin - 1) != 0 ||
      memcmp(message + got - (sizeof end - 1), end, sizeof end - 1) != 0) {
    return 0;
  }
  message[got - (ssize_t)(sizeof end - 1)] = '\0';
  int version = 0;
  int length = 0;
  char socket[FARCALL_IO_SOCKET_NAME];
  unsigned long long mode = 0;
  unsigned long long file = 0;
  if (sscanf(message + sizeof begin - 1, "%d %15s %llu %d %llu%n", &version, socket, &mode,
             &found->flags, &file, &length) != 5 ||
      version != FARCALL_IO_SOCKET_VERSION || strlen(socket) != name_bytes ||
      memcmp(socket, address, name_bytes) != 0 ||
      message[sizeof begin - 1 + (size_t)length] != ' ') {
    return 0;
  }
  found->opened = (struct farcall_io_opened){file, mode, fd};
  found->path = message + sizeof begin + (size_t)length;
  return 1;
}

void adopt_descriptors(void) {
  DIR* const all = opendir("/proc/self/fd");
  if (all == NULL) return;
  char message[longest_path + 256];
  for (const struct dirent* entry = readdir(all); entry != NULL; entry = readdir(all)) {
    const int fd = atoi(entry->d_name);
    struct placeholder found;
    if (entry->d_name[0] == '.' || fd == dirfd(all)) continue;
    if (!look_at(fd, message, sizeof message, &found)) continue;
    if ((found.flags & FARCALL_IO_WORKING_FOLDER) != 0) {
      adopt_working_folder(fd, found.path);
    } else {
      (void)adopt_descriptor(&found.opened, found.flags, found.path);
    }
  }
  (void)closedir(all);
}
