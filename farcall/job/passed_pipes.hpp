// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

/// Pipes that `farcall run` passes to the program that it starts, by environment variables.
namespace farcall {

/// Environment variable that names a pipe into which a program writes if it starts a job. Only
/// `farcall run` sets it.
inline constexpr const char* job_notice_variable = "FARCALL_JOB_NOTICE";

/// Returns the text for a variable that names a pipe: its descriptor, and its inode number. The
/// inode number shows the reader of the variable whether the descriptor still belongs to the pipe.
/// Throws error if the descriptor is invalid.
[[nodiscard]] std::string text_of_pipe(int pipe);

/// Returns the pipe that a variable's value names. Returns -1 if the descriptor belongs to another
/// file by now. Throws setting_error with the variable's name if the text names no pipe.
[[nodiscard]] int pipe_named(const std::string& text, const char* variable);

/// Writes a byte into the pipe that job_notice_variable names, and closes the pipe. Does nothing if
/// the variable is not set. Removes the variable, because programs that this process starts must
/// not use the pipe. Throws setting_error.
void send_job_notice();

} // namespace farcall
