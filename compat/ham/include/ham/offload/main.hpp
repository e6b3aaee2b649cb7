#pragma once

/// The program's main(): called by one in the library, on the host only.
int ham_user_main(int argc, char* argv[]);

// NOLINTNEXTLINE(readability-identifier-naming): it is the point
#define main ham_user_main
