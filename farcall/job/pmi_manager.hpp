// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/base/unique_fd.hpp>
#include <farcall/job/mpi_state.hpp>
#include <farcall/job/pmi_connection.hpp>
#include <farcall/job/process_manager.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace farcall {

/// A client of the protocol PMI 1.1 ("PMI: A Scalable Parallel Process-Management Interface for
/// Extreme-Scale Systems", Balaji et al., 2010), by which a process exchanges lines of text with
/// its process manager. The process inherits the socket, or connects to it. MPICH's mpiexec (Hydra)
/// and its derivatives offer the protocol, and so does `srun --mpi=pmi2`.
///
/// Values are encoded in base64url. A value that is longer than the process manager's limit is sent
/// in several pieces.
///
/// **Use together with MPI.** In a program with MPICH or one of its derivatives, the MPI library
/// uses the same process manager as this client. The lines of the two must not mix. Therefore,
/// while this client is used, no other thread may be in MPI_Init or in MPI_Finalize, or let MPI
/// connect to another process for the first time.
/// - With PMI_FD, MPI and this client share one socket. Hydra accepts an "init" from each of them,
///   but Slurm does not reply to the second one. For this reason the client sends no "init" if MPI
///   runs already. If the client comes first, a later MPI_Init waits forever under Slurm, so call
///   MPI_Init before making the job.
/// - With PMI_PORT, Hydra serves only the newest connection of a process, so make the job before
///   calling MPI_Init.
/// - MPI and this client together send only one "finalize", because the process manager closes the
///   connection after it. If MPI runs, MPI_Finalize sends it. If MPI_Init may still follow,
///   finalize() defers it to exit(). A process that then ends by _exit() never sends it, so that
///   Hydra ends the other processes.
/// - After MPI_Finalize, the process manager accepts no requests of this client.
class pmi_manager final : public process_manager {
 public:
  /// Connects to the process manager that the environment variables name: either PMI_FD, PMI_RANK
  /// and PMI_SIZE, or PMI_PORT and PMI_ID. Returns null if they name none. A descriptor that
  /// this process has inherited stays open for MPI, but programs that it starts do not inherit it.
  /// Blocks until the process manager replies. Throws timeout, error if the connection fails, and
  /// setting_error for a variable with an invalid value.
  [[nodiscard]] static std::unique_ptr<pmi_manager> find(time_point deadline);

  /// Uses the connected stream socket `socket`. Calls `mpi` when it needs the state of MPI. Blocks
  /// until the process manager replies. Throws timeout, and error.
  pmi_manager(unique_fd socket, node_id rank, std::uint32_t size, time_point deadline,
              mpi_state (*mpi)() noexcept = state_of_mpi);
  ~pmi_manager() override;

  [[nodiscard]] std::string name() const override { return "PMI 1.1"; }
  [[nodiscard]] node_id rank() const noexcept override { return rank_; }
  [[nodiscard]] std::uint32_t size() const noexcept override { return size_; }

  /// Publishes a value. Blocks until the process manager replies, but at most for a minute. A key
  /// has at most 30 letters, digits, '.', '_' and '-'.
  void put(const std::string& key, const std::string& value) override;
  void fence(time_point deadline) override;
  [[nodiscard]] std::string get(node_id from, const std::string& key, time_point deadline) override;

  /// Does nothing, because by PMI 1 no process learns of the loss of another one. If a process
  /// dies, Slurm leaves the other processes alone, and Hydra kills them. With
  /// -disable-auto-cleanup, Hydra instead sends them SIGUSR1, which ends each process that does not
  /// handle or ignore this signal.
  void on_lost(std::function<void(node_id rank, const std::string& how)> lost) override;

  /// Asks the process manager to end all processes. Hydra then exits with `status`. Slurm kills the
  /// processes, but ignores `status`. Writes `why` to the log.
  void abort(int status, const std::string& why) noexcept override;
  void finalize() noexcept override;

 private:
  /// Makes a client with a connection of its own. `id` is the number by which the process manager
  /// identifies this process.
  pmi_manager(unique_fd socket, std::uint32_t id, time_point deadline, mpi_state (*mpi)() noexcept);

  void begin(time_point deadline);
  static void require_before_end(mpi_state mpi);
  [[nodiscard]] pmi_connection& connection();
  /// Sends a request like pmi_connection::ask(), but also throws error if the reply reports a
  /// failure.
  pmi_line ask(const std::string& line, std::string_view reply, time_point deadline);
  [[nodiscard]] static std::string key_text(node_id of, const std::string& key, std::size_t piece);
  [[nodiscard]] std::string put_line(const std::string& key, std::string_view value) const;

  std::unique_ptr<pmi_connection> connection_;
  node_id rank_ = 0;
  std::uint32_t size_ = 0;
  mpi_state (*mpi_)() noexcept;
  std::string space_;           ///< name of the process manager's key-value space for this job
  std::size_t piece_bytes_ = 0; ///< maximum size of a piece of a value, in bytes
  std::set<std::string> put_;
  bool is_finalized_ = false;
};

} // namespace farcall
