// SPDX-License-Identifier: Apache-2.0
#include "handles.hpp"
#include "nodes.hpp"
#include "processes.hpp"

#include <farcall_veo.h>

/// veo_*: processes and libraries.
namespace {

using namespace farcall::veo;

#ifndef FARCALL_VERSION_TEXT
#define FARCALL_VERSION_TEXT "0"
#endif
constexpr const char* version_text = "farcall " FARCALL_VERSION_TEXT;

} // namespace

extern "C" {

int veo_api_version(void) { return VEO_API_VERSION; }

const char* veo_version_string(void) { return version_text; }

const char* farcall_veo_last_error(void) { return last_error(); }

veo_proc_handle* veo_proc_create(int venode) {
  return guarded<veo_proc_handle*>(nullptr, [&] { return handle_of(create_process(venode, "")); });
}

veo_proc_handle* veo_proc_create_static(int venode, const char* veobin) {
  return guarded<veo_proc_handle*>(nullptr, [&] {
    if (veobin == nullptr) throw invalid_argument("veo_proc_create_static: the program is NULL");
    if (*veobin == '\0') throw invalid_argument("veo_proc_create_static: the program is empty");
    return handle_of(create_process(venode, veobin));
  });
}

int veo_proc_destroy(veo_proc_handle* proc) {
  // Return 0 also after an error, because programs expect 0. farcall_veo_last_error() returns the
  // reason of the error.
  return guarded(0, [&] {
    destroy_process(named_by(proc));
    return 0;
  });
}

int veo_proc_identifier(veo_proc_handle* proc) {
  return identifier_of(reinterpret_cast<const process*>(proc));
}

int veo_get_ve_arch(int venode) {
  return guarded(0, [&] { return choose_node(venode) >= 0 ? 1 : 0; });
}

uint64_t veo_load_library(veo_proc_handle* proc, const char* libname) {
  return guarded<uint64_t>(0, [&]() -> uint64_t {
    if (libname == nullptr) throw invalid_argument("veo_load_library: the name is NULL");
    if (std::string_view(libname).size() > VEO_SYMNAME_LEN_MAX) {
      report_error("veo_load_library: the name is longer than " +
                   std::to_string(VEO_SYMNAME_LEN_MAX) + " characters");
      errno = ENAMETOOLONG;
      return 0;
    }
    return behind(proc).load(libname);
  });
}

int veo_unload_library(veo_proc_handle* proc, const uint64_t libhdl) {
  return guarded(-1, [&] {
    behind(proc).unload(libhdl);
    return 0;
  });
}

uint64_t veo_get_sym(veo_proc_handle* proc, uint64_t libhdl, const char* symname) {
  return guarded<uint64_t>(0, [&]() -> uint64_t {
    if (symname == nullptr) throw invalid_argument("veo_get_sym: the name is NULL");
    if (std::string_view(symname).size() > VEO_SYMNAME_LEN_MAX) {
      report_error("veo_get_sym: the name is longer than " + std::to_string(VEO_SYMNAME_LEN_MAX) +
                   " characters");
      errno = ENAMETOOLONG;
      return 0;
    }
    return behind(proc).symbol(libhdl, symname);
  });
}
}
