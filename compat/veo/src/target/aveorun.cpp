// SPDX-License-Identifier: Apache-2.0
#include "helper_process.hpp"
#include "source_lines.hpp"

#include <farcall/base/error.hpp>
#include <farcall/offload/job.hpp>

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

constexpr const char* help_text =
    R"(aveorun: runs the kernels of a program that uses libveo

usage: aveorun [--help | --version]

libveo starts it, by itself or by way of 'farcall serve', once per process handle. VEORUN_BIN names
another helper program, for example one made by mk_veorun_static.
)";

} // namespace

// Kernels for benchmarks that measure the cost of a call.
extern "C" std::uint64_t farcall_veo_successor(std::uint64_t value) { return value + 1; }
extern "C" void farcall_veo_nothing() {}

int main(int argc, char** argv) {
  if (farcall::veo::is_for_source_lines(argc, argv)) return 0;
  farcall::veo::helper_process helper;
  if (farcall::serve_as_target()) return 0;
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    std::puts("aveorun (farcall " FARCALL_VERSION_TEXT ")");
    return 0;
  }
  const bool asked = argc == 2 && std::strcmp(argv[1], "--help") == 0;
  std::fputs(help_text, asked ? stdout : stderr);
  if (asked) return 0;
  std::fputs("\naveorun: nobody has started this as a helper; run a program that uses libveo\n",
             stderr);
  return 2;
}
