// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

/* Functions of streams by the names that old programs call: getc() was a macro for _IO_getc(), and
 * libstdc++ 2 opened files by _IO_file_open(). Headers declare them no longer. */

/* Functions that are the ones without the beginning of the name. */
EXPORT FILE* _IO_fopen(const char* path, const char* mode);
FILE* _IO_fopen(const char* path, const char* mode) { return fopen(path, mode); }
EXPORT FILE* _IO_fdopen(int fd, const char* mode);
FILE* _IO_fdopen(int fd, const char* mode) { return fdopen(fd, mode); }
EXPORT int _IO_fclose(FILE* file);
int _IO_fclose(FILE* file) { return fclose(file); }
EXPORT int _IO_fprintf(FILE* file, const char* format, ...);
int _IO_fprintf(FILE* file, const char* format, ...) {
  WITH_ARGUMENTS(vfprintf(file, format, arguments));
}

#define IT current_stream(file)

/* A row has the result's type, the function, its parameters, and the arguments for libc's
 * function. */
/* clang-format off */
#define OLD_CALLS(row)                                                                             \
  row(int, _IO_feof, (FILE* file), (IT))                                                           \
  row(int, _IO_ferror, (FILE* file), (IT))                                                         \
  row(int, _IO_fflush, (FILE* file), (IT))                                                         \
  row(int, _IO_fgetpos, (FILE* file, fpos_t* to), (IT, to))                                        \
  row(int, _IO_fgetpos64, (FILE* file, fpos64_t* to), (IT, to))                                    \
  row(char*, _IO_fgets, (char* to, int n, FILE* file), (to, n, IT))                                \
  row(int, _IO_fputs, (const char* text, FILE* file), (text, IT))                                  \
  row(size_t, _IO_fread, (void* to, size_t bytes, size_t count, FILE* file), (to, bytes, count, IT)) \
  row(int, _IO_fsetpos, (FILE* file, const fpos_t* to), (IT, to))                                  \
  row(int, _IO_fsetpos64, (FILE* file, const fpos64_t* to), (IT, to))                              \
  row(long, _IO_ftell, (FILE* file), (IT))                                                         \
  row(int, _IO_ftrylockfile, (FILE* file), (IT))                                                   \
  row(size_t, _IO_fwrite, (const void* from, size_t bytes, size_t count, FILE* file),              \
      (from, bytes, count, IT))                                                                    \
  row(int, _IO_getc, (FILE* file), (IT))                                                           \
  row(size_t, _IO_getline, (FILE* file, char* to, size_t bytes, int end, int how),                 \
      (IT, to, bytes, end, how))                                                                   \
  row(int, _IO_peekc_locked, (FILE* file), (IT))                                                   \
  row(int, _IO_putc, (int c, FILE* file), (c, IT))                                                 \
  row(int, _IO_setvbuf, (FILE* file, char* buffer, int how, size_t bytes), (IT, buffer, how, bytes)) \
  row(int, _IO_ungetc, (int c, FILE* file), (c, IT))                                               \
  row(int, _IO_vfprintf, (FILE* file, const char* format, va_list arguments),                      \
      (IT, format, arguments))                                                                     \
  row(int, _IO_vfscanf, (FILE* file, const char* format, va_list arguments, int* has_failed),      \
      (IT, format, arguments, has_failed))

/* Functions without a result. */
#define OLD_CHANGES(row)                                                                           \
  row(_IO_flockfile, (FILE* file), (IT))                                                           \
  row(_IO_funlockfile, (FILE* file), (IT))                                                         \
  row(_IO_setbuffer, (FILE* file, char* buffer, size_t bytes), (IT, buffer, bytes))

/* Functions that are refused for files of the host: a stream of libc cannot use them. */
#define OLD_REFUSED(row)                                                                           \
  row(FILE*, _IO_file_attach, is_hosts_descriptor(fd), (FILE* file, int fd), (file, fd))           \
  row(FILE*, _IO_file_fopen, is_hosts_name(path),                                                  \
      (FILE* file, const char* path, const char* mode, int is_32), (file, path, mode, is_32))      \
  row(FILE*, _IO_file_open, is_hosts_name(path),                                                   \
      (FILE* file, const char* path, int flags, int mode, int rights, int is_32),                  \
      (file, path, flags, mode, rights, is_32))
/* clang-format on */

static int is_hosts_name(const char* path) {
  SPACE(space);
  return hosts_path(AT_FDCWD, path, &space, counted_refused) != NULL;
}

#define DEFINE_OLD_CALL(type, name, parameters, arguments)                                         \
  EXPORT type name parameters;                                                                     \
  DECLARE_REAL(name);                                                                              \
  type name parameters { return REAL(name) arguments; }
OLD_CALLS(DEFINE_OLD_CALL)
#define DEFINE_OLD_CHANGE(name, parameters, arguments)                                             \
  EXPORT void name parameters;                                                                     \
  DECLARE_REAL(name);                                                                              \
  void name parameters { REAL(name) arguments; }
OLD_CHANGES(DEFINE_OLD_CHANGE)
#define DEFINE_OLD_REFUSED(type, name, is_refused, parameters, arguments)                          \
  EXPORT type name parameters;                                                                     \
  DECLARE_REAL(name);                                                                              \
  type name parameters {                                                                           \
    if (!(is_refused)) return REAL(name) arguments;                                                \
    pass(counted_refused, not_offered);                                                            \
    errno = EOPNOTSUPP;                                                                            \
    return NULL;                                                                                   \
  }
OLD_REFUSED(DEFINE_OLD_REFUSED)
