// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* Wide characters for streams that are made by fopencookie(). Libc's functions for wide
 * characters cannot be used for these streams, because they would use buffers that do not exist.
 * For files of the host, the functions of this file convert in the program's locale, and read
 * and write bytes. The encodings of glibc's locales have no shift states. Therefore no state is
 * kept between characters, and fseek() and similar functions need no change. */

DECLARE_REAL(fgetwc);
DECLARE_REAL(fgetws);
DECLARE_REAL(fputwc);
DECLARE_REAL(fputws);
DECLARE_REAL(ungetwc);
DECLARE_REAL(fwide);
DECLARE_REAL(vfwprintf);
DECLARE_REAL(__fgetws_chk);
DECLARE_REAL(__vfwprintf_chk);

/* Functions that a program calls in place of the usual ones if it was compiled with
 * _FORTIFY_SOURCE. <wchar.h> declares some of them only in this case. */
wchar_t* __fgetws_chk(wchar_t* restrict to, size_t places, int n, FILE* restrict file);
wchar_t* __fgetws_unlocked_chk(wchar_t* restrict to, size_t places, int n, FILE* restrict file);
int __fwprintf_chk(FILE* restrict file, int flag, const wchar_t* restrict format, ...);
int __wprintf_chk(int flag, const wchar_t* restrict format, ...);
int __vfwprintf_chk(FILE* restrict file, int flag, const wchar_t* restrict format,
                    va_list arguments);
int __vwprintf_chk(int flag, const wchar_t* restrict format, va_list arguments);

/* ---- orientation ---- */

/* Sets or returns the orientation of a locked stream, like fwide(). */
static int orient(FILE* file, int* orientation, int mode) {
  flockfile(file);
  if (*orientation == 0) *orientation = (mode > 0) - (mode < 0);
  const int is = *orientation;
  funlockfile(file);
  return is;
}

EXPORT int fwide(FILE* file, int mode) {
  FILE* const f = current_stream(file);
  int* const orientation = orientation_of(f);
  return orientation != NULL ? orient(f, orientation, mode) : REAL(fwide)(f, mode);
}

static int become_wide(FILE* file, int* orientation) { return orient(file, orientation, 1) > 0; }

/* ---- reading ---- */

static void set_error(FILE* file, int why) {
  file->_flags |= _IO_ERR_SEEN; /* set the bit that ferror() tests */
  errno = why;
}

/* Reads a character from a locked stream. Returns WEOF at the end of the file and for an error.
 * `why` becomes 0 at the end, and errno for an error. */
static wint_t get(FILE* file, int* why) {
  mbstate_t state = {0};
  *why = 0;
  for (int count = 0;; ++count) {
    const int c = getc_unlocked(file);
    if (c == EOF && count == 0) {
      if (!feof_unlocked(file)) *why = errno;
      return WEOF;
    }
    wchar_t got = 0;
    const char byte = (char)c;
    const size_t converted = c == EOF ? (size_t)-1 : mbrtowc(&got, &byte, 1, &state);
    if (converted == (size_t)-2) continue;
    if (converted != (size_t)-1) return (wint_t)got;
    /* Push the invalid byte back, because the next character may begin with it. */
    if (c != EOF && count > 0) (void)ungetc(c, file);
    *why = EILSEQ;
    set_error(file, *why);
    return WEOF;
  }
}

EXPORT wint_t fgetwc(FILE* file) {
  FILE* const f = current_stream(file);
  int* const orientation = orientation_of(f);
  if (orientation == NULL) return REAL(fgetwc)(f);
  if (!become_wide(f, orientation)) return WEOF;
  flockfile(f);
  int why = 0;
  const wint_t got = get(f, &why);
  funlockfile(f);
  return got;
}
ALSO(getwc, fgetwc);
ALSO(fgetwc_unlocked, fgetwc);
ALSO(getwc_unlocked, fgetwc);

EXPORT wint_t getwchar(void) { return fgetwc(stdin); }
ALSO(getwchar_unlocked, getwchar);

/* Reads a line of at most `n` - 1 characters. The caller's array has space for `places`
 * characters. If the line does not fit into the array, aborts the program, as _FORTIFY_SOURCE
 * requires. */
