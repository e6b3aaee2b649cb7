// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <errno.h>
#include <error.h>
#include <stdio_ext.h>
#include <stdlib.h>

/* Table of functions that take a stream. Programs and C++'s standard streams keep the FILE pointers
 * of stdin, stdout and stderr that they got at their start, so each function uses the stream that
 * replaces the pointer's. wide.c has the functions for wide characters. */

/* Functions for _FORTIFY_SOURCE. <stdio.h> declares them only if this is defined. */
size_t __fread_chk(void* restrict to, size_t space, size_t bytes, size_t count,
                   FILE* restrict file);
size_t __fread_unlocked_chk(void* restrict to, size_t space, size_t bytes, size_t count,
                            FILE* restrict file);
char* __fgets_chk(char* restrict to, size_t space, int n, FILE* restrict file);
char* __fgets_unlocked_chk(char* restrict to, size_t space, int n, FILE* restrict file);
int __vfprintf_chk(FILE* restrict file, int flag, const char* restrict format, va_list arguments);
/* The rest of getc_unlocked() and putc_unlocked(), which are inline. */
int __underflow(FILE* file);
EXPORT int __fprintf_chk(FILE* restrict file, int flag, const char* restrict format, ...);

/* <stdio.h> may define these names as macros. */
#undef fread_unlocked
#undef fwrite_unlocked

#define IT current_stream(file)

/* A row has the result's type, the function, its parameters, and the arguments for libc's
 * function. */
/* clang-format off */
#define STREAM_CALLS(row)                                                                          \
  row(int, fflush, (FILE* file), (IT))                                                             \
  row(int, fflush_unlocked, (FILE* file), (IT))                                                    \
  row(size_t, fread, (void* restrict to, size_t bytes, size_t count, FILE* restrict file),         \
      (to, bytes, count, IT))                                                                      \
  row(size_t, fread_unlocked, (void* restrict to, size_t bytes, size_t count, FILE* restrict file), \
      (to, bytes, count, IT))                                                                      \
  row(size_t, __fread_chk,                                                                         \
      (void* restrict to, size_t space, size_t bytes, size_t count, FILE* restrict file),          \
      (to, space, bytes, count, IT))                                                               \
  row(size_t, __fread_unlocked_chk,                                                                \
      (void* restrict to, size_t space, size_t bytes, size_t count, FILE* restrict file),          \
      (to, space, bytes, count, IT))                                                               \
  row(size_t, fwrite, (const void* restrict from, size_t bytes, size_t count, FILE* restrict file), \
      (from, bytes, count, IT))                                                                    \
  row(size_t, fwrite_unlocked,                                                                     \
      (const void* restrict from, size_t bytes, size_t count, FILE* restrict file),                \
      (from, bytes, count, IT))                                                                    \
  row(int, fputc, (int c, FILE* file), (c, IT))                                                    \
  row(int, fputc_unlocked, (int c, FILE* file), (c, IT))                                           \
  row(int, putc_unlocked, (int c, FILE* file), (c, IT))                                            \
  row(int, fputs, (const char* restrict text, FILE* restrict file), (text, IT))                    \
  row(int, fputs_unlocked, (const char* restrict text, FILE* restrict file), (text, IT))           \
  row(int, putw, (int word, FILE* file), (word, IT))                                               \
  row(int, getw, (FILE* file), (IT))                                                               \
  row(int, getc, (FILE* file), (IT))                                                               \
  row(int, fgetc, (FILE* file), (IT))                                                              \
  row(int, getc_unlocked, (FILE* file), (IT))                                                      \
  row(int, fgetc_unlocked, (FILE* file), (IT))                                                     \
  row(int, ungetc, (int c, FILE* file), (c, IT))                                                   \
  row(char*, fgets, (char* restrict to, int n, FILE* restrict file), (to, n, IT))                  \
  row(char*, fgets_unlocked, (char* restrict to, int n, FILE* restrict file), (to, n, IT))         \
  row(char*, __fgets_chk, (char* restrict to, size_t space, int n, FILE* restrict file),           \
      (to, space, n, IT))                                                                          \
  row(char*, __fgets_unlocked_chk, (char* restrict to, size_t space, int n, FILE* restrict file),  \
      (to, space, n, IT))                                                                          \
  row(ssize_t, getline, (char** restrict to, size_t* restrict bytes, FILE* restrict file),         \
      (to, bytes, IT))                                                                             \
  row(ssize_t, getdelim, (char** restrict to, size_t* restrict bytes, int end, FILE* restrict file), \
      (to, bytes, end, IT))                                                                        \
  row(int, fseek, (FILE* file, long offset, int whence), (IT, offset, whence))                     \
  row(int, fseeko, (FILE* file, off_t offset, int whence), (IT, offset, whence))                   \
  row(long, ftell, (FILE* file), (IT))                                                             \
  row(off_t, ftello, (FILE* file), (IT))                                                           \
  row(int, fgetpos, (FILE* restrict file, fpos_t* restrict to), (IT, to))                          \
  row(int, fsetpos, (FILE* file, const fpos_t* to), (IT, to))                                      \
  row(int, feof, (FILE* file), (IT))                                                               \
  row(int, feof_unlocked, (FILE* file), (IT))                                                      \
  row(int, ferror, (FILE* file), (IT))                                                             \
  row(int, ferror_unlocked, (FILE* file), (IT))                                                    \
  row(int, setvbuf, (FILE* restrict file, char* restrict buffer, int how, size_t bytes),           \
      (IT, buffer, how, bytes))                                                                    \
  row(int, ftrylockfile, (FILE* file), (IT))                                                       \
  row(int, vfprintf, (FILE* restrict file, const char* restrict format, va_list arguments),        \
      (IT, format, arguments))                                                                     \
  row(int, __vfprintf_chk,                                                                         \
      (FILE* restrict file, int flag, const char* restrict format, va_list arguments),             \
      (IT, flag, format, arguments))                                                               \
  row(size_t, __fbufsize, (FILE* file), (IT))                                                      \
  row(size_t, __fpending, (FILE* file), (IT))                                                      \
  row(int, __flbf, (FILE* file), (IT))                                                             \
  row(int, __freading, (FILE* file), (IT))                                                         \
  row(int, __fwriting, (FILE* file), (IT))                                                         \
  row(int, __freadable, (FILE* file), (IT))                                                        \
  row(int, __fwritable, (FILE* file), (IT))                                                        \
  row(int, __overflow, (FILE* file, int c), (IT, c))                                               \
  row(int, __uflow, (FILE* file), (IT))                                                            \
  row(int, __underflow, (FILE* file), (IT))                                                        \
  row(int, __fsetlocking, (FILE* file, int how), (IT, how))

