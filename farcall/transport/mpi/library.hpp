#pragma once

#include <farcall/base/error.hpp>

#include <string>

/// MPI in this process: which library it is, and what may be done with it.
namespace farcall::mpi {

/// Which of MPI's thread levels counts, as far as this transport is concerned.
enum class threads {
  one, ///< only the thread that makes the transport (MPI_THREAD_FUNNELED and _SERIALIZED)
  all  ///< MPI_THREAD_MULTIPLE
};

/// "Open MPI v4.1.4": of the library that this module's calls reach. Only where why_unusable() is
/// empty.
[[nodiscard]] std::string library_version();

/// Why nothing of MPI can be called from here, in words, and what to do; empty: it can. It finds
/// out without calling what may be another library than the module was built for.
[[nodiscard]] std::string why_unusable();

enum class phase { not_started, running, ended };
[[nodiscard]] phase phase_now() noexcept;

/// Initialises MPI, unless it is, with MPI_THREAD_MULTIPLE, and has it finalised at exit(), unless
/// a transport is still in use then: such a process ends out of turn, which finalising would hide
/// and, waiting for the others, prolong. Whoever has to finalise it earlier calls finalize(). All
/// processes of MPI_COMM_WORLD do so, and wait for each other. Throws error.
void start();

/// Finalises MPI, if start() has initialised it and no transport is in use. Waits for all
/// processes.
void finalize() noexcept;

/// While MPI runs. Throws error, which says what to do, where no transport can be.
[[nodiscard]] threads thread_level();

/// For `farcall info`: the thread level while MPI runs.
[[nodiscard]] std::string level_text();

/// What MPI says about a result that is not MPI_SUCCESS.
[[nodiscard]] std::string text_of(int result);

/// Something that uses MPI. MPI_Finalize tells it before anything ends, wherever it is called.
class user {
 public:
  user(const user&) = delete;
  user& operator=(const user&) = delete;

  /// MPI can be used for the last time. Without any lock. On the thread that finalises MPI.
  virtual void before_end() noexcept = 0;

 protected:
  user() = default;
  ~user() = default;

  /// While MPI runs. Throws error.
  void join();
  void leave() noexcept;
};

} // namespace farcall::mpi
