/* SPDX-License-Identifier: Apache-2.0 */

/* Library to preload into programs that search for cards themselves. It shows the nodes of libveo
 * as cards in /dev (veslot0 and so on), in libudev and in /sys/class/ve. FARCALL_VEO_DEVICES is the
 * number of cards, at most 10. The default is 8, which is also the default number of nodes. The
 * program sees all other files unchanged. */

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { MOST_DEVICES = 10, USUAL_DEVICES = 8, OPEN_FOLDERS = 16 };
/* Major device number that no real device uses. */
static const unsigned device_major = 3877;

static int devices(void) {
  const char* text = getenv("FARCALL_VEO_DEVICES");
  const int said = text == NULL || *text == 0 ? USUAL_DEVICES : atoi(text);
  return said < 0 ? 0 : said > MOST_DEVICES ? MOST_DEVICES : said;
}

/* Returns the address of the C library's function with this name. */
static void* next(const char* name) { return dlsym(RTLD_NEXT, name); }
#define NEXT(name) (__extension__(__typeof__(&name)) next(#name))

/* Returns the number of the device that follows `prefix` in the path, or -1. Sets `rest` to the
 * text after the number. */
static int device_of(const char* path, const char* prefix, const char** rest) {
  const size_t length = strlen(prefix);
  if (path == NULL || strncmp(path, prefix, length) != 0) return -1;
  const char digit = path[length];
  if (digit < '0' || digit > '9' || digit - '0' >= devices()) return -1;
  *rest = path + length + 1;
  return digit - '0';
}

/* ---- /dev ---------------------------------------------------------------------------------------
 */

/* Files in the folder of a card under /sys/class/ve. */
static const char* const value_names[] = {"abi_version", "cache_l1d",           "cache_l1i",
                                          "cache_l2",    "cache_llc",           "clock_base",
                                          "clock_chip",  "clock_memory",        "cores_enable",
                                          "fw_version",  "memory_size",         "model",
                                          "num_of_core", "numa_mem_block_size", "partitioning_mode",
                                          "type",        "ve_arch_class"};
enum { VALUE_NAMES = sizeof value_names / sizeof *value_names };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct {
  DIR* folder;
  int is_card; /* true for the folder of a card, whose entries are all made by this library */
  int shown;
  struct dirent entry;
} open_folders[OPEN_FOLDERS];

static DIR* remember(DIR* folder, int is_card) {
  pthread_mutex_lock(&mutex);
  for (int i = 0; folder != NULL && i < OPEN_FOLDERS; ++i) {
    if (open_folders[i].folder != NULL) continue;
    open_folders[i].folder = folder;
    open_folders[i].is_card = is_card;
    open_folders[i].shown = 0;
    break;
  }
  pthread_mutex_unlock(&mutex);
  return folder;
}

DIR* opendir(const char* path) {
  const char* rest = NULL;
  if (device_of(path, "/sys/class/ve/ve", &rest) >= 0 && (*rest == 0 || strcmp(rest, "/") == 0)) {
    return remember(NEXT(opendir)("/"), 1);
  }
  DIR* const folder = NEXT(opendir)(path);
  const int is_dev = strcmp(path, "/dev") == 0 || strcmp(path, "/dev/") == 0;
  return is_dev ? remember(folder, 0) : folder;
}

/* Returns the next entry that this library adds: an entry of a card's folder, or a card after the
 * real entries of /dev. */
static struct dirent* entry_of(DIR* folder, int is_card, int* is_known) {
  struct dirent* found = NULL;
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < OPEN_FOLDERS; ++i) {
    if (open_folders[i].folder != folder || open_folders[i].is_card != is_card) continue;
    *is_known = 1;
    if (open_folders[i].shown >= (is_card ? (int)VALUE_NAMES : devices())) break;
    found = &open_folders[i].entry;
    memset(found, 0, sizeof *found);
    found->d_type = is_card ? DT_REG : DT_CHR;
    found->d_reclen = sizeof *found;
    const int number = open_folders[i].shown++;
    if (is_card) {
      snprintf(found->d_name, sizeof found->d_name, "%s", value_names[number]);
    } else {
      snprintf(found->d_name, sizeof found->d_name, "veslot%d", number);
    }
    break;
  }
  pthread_mutex_unlock(&mutex);
  return found;
}

struct dirent* readdir(DIR* folder) {
  int is_known = 0;
  struct dirent* const of_card = entry_of(folder, 1, &is_known);
  if (is_known) return of_card;
  struct dirent* const entry = NEXT(readdir)(folder);
  return entry != NULL ? entry : entry_of(folder, 0, &is_known);
}

/* On 64-bit machines, struct dirent and struct dirent64 are the same, so that readdir() can return
 * both. */
struct dirent64* readdir64(DIR* folder) { return (struct dirent64*)readdir(folder); }

int closedir(DIR* folder) {
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < OPEN_FOLDERS; ++i) {
    if (open_folders[i].folder == folder) open_folders[i].folder = NULL;
  }
  pthread_mutex_unlock(&mutex);
  return NEXT(closedir)(folder);
}

int stat(const char* restrict path, struct stat* restrict to) {
  const char* rest = NULL;
  const int device = device_of(path, "/dev/veslot", &rest);
  if (device < 0 || *rest != 0) return NEXT(stat)(path, to);
  memset(to, 0, sizeof *to);
  to->st_mode = S_IFCHR | 0666;
  to->st_nlink = 1;
  to->st_rdev = makedev(device_major, (unsigned)device);
  return 0;
}

int stat64(const char* restrict path, struct stat64* restrict to) {
  return stat(path, (struct stat*)to);
}

/* Functions that are called by programs built with an older C library. Their struct stat has the
 * same layout. */
