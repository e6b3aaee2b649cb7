// SPDX-License-Identifier: Apache-2.0
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

/* Client of a target. It is used in programs that the target has started, and in children of the
 * target's forks. Holds the target's address, and the table by which the library has the target
 * perform operations. The whole process has one connection to the target. */

static char* address; /* as in FARCALL_IO_SOCKET */
static size_t name_bytes;
static const char* prefixes; /* part of `address` */

/* Guards the connection. A thread holds the mutex from the sending of its request until the
 * reply has arrived. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(int) connection = -1;
/* True once the process has had a connection. */
static _Atomic(int) has_connected;

DECLARE_REAL(close);
DECLARE_REAL(fcntl);
DECLARE_REAL(recvmsg);

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

/* ---- paths of the host ---- */

/* Returns the rest of the path behind the prefix, which has `bytes` bytes. Returns null if the path
 * leads neither to the prefix nor beneath it. Follows the path word by word, so that "..", too, is
 * taken as a word: `words` counts the words of the folder that is reached so far, `same` those at
 * its beginning that the prefix has, too, and `end` is their length. */
static const char* leads_to(const char* path, const char* prefix, size_t bytes) {
  size_t words = 0;
  size_t same = 0;
  size_t end = 0;
  for (const char* at = path;;) {
    at += strspn(at, "/");
    const size_t length = strcspn(at, "/");
    if (length == 0) return NULL;
    if (length == 2 && memcmp(at, "..", 2) == 0) {
      if (words == same && same > 0) {
        while (prefix[--end] != '/') {
        }
        --same;
      }
      if (words > 0) --words;
    } else if (length != 1 || at[0] != '.') {
      const size_t behind = end + 1 + length;
      if (words == same && behind <= bytes && memcmp(prefix + end + 1, at, length) == 0 &&
          (behind == bytes || prefix[behind] == '/')) {
        ++same;
        end = behind;
        if (end == bytes) return at + length;
      }
      ++words;
    }
    at += length;
  }
}

/* Returns the entry of the longest prefix to which the absolute path leads, and the entry's length
 * and the path's rest behind the prefix. Returns null if the path is not the host's. An entry is a
 * prefix followed by ":ro" or ":rw", which are 3 bytes. */
static const char* find_entry(const char* path, size_t* bytes, const char** rest) {
  const char* found = NULL;
  *bytes = 0;
  for (const char* at = prefixes; path[0] == '/' && *at != '\0';) {
    const size_t length = strcspn(at, ",");
    const char* const behind = length > *bytes ? leads_to(path, at, length - 3) : NULL;
    if (behind != NULL) {
      found = at;
      *bytes = length;
      *rest = behind;
    }
    at += length + (at[length] == ',');
  }
  return found;
}

int is_hosts_path(const char* path) {
  size_t bytes = 0;
  const char* rest = NULL;
  const char* const entry = find_entry(path, &bytes, &rest);
  if (entry == NULL) return 0;
  return entry[bytes - 1] == 'o' ? 2 : 1;
}

const char* copy_prefix(const char* path, char prefix[PATH_MAX]) {
  size_t bytes = 0;
  const char* rest = NULL;
  const char* const entry = find_entry(path, &bytes, &rest);
  if (entry == NULL || bytes - 3 >= PATH_MAX) return NULL;
  memcpy(prefix, entry, bytes - 3);
  prefix[bytes - 3] = '\0';
  return rest;
}

/* ---- the connection ---- */

static void disconnect(void) {
  const int fd = atomic_exchange(&connection, -1);
  if (fd >= 0) REAL(close)(fd);
}

/* True if the process that listens at the target's name belongs to this user. If not, the target
 * has ended, and another user has taken its name. */
static int is_own_user(int fd) {
  struct ucred who;
  socklen_t bytes = sizeof who;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.uid == geteuid();
}

/* Returns a new connection to the target, or -1. */
static int new_connection(void) {
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
  return fd;
}

static int connect_to_target(void) {
  const int fd = new_connection();
  if (fd < 0) return -1;
  const int higher = REAL(fcntl)(fd, F_DUPFD_CLOEXEC, first_own_descriptor);
  if (higher >= 0) REAL(close)(fd);
  atomic_store(&connection, higher >= 0 ? higher : fd);
  atomic_store(&has_connected, 1);
  return 0;
}

void give_to_target(int (*make)(void)) {
  const int way = new_connection();
  const int given = way >= 0 ? make() : -1;
  if (given >= 0) {
    struct farcall_io_message head = {.version = FARCALL_IO_SOCKET_VERSION,
                                      .release = THIS_RELEASE,
                                      .operation = FARCALL_IO_WATCH};
    struct iovec part = {&head, sizeof head};
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
    struct cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &given, sizeof given);
    (void)!sendmsg(way, &message, MSG_NOSIGNAL);
    REAL(close)(given);
  }
  if (way >= 0) REAL(close)(way);
}

