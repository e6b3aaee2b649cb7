#pragma once

/// The program's main(), in one of its two forms: called by one in the library, on the host only.
/// Unlike main() by that name, it needs a return at its end.
[[gnu::visibility("default")]] int ham_user_main(int argc, char* argv[]);
[[gnu::visibility("default")]] int ham_user_main();

// NOLINTNEXTLINE(readability-identifier-naming): it is the point
#define main ham_user_main