int __xstat(int version, const char* path, struct stat* to);
int __xstat64(int version, const char* path, struct stat64* to);

int __xstat(int version, const char* path, struct stat* to) {
  (void)version;
  return stat(path, to);
}

int __xstat64(int version, const char* path, struct stat64* to) {
  return __xstat(version, path, (struct stat*)to);
}

/* ---- libudev ------------------------------------------------------------------------------------
 */

struct udev;
struct udev_device;

static struct {
  char path[32];
} udev_devices[MOST_DEVICES];

static int is_ours(const struct udev_device* device) {
  const char* const at = (const char*)device;
  const char* const first = (const char*)udev_devices;
  return at >= first && at < first + sizeof udev_devices;
}

struct udev_device* udev_device_new_from_devnum(struct udev* udev, char type, dev_t number);
const char* udev_device_get_syspath(struct udev_device* device);
struct udev_device* udev_device_unref(struct udev_device* device);

struct udev_device* udev_device_new_from_devnum(struct udev* udev, char type, dev_t number) {
  if (major(number) != device_major || minor(number) >= (unsigned)devices()) {
    __typeof__(&udev_device_new_from_devnum) const f = NEXT(udev_device_new_from_devnum);
    if (f != NULL) return f(udev, type, number);
    errno = ENOSYS;
    return NULL;
  }
  const unsigned device = minor(number);
  snprintf(udev_devices[device].path, sizeof udev_devices[device].path, "/sys/class/ve/ve%u",
           device);
  return (struct udev_device*)&udev_devices[device];
}

const char* udev_device_get_syspath(struct udev_device* device) {
  if (is_ours(device)) return (const char*)device;
  __typeof__(&udev_device_get_syspath) const f = NEXT(udev_device_get_syspath);
  return f == NULL ? NULL : f(device);
}

struct udev_device* udev_device_unref(struct udev_device* device) {
  __typeof__(&udev_device_unref) const f = NEXT(udev_device_unref);
  return is_ours(device) || f == NULL ? NULL : f(device);
}

/* ---- /sys/class/ve ------------------------------------------------------------------------------
 */

static long long kib_of(int name) {
  const long bytes = sysconf(name);
  return bytes < 0 ? 0 : bytes / 1024;
}

/* Writes the content of a card's file to the buffer. Returns its length, or 0 if there is no such
 * file. */
static int value_of(const char* name, char* text, size_t size) {
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  const long long gib = 1LL << 30;
  long long value = 0;
  if (strcmp(name, "ve_arch_class") == 0) return snprintf(text, size, "ve1\n");
  if (strcmp(name, "cores_enable") == 0 || strcmp(name, "numa0_cores") == 0) {
    /* The files cores_enable and numa0_cores have one bit for each core. Programs read the bits as
       an int, so that there are at most 31. */
    const unsigned bits = cores >= 31 ? 31 : (unsigned)cores;
    return snprintf(text, size, "%x\n", (1U << bits) - 1);
  }
  if (strcmp(name, "memory_size") == 0 || strcmp(name, "numa_mem_block_size") == 0) {
    value = (sysconf(_SC_PHYS_PAGES) * (long long)sysconf(_SC_PAGESIZE) + gib - 1) / gib;
  } else if (strcmp(name, "num_of_core") == 0) {
    value = cores;
  } else if (strcmp(name, "cache_l1d") == 0) {
    value = kib_of(_SC_LEVEL1_DCACHE_SIZE);
  } else if (strcmp(name, "cache_l1i") == 0) {
    value = kib_of(_SC_LEVEL1_ICACHE_SIZE);
  } else if (strcmp(name, "cache_l2") == 0) {
    value = kib_of(_SC_LEVEL2_CACHE_SIZE);
  } else if (strcmp(name, "cache_llc") == 0) {
    value = kib_of(_SC_LEVEL3_CACHE_SIZE);
  } else if (strncmp(name, "clock_", 6) == 0) {
    value = 1000; /* frequency in MHz; the real value is unknown */
  } else if (strcmp(name, "model") == 0 || strcmp(name, "type") == 0 ||
             strcmp(name, "abi_version") == 0) {
    value = 1;
  } else if (strcmp(name, "partitioning_mode") != 0 && strcmp(name, "fw_version") != 0 &&
             strncmp(name, "sensor_", 7) != 0) {
    return 0;
  }
  return snprintf(text, size, "%lld\n", value);
}

/* Opens a temporary file with the content of a card's file. Returns -1 if the path does not name a
 * card's file. */
static int open_value(const char* path) {
  char text[64];
  const char* rest = NULL;
  if (device_of(path, "/sys/class/ve/ve", &rest) < 0 || *rest != '/') return -1;
  const int length = value_of(rest + 1, text, sizeof text);
  if (length <= 0) return -1;
  const int file = memfd_create("ve", MFD_CLOEXEC);
  if (file >= 0 && (write(file, text, (size_t)length) != length || lseek(file, 0, SEEK_SET) != 0)) {
    close(file);
    return -1;
  }
  return file;
}

FILE* fopen(const char* restrict path, const char* restrict mode) {
  const int file = open_value(path);
  return file >= 0 ? fdopen(file, "r") : NEXT(fopen)(path, mode);
}

FILE* fopen64(const char* restrict path, const char* restrict mode) {
  const int file = open_value(path);
  return file >= 0 ? fdopen(file, "r") : NEXT(fopen64)(path, mode);
}

static mode_t mode_in(int flags, va_list list) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(list, mode_t) : 0;
}

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_in(flags, list);
  va_end(list);
  const int file = open_value(path);
  return file >= 0 ? file : NEXT(open)(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_in(flags, list);
  va_end(list);
  const int file = open_value(path);
  return file >= 0 ? file : NEXT(open64)(path, flags, mode);
}
