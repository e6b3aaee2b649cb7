// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/error.hpp>

#include <string>

/// Functions about MPI in this process: which library it is, and how it may be used.
namespace farcall::mpi {

/// Threads that may call MPI, by MPI's thread level.
enum class threads {
  /// Only the thread that makes the transport may call MPI. The level is MPI_THREAD_FUNNELED or
  /// MPI_THREAD_SERIALIZED.
  one,
  all ///< MPI_THREAD_MULTIPLE
};

/// Returns the version of the library that this module calls, for example "Open MPI v4.1.4". May be
/// called only if why_unusable() returns an empty text.
[[nodiscard]] std::string library_version();

/// Returns the reason why this process cannot call MPI, and the remedy; empty if it can. This
/// function calls only MPI functions that have the same ABI in all MPI libraries, because the
/// process may have another library than this module was built for.
[[nodiscard]] std::string why_unusable();

enum class phase { not_started, running, ended };
[[nodiscard]] phase phase_now() noexcept;

/// Initialises MPI with MPI_THREAD_MULTIPLE, unless MPI is already initialised. At exit(), MPI is
/// then finalised, except if a transport is still in use. A process that exits while a transport is
/// in use ends prematurely. Finalising MPI would hide this, and would wait for the other processes.
/// A caller that has to finalise MPI earlier calls finalize(). Both functions are collective: all
/// processes of MPI_COMM_WORLD take part, and wait for each other. Throws error.
void start();

/// Finalises MPI if start() has initialised it and no transport is in use. Waits until all
/// processes of MPI_COMM_WORLD take part.
void finalize() noexcept;

/// Returns which threads may call MPI. MPI must be running. Throws error with the remedy if MPI's
/// thread level allows no transport.
[[nodiscard]] threads thread_level();

/// Returns the name of MPI's thread level, which `farcall info` prints. MPI must be running.
[[nodiscard]] std::string level_text();

/// Returns MPI's text for the error code `result`.
[[nodiscard]] std::string text_of(int result);

/// A part of this process that uses MPI. Any call of MPI_Finalize, by whatever code, calls
/// before_end() of all users before it ends anything.
class user {
 public:
  user(const user&) = delete;
  user& operator=(const user&) = delete;

  /// Last opportunity to use MPI. Called without any lock, on the thread that finalises MPI.
  virtual void before_end() noexcept = 0;

 protected:
  user() = default;
  ~user() = default;

  /// Registers this user. May be called only while MPI is running. Throws error.
  void join();
  void leave() noexcept;
};

} // namespace farcall::mpi
