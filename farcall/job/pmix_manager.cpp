// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/job/pmix_manager.hpp>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include <dlfcn.h>
#include <pmix.h>

namespace farcall {
namespace {

/// File name of the PMIx library, the same in all versions since 2.
constexpr const char* library_name = "libpmix.so.2";

/// The functions of libpmix.
struct pmix_library {
  decltype(&PMIx_Init) init = nullptr;
  decltype(&PMIx_Finalize) finalize = nullptr;
  decltype(&PMIx_Get_version) version = nullptr;
  decltype(&PMIx_Error_string) error_string = nullptr;
  decltype(&PMIx_Put) put = nullptr;
  decltype(&PMIx_Commit) commit = nullptr;
  decltype(&PMIx_Fence_nb) fence = nullptr;
  decltype(&PMIx_Get_nb) get = nullptr;
  decltype(&PMIx_Abort) abort = nullptr;
  decltype(&PMIx_Register_event_handler) on_event = nullptr;

  /// Loads the library. It is never unloaded, because threads of the library run in its code.
  static pmix_library load() {
    void* const file = ::dlopen(library_name, RTLD_NOW | RTLD_GLOBAL);
    if (file == nullptr) {
      const char* const why = ::dlerror();
      throw error(std::string("the library of PMIx, by which it was started, cannot be loaded: ") +
                  (why == nullptr ? library_name : why) +
                  "; install it, have LD_LIBRARY_PATH name its folder, or set "
                  "FARCALL_PROCESS_MANAGER=none to have each process make a job of its own");
    }
    pmix_library all;
    const auto find = [file](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(file, name));
      if (function == nullptr) {
        throw error(std::string(library_name) + " has no " + name +
                    ", so it is another library than that of PMIx; have LD_LIBRARY_PATH name the "
                    "folder of the right one, or set FARCALL_PROCESS_MANAGER=none to have each "
                    "process make a job of its own");
      }
    };
    find(all.init, "PMIx_Init");
    find(all.finalize, "PMIx_Finalize");
    find(all.version, "PMIx_Get_version");
    find(all.error_string, "PMIx_Error_string");
    find(all.put, "PMIx_Put");
    find(all.commit, "PMIx_Commit");
    find(all.fence, "PMIx_Fence_nb");
    find(all.get, "PMIx_Get_nb");
    find(all.abort, "PMIx_Abort");
    find(all.on_event, "PMIx_Register_event_handler");
    return all;
  }
};

/// Result of a PMIx operation. A thread of the PMIx library stores the result, perhaps after the
/// caller has stopped waiting for it.
class outcome {
 public:
  struct result {
    pmix_status_t status = PMIX_SUCCESS;
    std::string bytes;
    std::uint32_t number = 0;
  };

