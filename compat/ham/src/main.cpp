// SPDX-License-Identifier: Apache-2.0

// The main() of programs that do not define HAM_EXPLICIT.

#include <ham/offload/offload.hpp>

#include <cstdio>
#include <cstdlib>

// The program defines one of these two functions. They are weak, so that the address of the other
// function is null.
[[gnu::weak]] int ham_user_main(int argc, char* argv[]);
[[gnu::weak]] int ham_user_main();

int ham::offload::ham_main(int argc, char* argv[]) {
  int (*const with_arguments)(int, char*[]) = &ham_user_main;
  int (*const without_arguments)() = &ham_user_main;
  if (with_arguments == nullptr && without_arguments == nullptr) {
    std::fputs("this program has no main() that can be called: write int main(int, char*[]) or int "
               "main(), after #include <ham/offload.hpp>\n",
               stderr);
    return EXIT_FAILURE;
  }
  if (!ham_init(argc, argv)) return 0;
  const int status = with_arguments != nullptr ? with_arguments(argc, argv) : without_arguments();
  ham_finalise();
  return status;
}

int ham::offload::ham_main(int* argc, char** argv[]) { return ham_main(*argc, *argv); }

int main(int argc, char* argv[]) { return ham::offload::ham_main(argc, argv); }
