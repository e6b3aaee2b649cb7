// A main() that nothing can call.

#include <ham/offload/main.hpp>

int main(int /*argc*/, const char* /*argv*/[]) { return 0; }
