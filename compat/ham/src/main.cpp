// The main() of programs that do not define HAM_EXPLICIT.

#include <ham/offload/offload.hpp>

int ham_user_main(int argc, char* argv[]);

int ham::offload::ham_main(int* argc, char* argv[]) {
  if (!ham_init(argc, argv)) return 0;
  const int status = ham_user_main(*argc, argv);
  ham_finalise();
  return status;
}

int main(int argc, char* argv[]) { return ham::offload::ham_main(&argc, argv); }
