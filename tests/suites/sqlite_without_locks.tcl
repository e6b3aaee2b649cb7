# SPDX-License-Identifier: Apache-2.0

# Runs a test script of SQLite, its argument, with the file layer that takes no locks.
set ::G(perm:sqlite3_args) [list -vfs unix-none]
set argv0 [lindex $argv 0]
set argv [lrange $argv 1 end]
source $argv0
