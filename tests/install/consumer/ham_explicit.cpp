// A program of HAM-Offload's with a main() of its own, built against the installed package.

#include <ham/offload.hpp>

static int answer(int question) { return question * 2; }

int main(int argc, char* argv[]) {
  if (!ham::offload::ham_init(&argc, &argv)) return ham::offload::ham_finalise();
  const int got = ham::offload::sync(1, f2f(&answer, 21));
  ham::offload::ham_finalise();
  return got == 42 ? 0 : 1;
}
