// expect: a reference cannot travel.*by value or by const T&
// names: cannot_travel<double ?&>
#include <farcall/call/pack.hpp>

void f() { farcall::require_travel<int, double&>(); }