  void set(result brought) {
    {
      const std::lock_guard guard(mutex_);
      result_ = std::move(brought);
      is_there_ = true;
    }
    there_.notify_all();
  }
  /// Waits until the result is set. Throws timeout.
  result wait(const char* what, time_point deadline) {
    std::unique_lock guard(mutex_);
    const auto is_there = [this] { return is_there_; };
    if (deadline == no_deadline) {
      there_.wait(guard, is_there);
    } else if (!there_.wait_until(guard, deadline, is_there)) {
      throw timeout(std::string(what) + " has not ended in time");
    }
    return result_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable there_;
  bool is_there_ = false;
  result result_;
};

/// A reference by which PMIx keeps an outcome alive. PMIx gets it when an operation begins, and
/// passes it back once, when the operation ends.
using held = std::shared_ptr<outcome>;
void* hold(const held& of) { return new held(of); }
held reclaim(void* holding) {
  const std::unique_ptr<held> owned(static_cast<held*>(holding));
  return *owned;
}

extern "C" void farcall_pmix_done(pmix_status_t status, void* holding) {
  reclaim(holding)->set({status, {}, 0});
}

extern "C" void farcall_pmix_got(pmix_status_t status, pmix_value_t* value, void* holding) {
  outcome::result r{status, {}, 0};
  if (status == PMIX_SUCCESS && value != nullptr) {
    switch (value->type) {
    case PMIX_BYTE_OBJECT:
      if (value->data.bo.bytes != nullptr)
        r.bytes.assign(value->data.bo.bytes, value->data.bo.size);
      break;
    case PMIX_UINT32:
      r.number = value->data.uint32;
      break;
    default:
      r.status = PMIX_ERR_TYPE_MISMATCH;
    }
  }
  reclaim(holding)->set(std::move(r));
}

/// State of the event handler, which the PMIx library calls when a process is lost. The state is
/// global, because PMIx passes no pointer from the caller on to event handlers. One state is
/// enough, because a process has one process manager.
struct loss_handler {
  std::mutex mutex;
  std::string nspace;
  std::function<void(node_id, const std::string&)> lost;
};
loss_handler& losses() {
  // The object is never destroyed, because the thread of the PMIx library may use it until the
  // process ends.
  static auto* const all = new loss_handler;
  return *all;
}

const char* text_of_end(pmix_status_t status) noexcept {
  switch (status) {
  case PMIX_ERR_PROC_ABORTED_BY_SIG:
    return "was killed by a signal";
  case PMIX_ERR_PROC_TERM_WO_SYNC:
    return "ended without leaving the job";
  case PMIX_ERR_EXIT_NONZERO_TERM:
    return "exited with a status that is not zero";
  case PMIX_ERR_PROC_KILLED_BY_CMD:
    return "was killed by its process manager";
  default:
    return "has ended";
  }
}

extern "C" void farcall_pmix_event(size_t /*handler*/, pmix_status_t status,
                                   const pmix_proc_t* source, pmix_info_t info[], size_t infos,
                                   pmix_info_t* /*results*/, size_t /*result_count*/,
                                   pmix_event_notification_cbfunc_fn_t done, void* data) {
  const pmix_proc_t* who = source;
  for (size_t i = 0; i < infos; ++i) {
    if (std::strncmp(info[i].key, PMIX_EVENT_AFFECTED_PROC, PMIX_MAX_KEYLEN) == 0 &&
        info[i].value.type == PMIX_PROC) {
      who = info[i].value.data.proc;
    }
  }
  {
    loss_handler& all = losses();
    const std::lock_guard guard(all.mutex);
    if (who != nullptr && all.lost &&
        std::strncmp(who->nspace, all.nspace.c_str(), PMIX_MAX_NSLEN) == 0) {
      all.lost(who->rank, std::string(text_of_end(status)) + ", as PMIx says");
    }
  }
  if (done != nullptr) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, data);
}

class pmix_manager final : public process_manager {
 public:
  pmix_manager() : pmix_(pmix_library::load()) {
    require(pmix_.init(&self_, nullptr, 0), "joining PMIx");
    try {
      pmix_proc_t all = self_;
      all.rank = PMIX_RANK_WILDCARD;
      size_ = fetch(all, PMIX_JOB_SIZE, no_deadline).number;
      if (self_.rank >= size_) throw error("PMIx numbers this process beyond the size of its job");
    } catch (...) {
      pmix_.finalize(nullptr, 0);
      throw;
    }
  }
  ~pmix_manager() override { finalize(); }

  std::string name() const override {
    // The text has the form "OpenPMIx 4.2.2 (PMIx Standard: 4.1, …". Take the part before the
    // bracket.
    const std::string text = pmix_.version();
    const std::string name = text.substr(0, text.find_first_of(",("));
    return name.substr(0, name.find_last_not_of(' ') + 1);
  }
  node_id rank() const noexcept override { return self_.rank; }
  std::uint32_t size() const noexcept override { return size_; }

  void put(const std::string& key, const std::string& value) override {
    pmix_value_t v;
    std::memset(&v, 0, sizeof v);
    v.type = PMIX_BYTE_OBJECT;
    // PMIx copies it.
    v.data.bo.bytes = const_cast<char*>(value.data());
    v.data.bo.size = value.size();
    require(pmix_.put(PMIX_GLOBAL, key.c_str(), &v), "telling PMIx something");
    require(pmix_.commit(), "telling PMIx something");
  }