int is_connection(int fd) {
  return fd >= 0 && fd == atomic_load_explicit(&connection, memory_order_relaxed);
}

void hold_connection(int fd) {
  lock(&mutex);
  if (fd < 0 || is_connection(fd)) disconnect();
}

void release_connection(void) { unlock(&mutex); }

void client_after_fork(void) {
  /* Initialise the mutex again. A thread of the parent may have held it during the fork, and
   * this thread does not exist in the child. */
  mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  disconnect();
  atomic_store(&has_connected, 0);
}

/* Returns 0, or -errno. */
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

/* Receives bytes, and a descriptor if one comes with them. Returns the number of bytes, or -errno.
 */
static ssize_t receive_some(struct iovec* parts, int count, int flags, int* descriptor) {
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  for (;;) {
    struct msghdr message;
    memset(&message, 0, sizeof message);
    message.msg_iov = parts;
    message.msg_iovlen = (size_t)count;
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    const ssize_t got = REAL(recvmsg)(connection, &message, flags | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 && errno == EFAULT ? -EFAULT : -EIO;
    const struct cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    if (rights != NULL && rights->cmsg_type == SCM_RIGHTS)
      memcpy(descriptor, CMSG_DATA(rights), sizeof *descriptor);
    return got;
  }
}

static int receive_all(void* to, size_t bytes, int* descriptor) {
  size_t done = 0;
  while (done < bytes) {
    struct iovec part = {(char*)to + done, bytes - done};
    const ssize_t got = receive_some(&part, 1, MSG_WAITALL, descriptor);
    if (got < 0) return (int)got;
    done += (size_t)got;
  }
  return 0;
}

/* Receives a reply and its bytes, short ones by one system call. */
static int receive_reply(struct farcall_io_reply* reply, void* result, size_t space,
                         int* descriptor) {
  struct iovec parts[2] = {{reply, sizeof *reply}, {result, space}};
  ssize_t got = receive_some(parts, space > 0 ? 2 : 1, 0, descriptor);
  /* The bytes stay in the socket if the program's memory cannot be written to. Receive the reply
   * alone, which tells how far the file's position has moved. */
  if (got == -EFAULT) got = 0;
  if (got < 0) return (int)got;
  const size_t more = (size_t)got > sizeof *reply ? (size_t)got - sizeof *reply : 0;
  const size_t head = (size_t)got - more;
  const int failed = receive_all((char*)reply + head, sizeof *reply - head, descriptor);
  if (failed != 0) return failed;
  if (reply->bytes > space || reply->bytes < more) return -EIO;
  return receive_all((char*)result + more, reply->bytes - more, descriptor);
}

/* Sends a request and receives its reply. Sets `descriptor` if a descriptor comes with the reply.
 */
static int64_t exchange_locked(const struct farcall_io_request* r, int* descriptor) {
  if (connection < 0 && connect_to_target() != 0) return -EIO;
  struct farcall_io_message head = {.version = FARCALL_IO_SOCKET_VERSION,
                                    .release = THIS_RELEASE,
                                    .operation = r->operation,
                                    .flags = r->flags,
                                    .mode = r->mode,
                                    .file = r->file,
                                    .offset = r->offset,
                                    .bytes = r->bytes,
                                    .path_bytes = r->path.bytes,
                                    .to_bytes = r->to.bytes,
                                    .data_bytes = r->data_bytes,
                                    .result_bytes = r->result_bytes};
  struct iovec parts[4] = {{&head, sizeof head},
                           {(void*)(uintptr_t)r->path.at, r->path.bytes},
                           {(void*)(uintptr_t)r->to.at, r->to.bytes},
                           {(void*)(uintptr_t)r->data, r->data_bytes}};
  struct farcall_io_reply reply = {0, 0};
  int result = send_all(parts, 4);
  if (result == 0) result = receive_reply(&reply, r->result, r->result_bytes, descriptor);
  /* Refuse a reply whose positive result is not the number of bytes that came with it. */
  if (result == 0 && (reply.result < -4095 || (r->result_bytes > 0 && reply.result > 0 &&
                                               (uint64_t)reply.result != reply.bytes))) {
    result = -EIO;
  }
  if (result == 0) return reply.result;
  /* Disconnect, because a part of the request or of the reply may still be in transit, and would
   * be taken for the next one. */
  disconnect();
  if (result == -EFAULT && r->operation == farcall_io_op_read &&
      r->offset == FARCALL_IO_AT_POSITION && reply.result > 0) {
    /* The target has advanced the position by bytes that the program did not get. Set it back. */
    const struct farcall_io_request back = {.operation = farcall_io_op_seek,
                                            .flags = SEEK_CUR,
                                            .file = r->file,
                                            .offset = -reply.result};
    (void)exchange_locked(&back, descriptor);
  }
  return result;
}

static int64_t exchange(const struct farcall_io_request* request) {
  const int why = errno;
  int descriptor = -1;
  lock(&mutex);
  const int64_t result = exchange_locked(request, &descriptor);
  unlock(&mutex);
  errno = why;
  if (request->operation != farcall_io_op_open) return result;
  ((struct farcall_io_opened*)request->result)->descriptor = descriptor;
  /* The reply came without its descriptor. The system drops the descriptor if the process has no
   * free number for it. */
  return result == 0 && descriptor < 0 ? -EMFILE : result;
}

/* ---- the table ---- */

/* Reads or writes in pieces of at most FARCALL_IO_LARGEST_PIECE bytes, until a piece is shorter
 * than requested. */
static int64_t move(const struct farcall_io_request* request) {
  const int reads = request->operation == farcall_io_op_read;
  const size_t bytes = reads ? request->result_bytes : request->data_bytes;
  if (bytes > 0 && (reads ? request->result : request->data) == NULL) return -EFAULT;
  struct farcall_io_request piece = *request;
  int64_t done = 0;
  for (;;) {
    const size_t left = bytes - (size_t)done;
    const size_t wanted = left < FARCALL_IO_LARGEST_PIECE ? left : FARCALL_IO_LARGEST_PIECE;
    if (reads) {
      piece.bytes = wanted;
      piece.result_bytes = wanted;
    } else {
      piece.data_bytes = wanted;
    }
    int64_t moved = exchange(&piece);
    if (moved > (int64_t)wanted) moved = -EIO;
    if (moved < 0) return done > 0 ? done : moved;
    done += moved;
    if ((size_t)moved < wanted || (size_t)done == bytes) return done;
    if (piece.offset != FARCALL_IO_AT_POSITION) piece.offset += moved;
    if (reads) {
      piece.result = (char*)piece.result + moved;
    } else {
      piece.data = (const char*)piece.data + moved;
    }
  }
}

static int64_t perform(const struct farcall_io_request* request) {
  struct farcall_io_request asked = *request;
  switch (asked.operation) {
  case farcall_io_op_read:
  case farcall_io_op_write:
    return move(request);
  case farcall_io_op_close:
    /* A process that never had a connection has not used the file, so that there are no errors to
     * report. */
    if (!has_connected) return 0;
    break;
  default:
    if (asked.result_bytes > FARCALL_IO_LARGEST_PIECE)
      asked.bytes = asked.result_bytes = FARCALL_IO_LARGEST_PIECE;
  }
  return exchange(&asked);
}

const struct farcall_io_table through_target = {
    .version = FARCALL_IO_VERSION, .operations = farcall_io_operations, .perform = perform};

/* ---- descriptors that the program inherits at its start ---- */

/* File of the host that an inherited descriptor represents, as the text in the placeholder
 * describes it. */
struct placeholder {
  struct farcall_io_opened opened;
  int flags;
  const char* path; /* in the message */
};

/* Returns 1 if the descriptor is a placeholder of this process's target, and fills `found` from
 * its text. Only peeks at the data, so that the data of other sockets stays unread. */
static int look_at(int fd, char* message, size_t space, struct placeholder* found) {
  static const char begin[] = FARCALL_IO_PLACEHOLDER_TEXT;
  static const char end[] = FARCALL_IO_PLACEHOLDER_END;
  int is = 0;
  socklen_t bytes = sizeof is;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &is, &bytes) != 0 || is != AF_UNIX) return 0;
  if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &is, &bytes) != 0 || is != SOCK_STREAM) return 0;
  const ssize_t got = recv(fd, message, space - 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < (ssize_t)(sizeof begin + sizeof end) || (size_t)got == space - 1 ||
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

void adopt_received(int fd) {
  SPACE(space);
  const int why = errno;
  enum { bytes = max_path + 256 };
  struct placeholder found;
  char* const message = reserve(&space, bytes);
  if (message != NULL && look_at(new_of_libc(fd), message, bytes, &found) &&
      (found.flags & FARCALL_IO_WORKING_FOLDER) == 0) {
    (void)adopt_descriptor(&found.opened, found.flags, found.path);
  }
  errno = why;
}

void adopt_descriptors(void) {
  DIR* const all = opendir("/proc/self/fd");
  if (all == NULL) return;
  char message[max_path + 256];
  for (const struct dirent* entry = readdir(all); entry != NULL; entry = readdir(all)) {
    const int fd = atoi(entry->d_name);
    struct placeholder found;
    if (entry->d_name[0] == '.' || fd == dirfd(all)) continue;
    if (!look_at(fd, message, sizeof message, &found)) continue;
    if ((found.flags & FARCALL_IO_WORKING_FOLDER) != 0) {
      adopt_working_folder(fd, found.opened.file, found.path);
    } else {
      (void)adopt_descriptor(&found.opened, found.flags, found.path);
    }
  }
  (void)closedir(all);
}
