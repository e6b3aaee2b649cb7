// SPDX-License-Identifier: Apache-2.0

// A main() with a signature that the library cannot call.

#include <ham/offload/main.hpp>

int main(int /*argc*/, const char* /*argv*/[]) { return 0; }
