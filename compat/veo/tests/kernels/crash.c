/* A library that cannot be loaded: the loader calls this, with its lock held. */
static int* volatile nowhere;

__attribute__((constructor)) static void write_nowhere(void) { *nowhere = 1; }
