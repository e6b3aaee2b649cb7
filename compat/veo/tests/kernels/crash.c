/* SPDX-License-Identifier: Apache-2.0 */

/* A library whose constructor crashes while the loader holds its lock. */
static int* volatile nowhere;

__attribute__((constructor)) static void write_nowhere(void) { *nowhere = 1; }
