// SPDX-License-Identifier: Apache-2.0
#include "io_test_support.hpp"

#include <tests/shell_output.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

/// Tests with well-known programs that a target starts: they use files of the host by the preloaded
/// library, as they use local files.
namespace farcall::test::programs_test {
namespace {

namespace fs = std::filesystem;

class programs : public hidden_files_job {
 protected:
  programs() { fs::create_directories(tree_ / "local"); }

  /// Returns the output of a shell on the target. The host's folders are $I and, read-only, $R; $L
  /// is a folder of the target.
  std::string shell(const std::string& commands) {
    const auto run = +[](const std::string& tree, const std::string& text) -> std::string {
      ::setenv("I", (tree + "/in").c_str(), 1);
      ::setenv("R", (tree + "/read").c_str(), 1);
      ::setenv("L", (tree + "/local").c_str(), 1);
      return shell_output(text);
    };
    return sync(target_, run, fs::path(tree_ / ".").parent_path().string(), commands);
  }
};

INSTANTIATE_TEST_SUITE_P(over, programs, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(programs, may_be_rsync) {
  write_file(tree_ / "local/source/a", std::string(300'000, 'a'));
  write_file(tree_ / "local/source/folder/b", "b");
  fs::create_symlink("../a", tree_ / "local/source/folder/link");
  // Into a folder of the host, within it, and back.
  EXPECT_EQ(shell("rsync -a $L/source/ $I/copy/; rsync -ai --checksum $L/source/ $I/copy/\n"
                  "echo more >> $I/copy/a; rsync -ac --inplace $L/source/ $I/copy/\n"
                  "rsync -a $I/copy/ $I/again/; cd $I; rsync -a again/ $L/back/\n"
                  "diff -r $L/source $L/back; readlink again/folder/link; ls again"),
            "../a\na\nfolder\n");
  EXPECT_EQ(content_of_file(at_host("copy/a")), std::string(300'000, 'a'));
}

TEST_P(programs, may_be_git) {
  EXPECT_EQ(
      shell("cd $I; git init -q repo; cd repo; git config user.name n; git config user.email e\n"
            "echo 1 > f; git add f; git commit -q -m one; echo 2 > f; git commit -q -a -m two\n"
            "git gc -q; git fsck 2>&1; git clone -q . $I/clone; cd $I/clone; cat f\n"
            "git log --format=%s; git status --short"),
      "2\ntwo\none\n");
}

// Locks of host files are refused, so SQLite's file layer without locks is used.
TEST_P(programs, may_be_sqlite) {
  EXPECT_EQ(
      shell("cd $I; export D='file:db?vfs=unix-none'\n"
            "sqlite3 \"$D\" 'create table t(x); begin; insert into t values(1), (2); commit'\n"
            "sqlite3 \"$D\" 'insert into t select x + 2 from t; vacuum; pragma integrity_check'\n"
            "sqlite3 \"$D\" 'select sum(x) from t'; ls"),
      "ok\n10\ndb\n");
}

} // namespace
} // namespace farcall::test::programs_test
