/* SPDX-License-Identifier: Apache-2.0 */
#include "ftrace_symbols.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef ElfW(Ehdr) file_header;
typedef ElfW(Shdr) section_header;
typedef ElfW(Sym) symbol;

/* A file mapped into memory. */
struct image {
  const char* data;
  size_t size;
};

/* Returns a pointer to a part of the mapped file; NULL if the part exceeds the file. */
static const void* part(const struct image* image, uint64_t offset, uint64_t size) {
  return offset <= image->size && size <= image->size - offset ? image->data + offset : NULL;
}

/* Returns the name of the function at `address` from one symbol table of the file; NULL if the
 * table has none. */
static const char* find_in(const struct image* image, const section_header* table,
                           const section_header* names, uint64_t address) {
  const symbol* symbols = part(image, table->sh_offset, table->sh_size);
  const char* text = part(image, names->sh_offset, names->sh_size);
  if (symbols == NULL || text == NULL || names->sh_size == 0 || text[names->sh_size - 1] != 0) {
    return NULL;
  }
  for (size_t i = 0; i < table->sh_size / sizeof *symbols; ++i) {
    if (ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC && symbols[i].st_value == address &&
        symbols[i].st_name < names->sh_size) {
      return text + symbols[i].st_name;
    }
  }
  return NULL;
}

/* Returns the name of a function from the file's symbol tables. In programs that are linked to
 * fixed addresses, the addresses of symbols are absolute. */
static const char* find(const struct image* image, uintptr_t function, uintptr_t base) {
  const file_header* header = part(image, 0, sizeof *header);
  if (header == NULL || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) {
    return NULL;
  }
  const uint64_t address = header->e_type == ET_EXEC ? function : function - base;
  const section_header* sections =
      part(image, header->e_shoff, (uint64_t)header->e_shnum * sizeof *sections);
  for (unsigned i = 0; sections != NULL && i < header->e_shnum; ++i) {
    if (sections[i].sh_type == SHT_SYMTAB && sections[i].sh_link < header->e_shnum) {
      return find_in(image, &sections[i], &sections[sections[i].sh_link], address);
    }
  }
  return NULL;
}

/* Returns the name of a function that is not exported, from the symbol table of its file. */
static char* local_name(const char* path, uintptr_t function, uintptr_t base) {
  struct stat status;
  char* name = NULL;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return NULL;
  }
  if (fstat(file, &status) == 0 && status.st_size > 0) {
    const size_t size = (size_t)status.st_size;
    void* data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data != MAP_FAILED) {
      const struct image image = {data, size};
      const char* found = find(&image, function, base);
      name = found == NULL ? NULL : strdup(found);
      munmap(data, size);
    }
  }
  close(file);
  return name;
}

char* farcall_veo_name_of(uintptr_t function) {
  Dl_info info;
  char text[PATH_MAX + 32];
  if (dladdr((void*)function, &info) == 0) {
    (void)snprintf(text, sizeof text, "0x%llx", (unsigned long long)function);
    return strdup(text);
  }
  if (info.dli_sname != NULL && info.dli_saddr == (void*)function) {
    return strdup(info.dli_sname);
  }
  const uintptr_t base = (uintptr_t)info.dli_fbase;
  char* name = local_name(info.dli_fname, function, base);
  if (name != NULL) {
    return name;
  }
  const char* slash = strrchr(info.dli_fname, '/');
  (void)snprintf(text, sizeof text, "%s+0x%llx", slash == NULL ? info.dli_fname : slash + 1,
                 (unsigned long long)(function - base));
  return strdup(text);
}
