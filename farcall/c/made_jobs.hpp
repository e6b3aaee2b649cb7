// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <farcall/farcall.h>
#include <farcall/job/output_receiver.hpp>
#include <farcall/offload/job.hpp>

#include <map>
#include <memory>
#include <mutex>

/// The jobs that C programs make, and the options of these jobs.
namespace farcall::c {

/// Options of a C program, in C++ form.
struct given_options {
  /// Receiver that calls the program's callback for lines of targets; null if there is no callback.
  std::unique_ptr<output_receiver> output;
  job_options options;
};

/// Returns the options in C++ form. NULL stands for the defaults. Throws invalid_argument.
[[nodiscard]] given_options options_of(const fc_job_options* options);

/// A job that a C program has made.
struct made_job {
  std::unique_ptr<output_receiver> output; ///< see given_options; destroyed after the job
  farcall::job job;
};

/// The jobs that the C program has made, by the handles that the program has. Any thread may use
/// it.
class made_jobs {
 public:
  using table = std::map<fc_job*, made_job>;

  [[nodiscard]] static made_jobs& instance();

  /// Adds the job, and returns its handle.
  [[nodiscard]] fc_job* add(made_job made);
  /// Returns the job with this handle. It stays valid until it is taken out of the table. Throws
  /// invalid_argument if there is none.
  [[nodiscard]] farcall::job& find(fc_job* job);
  /// Takes the job with this handle out of the table. Returns an empty object if there is none.
  [[nodiscard]] table::node_type take(fc_job* job);

 private:
  std::mutex mutex_;
  table all_;
};

} // namespace farcall::c
