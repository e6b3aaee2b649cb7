#include "io.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* Streams of fopencookie() have no wide characters: libc's functions would use buffers that are not
 * there. On files of the host these functions convert, in the program's locale, and read and write
 * bytes. The encodings of glibc's locales have no shift states, so that nothing is to be kept
 * between characters, and fseek() and the like need not know. */

DECLARE_REAL(fgetwc);
DECLARE_REAL(fgetws);
DECLARE_REAL(fputwc);
DECLARE_REAL(fputws);
DECLARE_REAL(ungetwc);
DECLARE_REAL(fwide);
DECLARE_REAL(vfwprintf);
DECLARE_REAL(__fgetws_chk);
DECLARE_REAL(__vfwprintf_chk);

/* What a program calls that was compiled with _FORTIFY_SOURCE; <wchar.h> declares some of it only
 * then. */
wchar_t* __fgetws_chk(wchar_t* restrict to, size_t places, int n, FILE* restrict file);
wchar_t* __fgetws_unlocked_chk(wchar_t* restrict to, size_t places, int n, FILE* restrict file);
int __fwprintf_chk(FILE* restrict file, int flag, const wchar_t* restrict format, ...);
int __wprintf_chk(int flag, const wchar_t* restrict format, ...);
int __vfwprintf_chk(FILE* restrict file, int flag, const wchar_t* restrict format,
                    va_list arguments);
int __vwprintf_chk(int flag, const wchar_t* restrict format, va_list arguments);

/* ---- orientation ---- */

/* As of fwide(), with the stream locked. */
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
  file->_flags |= _IO_ERR_SEEN; /* as ferror() is defined in libc's headers */
  errno = why;
}

/* WEOF: `why` is 0 at the end of the file, or else errno. */
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
    /* It may begin a character. */
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

/* `places` are there; who asks for more than that, and gets it, is ended. */
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

/* 0, or -1 and errno. */
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
  /* What comes before a character that there is no encoding of is written. */
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

/* `flag` is that of the functions for _FORTIFY_SOURCE; -1: another one was called. */
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

/* The arguments behind `format`, in a va_list, for the call that is `result`. */
#define WITH_ARGUMENTS(call)                                                                       \
  va_list arguments;                                                                               \
  va_start(arguments, format);                                                                     \
  const int result = call;                                                                         \
  va_end(arguments);                                                                               \
  return result

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

/* libc scans its own streams only. 0: this is one. */
static int is_not_scanned(FILE* file) {
  if (orientation_of(file) == NULL) return 0;
  flockfile(file);
  set_error(file, ENOTSUP);
  funlockfile(file);
  return 1;
}

/* The functions of one version of C: <wchar.h> gives programs theirs, by these symbols. */
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
