// SPDX-License-Identifier: Apache-2.0
#include <farcall/trace/archive_module.h>

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include <otf2/otf2.h>

/// Module that writes timelines with the library of the Open Trace Format (OTF2).
namespace {

using archive_event = farcall_archive_event;

void check(OTF2_ErrorCode code, const char* doing) {
  if (code == OTF2_SUCCESS) return;
  throw std::runtime_error(std::string(doing) + ": " + OTF2_Error_GetDescription(code));
}

OTF2_FlushType flush(void* /*data*/, OTF2_FileType /*file*/, OTF2_LocationRef /*location*/,
                     void* /*caller*/, bool /*final*/) {
  return OTF2_FLUSH;
}

/// Keeps the OTF2 library from printing errors to standard error, because farcall reports them.
OTF2_ErrorCode say_nothing(void* /*data*/, const char* /*file*/, std::uint64_t /*line*/,
                           const char* /*function*/, OTF2_ErrorCode code, const char* /*format*/,
                           va_list /*values*/) {
  return code;
}

OTF2_RegionRole role_of(std::uint32_t role) {
  switch (role) {
  case 0:
    return OTF2_REGION_ROLE_POINT2POINT;
  case 1:
    return OTF2_REGION_ROLE_FUNCTION;
  case 2:
    return OTF2_REGION_ROLE_TASK_WAIT;
  case 3:
    return OTF2_REGION_ROLE_DATA_TRANSFER;
  default:
    return OTF2_REGION_ROLE_CODE;
  }
}

class archive_writer {
 public:
  archive_writer(const farcall_archive& from, const char* folder, const char* name) : from_(from) {
    constexpr std::uint64_t events_chunk = 1 << 20;
    constexpr std::uint64_t definitions_chunk = 1 << 22;
    archive_ = OTF2_Archive_Open(folder, name, OTF2_FILEMODE_WRITE, events_chunk, definitions_chunk,
                                 OTF2_SUBSTRATE_POSIX, OTF2_COMPRESSION_NONE);
    if (archive_ == nullptr) throw std::runtime_error("the archive cannot be made");
  }
  archive_writer(const archive_writer&) = delete;
  archive_writer& operator=(const archive_writer&) = delete;
  ~archive_writer() {
    if (archive_ != nullptr) OTF2_Archive_Close(archive_);
  }

  void write() {
    static const OTF2_FlushCallbacks callbacks{.otf2_pre_flush = flush, .otf2_post_flush = nullptr};
    check(OTF2_Archive_SetFlushCallbacks(archive_, &callbacks, nullptr), "preparing");
    check(OTF2_Archive_SetSerialCollectiveCallbacks(archive_), "preparing");
    check(OTF2_Archive_SetCreator(archive_, "farcall"), "preparing");
    check(OTF2_Archive_OpenEvtFiles(archive_), "making the files of events");
    for (std::size_t i = 0; i < from_.location_count; ++i)
      write_events(i);
    check(OTF2_Archive_CloseEvtFiles(archive_), "writing events");
    // Write a file of definitions for each location, even if it is empty, because readers of
    // archives need these files.
    check(OTF2_Archive_OpenDefFiles(archive_), "making the files of definitions");
    for (std::size_t i = 0; i < from_.location_count; ++i) {
      OTF2_DefWriter* const empty = OTF2_Archive_GetDefWriter(archive_, i);
      if (empty == nullptr) throw std::runtime_error("a file of definitions cannot be made");
      check(OTF2_Archive_CloseDefWriter(archive_, empty), "writing definitions");
    }
    check(OTF2_Archive_CloseDefFiles(archive_), "writing definitions");
    write_definitions();
    OTF2_Archive* const done = archive_;
    archive_ = nullptr;
    check(OTF2_Archive_Close(done), "writing the archive");
  }

 private:
  static constexpr OTF2_CommRef all_threads = 0;

  void write_events(std::size_t location) {
    const farcall_archive_location& of = from_.locations[location];
    OTF2_EvtWriter* const to = OTF2_Archive_GetEvtWriter(archive_, location);
    if (to == nullptr) throw std::runtime_error("a file of events cannot be made");
    for (std::size_t i = 0; i < of.count; ++i)
      check(write_event(to, of.events[i]), "writing events");
    check(OTF2_Archive_CloseEvtWriter(archive_, to), "writing events");
  }

