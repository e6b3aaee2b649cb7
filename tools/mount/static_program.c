// SPDX-License-Identifier: Apache-2.0

/* Program that is linked statically: copies a file to its standard output. */
#include <fcntl.h>
#include <unistd.h>

int main(int argc, char** argv) {
  char text[4096];
  const int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;
  const ssize_t got = read(fd, text, sizeof text);
  return got > 0 && write(STDOUT_FILENO, text, (size_t)got) == got ? 0 : 1;
}
