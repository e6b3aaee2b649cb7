/// A library that the profiled program loads and closes again.
extern "C" unsigned long library_work(unsigned long turns) {
  unsigned long value = turns;
  for (unsigned long i = 0; i < turns; ++i) {
    value = value * 6364136223846793005U + 1;
    asm volatile("" : "+r"(value));
  }
  return value;
}
