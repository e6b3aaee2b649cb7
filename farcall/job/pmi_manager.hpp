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

/// A client of PMI 1.1 ("PMI: A Scalable Parallel Process-Management Interface for Extreme-Scale
/// Systems", Balaji et al., 2010): lines of text on a socket that the process has inherited, or
/// connects to. MPICH's mpiexec (Hydra) and those made of it offer it, and so does
/// `srun --mpi=pmi2`.
///
/// Values are in base64url, in as many pieces as the process manager's limits ask for.
///
/// **Beside MPI.** MPICH's library, and those made of it, speak to the same process manager from
/// the same process. Their lines and ours must not mix: no other thread may be in MPI_Init,
/// MPI_Finalize or in MPI's first contact with others while this one is used.
/// - With PMI_FD it is the same socket. Hydra takes an "init" from each. Slurm does not answer the
///   second, so none is sent where MPI runs already; and MPI_Init after it never returns: with
///   Slurm, MPI comes first.
/// - With PMI_PORT, Hydra speaks to the connection that was made last: MPI comes second.
/// - "finalize" is for both, and the other end closes then. Where MPI runs, MPI_Finalize says it;
///   where MPI_Init may follow, finalize() puts it off until exit(). A process that ends by _exit()
///   has not said it then, for which Hydra ends the others.
/// - After MPI_Finalize there is nobody left to speak to.
class pmi_manager final : public process_manager {
 public:
  /// The one that the environment names: PMI_FD, PMI_RANK and PMI_SIZE, or PMI_PORT and PMI_ID.
  /// Null: it names none. The descriptor itself stays open, for MPI, and closes on exec from now
  /// on. Blocks while it answers. Throws timeout, error when it cannot be spoken to, and
  /// setting_error for a variable that makes no sense.
  [[nodiscard]] static std::unique_ptr<pmi_manager> find(time_point deadline);

  /// Speaks over `socket`, a stream, and asks `mpi` whether MPI does, too. Blocks while it answers.
  /// Throws timeout, and error.
  pmi_manager(unique_fd socket, node_id rank, std::uint32_t size, time_point deadline,
              mpi_state (*mpi)() noexcept = state_of_mpi);
  ~pmi_manager() override;

  [[nodiscard]] std::string name() const override { return "PMI 1.1"; }
  [[nodiscard]] node_id rank() const noexcept override { return rank_; }
  [[nodiscard]] std::uint32_t size() const noexcept override { return size_; }

  /// Blocks while it answers, for a minute at most. A key has letters, digits, '.', '_' and '-',
  /// and 30 of them or less.
  void put(const std::string& key, const std::string& value) override;
  void fence(time_point deadline) override;
  [[nodiscard]] std::string get(node_id from, const std::string& key, time_point deadline) override;

  /// Does nothing: PMI 1 has no such event. Where a process dies, Slurm leaves the others alone,
  /// and Hydra kills them; with -disable-auto-cleanup it sends them SIGUSR1, which ends those that
  /// do not handle or ignore it.
  void on_lost(std::function<void(node_id rank, const std::string& how)> lost) override;

  /// Hydra's exit status is then `status`; Slurm kills the processes, and has no status of its own.
  /// `why` goes to the log.
  void abort(int status, const std::string& why) noexcept override;
  void finalize() noexcept override;

 private:
  /// Over a connection of our own, as process `id` of those that the other end has started.
  pmi_manager(unique_fd socket, std::uint32_t id, time_point deadline, mpi_state (*mpi)() noexcept);

  void begin(time_point deadline);
  static void require_before_end(mpi_state mpi);
  [[nodiscard]] pmi_connection& connection();
  /// As pmi_connection's; also throws where the answer says that it did not go well.
  pmi_line ask(const std::string& line, std::string_view answer, time_point deadline);
  [[nodiscard]] static std::string key_text(node_id of, const std::string& key, std::size_t piece);
  [[nodiscard]] std::string put_line(const std::string& key, std::string_view value) const;

  std::unique_ptr<pmi_connection> connection_;
  node_id rank_ = 0;
  std::uint32_t size_ = 0;
  mpi_state (*mpi_)() noexcept;
  std::string space_;           ///< in which the keys are
  std::size_t piece_bytes_ = 0; ///< of the longest piece of a value
  std::set<std::string> put_;
  bool is_finalized_ = false;
};

} // namespace farcall
