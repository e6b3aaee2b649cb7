// expect: a raw pointer cannot travel.*std::string_view
// names: cannot_travel<const char ?\*>
#include <farcall/call/pack.hpp>

const char* f(farcall::reader& r) { return r.read<const char*>(); }