  void fence(time_point deadline) override {
    const auto brought = std::make_shared<outcome>();
    void* const holding = hold(brought);
    const pmix_status_t begun = pmix_.fence(nullptr, 0, nullptr, 0, &farcall_pmix_done, holding);
    if (!has_begun(begun, holding)) return;
    require(brought->wait("a fence of PMIx", deadline).status, "a fence of PMIx");
  }

  std::string get(node_id from, const std::string& key, time_point deadline) override {
    pmix_proc_t who = self_;
    who.rank = from;
    return fetch(who, key, deadline).bytes;
  }

  void on_lost(std::function<void(node_id, const std::string&)> lost) override {
    {
      loss_handler& all = losses();
      const std::lock_guard guard(all.mutex);
      all.nspace = self_.nspace;
      all.lost = std::move(lost);
    }
    pmix_status_t ends[] = {PMIX_ERR_PROC_ABORTED,       PMIX_ERR_PROC_ABORTED_BY_SIG,
                            PMIX_ERR_PROC_TERM_WO_SYNC,  PMIX_ERR_EXIT_NONZERO_TERM,
                            PMIX_ERR_PROC_KILLED_BY_CMD, PMIX_ERR_PROC_REQUESTED_ABORT};
    // If PMIx refuses the event handler, the loss of a process is noticed later, when its
    // connections end.
    if (!has_handler_) {
      pmix_.on_event(ends, std::size(ends), nullptr, 0, &farcall_pmix_event, nullptr, nullptr);
    }
    has_handler_ = true;
  }

  void abort(int status, const std::string& why) noexcept override {
    pmix_.abort(status, why.c_str(), nullptr, 0);
  }

  void finalize() noexcept override {
    if (std::exchange(is_final_, true)) return;
    {
      loss_handler& all = losses();
      const std::lock_guard guard(all.mutex);
      all.lost = {};
    }
    pmix_.finalize(nullptr, 0);
  }

 private:
  void require(pmix_status_t status, const char* what) const {
    if (status == PMIX_SUCCESS) return;
    throw error(std::string(what) + " failed: " + pmix_.error_string(status) +
                (status == PMIX_ERR_UNREACH
                     ? "; is this process still under the launcher that its environment (PMIX_…) "
                       "names? FARCALL_PROCESS_MANAGER=none has it make a job of its own"
                     : ""));
  }

  /// Returns true if the operation has begun, so that PMIx will pass `holding` back. Returns false
  /// if it has already ended with success. Throws error if it has failed. In the last two cases
  /// frees `holding`.
  [[nodiscard]] bool has_begun(pmix_status_t begun, void* holding) const {
    if (begun == PMIX_SUCCESS) return true;
    (void)reclaim(holding);
    if (begun == PMIX_OPERATION_SUCCEEDED) return false;
    require(begun, "an operation of PMIx");
    return false;
  }

  outcome::result fetch(const pmix_proc_t& who, const std::string& key, time_point deadline) {
    const auto brought = std::make_shared<outcome>();
    void* const holding = hold(brought);
    const pmix_status_t begun =
        pmix_.get(&who, key.c_str(), nullptr, 0, &farcall_pmix_got, holding);
    if (!has_begun(begun, holding)) throw error("PMIx has no value for " + key);
    outcome::result got = brought->wait("asking PMIx for what another process has told", deadline);
    if (got.status != PMIX_SUCCESS) {
      throw error("PMIx does not know \"" + key + "\" of process " + std::to_string(who.rank) +
                  ": " + pmix_.error_string(got.status));
    }
    return got;
  }

  pmix_library pmix_;
  pmix_proc_t self_{};
  std::uint32_t size_ = 0;
  bool has_handler_ = false;
  bool is_final_ = false;
};

} // namespace

bool pmix_is_built_in() noexcept { return true; }

std::unique_ptr<process_manager> make_pmix_manager() { return std::make_unique<pmix_manager>(); }

} // namespace farcall
