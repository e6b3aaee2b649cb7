// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Declarations of the two forms of a program's main(), which the macro below renames to
/// ham_user_main(). The program defines one form. The library defines the real main(), which calls
/// the program's function on the host only. The program's function must end with a return
/// statement, because C++ lets programs omit it only in the real main().
[[gnu::visibility("default")]] int ham_user_main(int argc, char* argv[]);
[[gnu::visibility("default")]] int ham_user_main();

// NOLINTNEXTLINE(readability-identifier-naming): it is the point
#define main ham_user_main