  static OTF2_ErrorCode write_event(OTF2_EvtWriter* to, const archive_event& e) {
    switch (e.type) {
    case 0:
      return OTF2_EvtWriter_Enter(to, nullptr, e.ns, e.region);
    case 1:
      return OTF2_EvtWriter_Leave(to, nullptr, e.ns, e.region);
    case 2:
      return OTF2_EvtWriter_MpiSend(to, nullptr, e.ns, e.peer, all_threads, e.tag, 0);
    default:
      return OTF2_EvtWriter_MpiRecv(to, nullptr, e.ns, e.peer, all_threads, e.tag, 0);
    }
  }

  [[nodiscard]] OTF2_StringRef text(const std::string& value) {
    const auto next = static_cast<OTF2_StringRef>(texts_.size());
    const auto [at, is_new] = texts_.try_emplace(value, next);
    if (is_new)
      check(OTF2_GlobalDefWriter_WriteString(definitions_, next, value.c_str()), "writing names");
    return at->second;
  }

  void write_definitions() {
    definitions_ = OTF2_Archive_GetGlobalDefWriter(archive_);
    if (definitions_ == nullptr) throw std::runtime_error("the definitions cannot be made");
    constexpr const char* doing = "writing definitions";
    constexpr std::uint64_t ns_per_second = 1'000'000'000;
    check(OTF2_GlobalDefWriter_WriteClockProperties(definitions_, ns_per_second, 0,
                                                    from_.length_ns + 1, OTF2_UNDEFINED_TIMESTAMP),
          doing);
    const OTF2_StringRef none = text("");
    check(OTF2_GlobalDefWriter_WriteSystemTreeNode(definitions_, 0, text("job"), text("job"),
                                                   OTF2_UNDEFINED_SYSTEM_TREE_NODE),
          doing);
    for (std::size_t i = 0; i < from_.process_count; ++i) {
      check(OTF2_GlobalDefWriter_WriteLocationGroup(
                definitions_, static_cast<OTF2_LocationGroupRef>(i), text(from_.processes[i]),
                OTF2_LOCATION_GROUP_TYPE_PROCESS, 0, OTF2_UNDEFINED_LOCATION_GROUP),
            doing);
    }
    std::vector<std::uint64_t> members;
    for (std::size_t i = 0; i < from_.location_count; ++i) {
      const farcall_archive_location& of = from_.locations[i];
      check(OTF2_GlobalDefWriter_WriteLocation(definitions_, i, text(of.name),
                                               OTF2_LOCATION_TYPE_CPU_THREAD, of.count,
                                               static_cast<OTF2_LocationGroupRef>(of.process)),
            doing);
      members.push_back(i);
    }
    for (std::size_t i = 0; i < from_.region_count; ++i) {
      const OTF2_StringRef name = text(from_.regions[i].name);
      check(OTF2_GlobalDefWriter_WriteRegion(definitions_, static_cast<OTF2_RegionRef>(i), name,
                                             name, none, role_of(from_.regions[i].role),
                                             OTF2_PARADIGM_USER, OTF2_REGION_FLAG_NONE, none, 0, 0),
            doing);
    }
    // Make one communicator that has all threads as members, because messages are sent between
    // threads.
    const auto count = static_cast<std::uint32_t>(members.size());
    check(OTF2_GlobalDefWriter_WriteGroup(definitions_, 0, none, OTF2_GROUP_TYPE_COMM_LOCATIONS,
                                          OTF2_PARADIGM_MPI, OTF2_GROUP_FLAG_NONE, count,
                                          members.data()),
          doing);
    check(OTF2_GlobalDefWriter_WriteGroup(definitions_, 1, text("threads"),
                                          OTF2_GROUP_TYPE_COMM_GROUP, OTF2_PARADIGM_MPI,
                                          OTF2_GROUP_FLAG_NONE, count, members.data()),
          doing);
    check(OTF2_GlobalDefWriter_WriteComm(definitions_, all_threads, text("threads"), 1,
                                         OTF2_UNDEFINED_COMM, OTF2_COMM_FLAG_NONE),
          doing);
  }

  const farcall_archive& from_;
  OTF2_Archive* archive_ = nullptr;
  OTF2_GlobalDefWriter* definitions_ = nullptr;
  std::unordered_map<std::string, OTF2_StringRef> texts_;
};

} // namespace

extern "C" __attribute__((visibility("default"))) const char*
FARCALL_ARCHIVE_WRITER(const farcall_archive* from, const char* folder, const char* name) {
  static thread_local std::string why;
  OTF2_Error_RegisterCallback(say_nothing, nullptr);
  try {
    archive_writer(*from, folder, name).write();
    return nullptr;
  } catch (const std::exception& e) {
    why = e.what();
    return why.c_str();
  }
}