/* Functions without a result. */
#define STREAM_CHANGES(row)                                                                        \
  row(setbuf, (FILE* restrict file, char* restrict buffer), (IT, buffer))                          \
  row(setbuffer, (FILE* restrict file, char* restrict buffer, size_t bytes), (IT, buffer, bytes))  \
  row(setlinebuf, (FILE* file), (IT))                                                              \
  row(__fpurge, (FILE* file), (IT))                                                                \
  row(rewind, (FILE* file), (IT))                                                                  \
  row(clearerr, (FILE* file), (IT))                                                                \
  row(clearerr_unlocked, (FILE* file), (IT))                                                       \
  row(flockfile, (FILE* file), (IT))                                                               \
  row(funlockfile, (FILE* file), (IT))
/* clang-format on */

#define DEFINE_CALL_OF_STREAM(type, name, parameters, arguments)                                   \
  DECLARE_REAL(name);                                                                              \
  EXPORT type name parameters { return REAL(name) arguments; }
STREAM_CALLS(DEFINE_CALL_OF_STREAM)
#define DEFINE_CHANGE_OF_STREAM(name, parameters, arguments)                                       \
  DECLARE_REAL(name);                                                                              \
  EXPORT void name parameters { REAL(name) arguments; }
STREAM_CHANGES(DEFINE_CHANGE_OF_STREAM)

EXPORT int putc(int c, FILE* file);
ALSO(putc, fputc);
ALSO(fseeko64, fseeko);
ALSO(ftello64, ftello);
EXPORT int fgetpos64(FILE* restrict file, fpos64_t* restrict to) {
  return fgetpos(file, (fpos_t*)to);
}
EXPORT int fsetpos64(FILE* file, const fpos64_t* to) { return fsetpos(file, (const fpos_t*)to); }
EXPORT ssize_t __getdelim(char** to, size_t* bytes, int end, FILE* file);
ALSO(__getdelim, getdelim);

EXPORT int fprintf(FILE* restrict file, const char* restrict format, ...) {
  WITH_ARGUMENTS(vfprintf(file, format, arguments));
}
int __fprintf_chk(FILE* restrict file, int flag, const char* restrict format, ...) {
  WITH_ARGUMENTS(__vfprintf_chk(file, flag, format, arguments));
}

/* Defines the scanning functions of one version of the C language, for which <stdio.h> makes a
 * program call other symbols. */
#define SCANNING(version, symbols)                                                                 \
  EXPORT int version##vfscanf(FILE* restrict, const char* restrict,                                \
                              va_list) __asm__(symbols "vfscanf");                                 \
  EXPORT int version##fscanf(FILE* restrict, const char* restrict, ...) __asm__(symbols "fscanf"); \
  static _Atomic(any_function) real_of_##version;                                                  \
                                                                                                   \
  int version##vfscanf(FILE* restrict file, const char* restrict format, va_list arguments) {      \
    return ((__typeof__(&vfscanf))find_next(&real_of_##version, symbols "vfscanf"))(IT, format,    \
                                                                                    arguments);    \
  }                                                                                                \
  int version##fscanf(FILE* restrict file, const char* restrict format, ...) {                     \
    WITH_ARGUMENTS(version##vfscanf(file, format, arguments));                                     \
  }
SCANNING(c90_, "")
SCANNING(c99_, "__isoc99_")
SCANNING(c23_, "__isoc23_")
EXPORT int __vfscanf(FILE* file, const char* format, va_list arguments);
int __vfscanf(FILE* file, const char* format, va_list arguments) {
  return c90_vfscanf(file, format, arguments);
}

/* ---- error ---- */

DECLARE_REAL(error);
DECLARE_REAL(error_at_line);

/* error() writes stdout first, but only if libc knows the stream's descriptor, so write it here. */
EXPORT void error(int status, int why, const char* format, ...) {
  char* text = NULL;
  va_list arguments;
  va_start(arguments, format);
  const int bytes = vasprintf(&text, format, arguments);
  va_end(arguments);
  (void)fflush(stdout);
  REAL(error)(status, why, "%s", bytes >= 0 ? text : format);
  if (bytes >= 0) free(text);
}
EXPORT void error_at_line(int status, int why, const char* name, unsigned line, const char* format,
                          ...) {
  char* text = NULL;
  va_list arguments;
  va_start(arguments, format);
  const int bytes = vasprintf(&text, format, arguments);
  va_end(arguments);
  (void)fflush(stdout);
  REAL(error_at_line)(status, why, name, line, "%s", bytes >= 0 ? text : format);
  if (bytes >= 0) free(text);
}