static wchar_t* get_line(wchar_t* to, size_t places, int n, FILE* file, int* orientation) {
  if (n <= 0 || !become_wide(file, orientation)) return NULL;
  const size_t most = (size_t)n - 1;
  size_t count = 0;
  int why = 0;
  flockfile(file);
  while (count < most) {
    const wint_t got = get(file, &why);
    if (got == WEOF) break;
    if (count == places) abort();
    to[count++] = (wchar_t)got;
    if (got == L'\n') break;
  }
  funlockfile(file);
  if (why != 0 || (count == 0 && most > 0)) return NULL;
  if (count == places) abort();
  to[count] = L'\0';
  return to;
}

EXPORT wchar_t* fgetws(wchar_t* restrict to, int n, FILE* restrict file) {
  FILE* const f = current_stream(file);
  int* const orientation = orientation_of(f);
  return orientation != NULL ? get_line(to, SIZE_MAX, n, f, orientation) : REAL(fgetws)(to, n, f);
}
ALSO(fgetws_unlocked, fgetws);

EXPORT wchar_t* __fgetws_chk(wchar_t* restrict to, size_t places, int n, FILE* restrict file) {
  FILE* const f = current_stream(file);
  int* const orientation = orientation_of(f);
  return orientation != NULL ? get_line(to, places, n, f, orientation)
                             : REAL(__fgetws_chk)(to, places, n, f);
}
ALSO(__fgetws_unlocked_chk, __fgetws_chk);

EXPORT wint_t ungetwc(wint_t c, FILE* file) {
  FILE* const f = current_stream(file);
  int* const orientation = orientation_of(f);
  if (orientation == NULL) return REAL(ungetwc)(c, f);
  if (c == WEOF || !become_wide(f, orientation)) return WEOF;
  char bytes[MB_LEN_MAX];
  mbstate_t state = {0};
  size_t left = wcrtomb(bytes, (wchar_t)c, &state);
  if (left == (size_t)-1) return WEOF;
  flockfile(f);
  while (left > 0 && ungetc((unsigned char)bytes[left - 1], f) != EOF)
    --left;
  funlockfile(f);
  return left == 0 ? c : WEOF;
}

/* ---- writing ---- */

/* Writes characters. Returns 0, or -1 with errno. */
static int put(const wchar_t* text, size_t count, FILE* file, int* orientation) {
  if (!become_wide(file, orientation)) return -1;
  char bytes[4096];
  size_t filled = 0;
  int result = 0;
  flockfile(file);
  for (size_t i = 0; i < count && result == 0; ++i) {
    mbstate_t state = {0};
    const size_t converted = wcrtomb(bytes + filled, text[i], &state);
    if (converted == (size_t)-1) {
      set_error(file, EILSEQ);
      result = -1;
    } else {
      filled += converted;
    }
    if (filled > sizeof bytes - MB_LEN_MAX) {
      if (fwrite(bytes, 1, filled, file) != filled) result = -1;
      filled = 0;
    }
  }
  /* If a character cannot be encoded, still write the characters before it. */
  const int why = errno;
  if (filled > 0 && fwrite(bytes, 1, filled, file) != filled)
    result = -1;
  else
    errno = why;
  funlockfile(file);
  return result;
}

EXPORT wint_t fputwc(wchar_t c, FILE* file) {
  FILE* const f = current_stream(file);
  int* const orientation = orientation_of(f);
  if (orientation == NULL) return REAL(fputwc)(c, f);
  return put(&c, 1, f, orientation) == 0 ? (wint_t)c : WEOF;
}
ALSO(putwc, fputwc);
ALSO(fputwc_unlocked, fputwc);
ALSO(putwc_unlocked, fputwc);

EXPORT wint_t putwchar(wchar_t c) { return fputwc(c, stdout); }
ALSO(putwchar_unlocked, putwchar);

EXPORT int fputws(const wchar_t* restrict text, FILE* restrict file) {
  FILE* const f = current_stream(file);
  int* const orientation = orientation_of(f);
  if (orientation == NULL) return REAL(fputws)(text, f);
  return put(text, wcslen(text), f, orientation) == 0 ? 1 : -1;
}
ALSO(fputws_unlocked, fputws);

/* Formats by libc. `flag` is an argument of the functions for _FORTIFY_SOURCE, and -1 for the other
 * functions. */
static int format_by_libc(FILE* to, int flag, const wchar_t* format, va_list arguments) {
  return flag < 0 ? REAL(vfwprintf)(to, format, arguments)
                  : REAL(__vfwprintf_chk)(to, flag, format, arguments);
}

