// SPDX-License-Identifier: Apache-2.0

// Functions of the AM-2 interface for jobs, as declared in am2.h and ammpi_spmd.h.
#include "errors.hpp"
#include "spmd.hpp"

#include <am2.h>

#include <cstddef>
#include <cstdint>

using farcall::am2::spmd;

namespace {

/// Error texts of the functions that need a job.
const char* const no_job = "the job has not been started";
const char* const lost = "a process of the job has ended";
const char* const in_handler = "handlers may not wait";

bool may_wait() noexcept { return farcall::am2::process::thread().running == 0; }

} // namespace

int AM2_SPMDStartup(int* argc, char*** argv, int networkdepth, uint64_t* networkpid, eb_t* eb,
                    ep_t* ep) {
  AM2_REQUIRE(argc != nullptr && argv != nullptr, AM_ERR_BAD_ARG, "argc or argv is NULL");
  return spmd::instance().start({.argc = argc,
                                 .argv = argv,
                                 .depth = networkdepth,
                                 .job_number = networkpid,
                                 .bundle = eb,
                                 .endpoint = ep,
                                 .depth_variable = "AMMPI_NETWORKDEPTH"});
}

int AM2_SPMDIsWorker(char** /*argv*/) { return 1; }

int AMX_SPMDBarrier() {
  AM2_REQUIRE(spmd::instance().has_started(), AM_ERR_NOT_INIT, no_job);
  AM2_REQUIRE(may_wait(), AM_ERR_RESOURCE, in_handler);
  AM2_REQUIRE(spmd::instance().barrier(), AM_ERR_RESOURCE, lost);
  return AM_OK;
}

int AMX_SPMDAllGather(void* source, void* dest, size_t len) {
  AM2_REQUIRE(spmd::instance().has_started(), AM_ERR_NOT_INIT, no_job);
  AM2_REQUIRE(may_wait(), AM_ERR_RESOURCE, in_handler);
  AM2_REQUIRE(source != nullptr && dest != nullptr, AM_ERR_BAD_ARG, "source or dest is NULL");
  AM2_REQUIRE(len <= PTRDIFF_MAX / static_cast<std::size_t>(spmd::instance().size()),
              AM_ERR_BAD_ARG, "the bytes of all processes exceed any memory");
  AM2_REQUIRE(spmd::instance().all_gather(source, dest, len), AM_ERR_RESOURCE, lost);
  return AM_OK;
}

int AMX_SPMDBroadcast(void* buf, size_t len, int root) {
  AM2_REQUIRE(spmd::instance().has_started(), AM_ERR_NOT_INIT, no_job);
  AM2_REQUIRE(may_wait(), AM_ERR_RESOURCE, in_handler);
  AM2_REQUIRE(buf != nullptr && root >= 0 && root < spmd::instance().size(), AM_ERR_BAD_ARG,
              "buf is NULL, or there is no such process");
  AM2_REQUIRE(spmd::instance().broadcast(buf, len, root), AM_ERR_RESOURCE, lost);
  return AM_OK;
}

int AMX_SPMDExit(int exitcode) { spmd::instance().exit(exitcode); }

int AMX_SPMDNumProcs() {
  AM2_REQUIRE(spmd::instance().has_started(), -1, no_job);
  return spmd::instance().size();
}

int AMX_SPMDMyProc() {
  AM2_REQUIRE(spmd::instance().has_started(), -1, no_job);
  return spmd::instance().rank();
}

int AMX_SPMDSetExitCallback(void (*function)(int)) {
  spmd::instance().set_exit_callback(function);
  return AM_OK;
}

const char* AMX_SPMDgetenvMaster(const char* key) {
  return key == nullptr ? nullptr : spmd::instance().variable_of_master(key);
}

extern "C" {

// NOLINTBEGIN(readability-identifier-naming): names of AMMPI, whose headers are not included here.
AM2_API int AMMPI_SetEndpointCommunicator(void* /*communicator*/) { return AM_OK; }

AM2_API int AMMPI_SPMDSetThreadMode(int threads, const char** provided, int* /*argc*/,
                                    char*** /*argv*/) {
  if (threads != 0) spmd::instance().use_threads();
  if (provided != nullptr) *provided = threads != 0 ? "MPI_THREAD_MULTIPLE" : "MPI_THREAD_SINGLE";
  return 1;
}
// NOLINTEND(readability-identifier-naming)
}