static int print(FILE* file, int flag, const wchar_t* format, va_list arguments) {
  FILE* const f = current_stream(file);
  int* const orientation = orientation_of(f);
  if (orientation == NULL) return format_by_libc(f, flag, format, arguments);
  wchar_t* text = NULL;
  size_t count = 0;
  FILE* const memory = open_wmemstream(&text, &count);
  if (memory == NULL) return -1;
  int result = format_by_libc(memory, flag, format, arguments);
  int why = errno;
  if (fclose(memory) != 0) {
    why = errno;
    result = -1;
  }
  errno = why;
  if (text != NULL && put(text, count, f, orientation) != 0) result = -1;
  why = errno;
  free(text);
  errno = why;
  return result;
}

EXPORT int vfwprintf(FILE* restrict file, const wchar_t* restrict format, va_list arguments) {
  return print(file, -1, format, arguments);
}
EXPORT int vwprintf(const wchar_t* restrict format, va_list arguments) {
  return print(stdout, -1, format, arguments);
}
EXPORT int fwprintf(FILE* restrict file, const wchar_t* restrict format, ...) {
  WITH_ARGUMENTS(print(file, -1, format, arguments));
}
EXPORT int wprintf(const wchar_t* restrict format, ...) {
  WITH_ARGUMENTS(print(stdout, -1, format, arguments));
}
EXPORT int __vfwprintf_chk(FILE* restrict file, int flag, const wchar_t* restrict format,
                           va_list arguments) {
  return print(file, flag, format, arguments);
}
EXPORT int __vwprintf_chk(int flag, const wchar_t* restrict format, va_list arguments) {
  return print(stdout, flag, format, arguments);
}
EXPORT int __fwprintf_chk(FILE* restrict file, int flag, const wchar_t* restrict format, ...) {
  WITH_ARGUMENTS(print(file, flag, format, arguments));
}
EXPORT int __wprintf_chk(int flag, const wchar_t* restrict format, ...) {
  WITH_ARGUMENTS(print(stdout, flag, format, arguments));
}

/* ---- scanning ---- */

/* If the stream is on a file of the host, sets the stream's error and returns 1, because libc
 * can scan only its own streams. Returns 0 for a stream of libc. */
static int is_not_scanned(FILE* file) {
  if (orientation_of(file) == NULL) return 0;
  flockfile(file);
  set_error(file, ENOTSUP);
  funlockfile(file);
  return 1;
}

/* Defines the scanning functions of one version of the C language. <wchar.h> makes a program
 * call other symbols for each version, because the versions scan differently. */
#define SCANNING(version, symbols)                                                                 \
  EXPORT int version##vfwscanf(FILE* restrict, const wchar_t* restrict,                            \
                               va_list) __asm__(symbols "vfwscanf");                               \
  EXPORT int version##vwscanf(const wchar_t* restrict, va_list) __asm__(symbols "vwscanf");        \
  EXPORT int version##fwscanf(FILE* restrict, const wchar_t* restrict,                             \
                              ...) __asm__(symbols "fwscanf");                                     \
  EXPORT int version##wscanf(const wchar_t* restrict, ...) __asm__(symbols "wscanf");              \
  static _Atomic(any_function) real_of_##version;                                                  \
                                                                                                   \
  int version##vfwscanf(FILE* restrict file, const wchar_t* restrict format, va_list arguments) {  \
    FILE* const f = current_stream(file);                                                          \
    if (is_not_scanned(f)) return EOF;                                                             \
    return ((__typeof__(&vfwscanf))find_next(&real_of_##version, symbols "vfwscanf"))(f, format,   \
                                                                                      arguments);  \
  }                                                                                                \
  int version##vwscanf(const wchar_t* restrict format, va_list arguments) {                        \
    return version##vfwscanf(stdin, format, arguments);                                            \
  }                                                                                                \
  int version##fwscanf(FILE* restrict file, const wchar_t* restrict format, ...) {                 \
    WITH_ARGUMENTS(version##vfwscanf(file, format, arguments));                                    \
  }                                                                                                \
  int version##wscanf(const wchar_t* restrict format, ...) {                                       \
    WITH_ARGUMENTS(version##vfwscanf(stdin, format, arguments));                                   \
  }

SCANNING(c90_, "")
SCANNING(c99_, "__isoc99_")
SCANNING(c23_, "__isoc23_")
