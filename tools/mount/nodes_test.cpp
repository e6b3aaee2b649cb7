// SPDX-License-Identifier: Apache-2.0
#include "nodes.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include <sys/stat.h>

/// Tests the table of a mount's files with names that the host, or another request, has changed.
namespace farcall::test::nodes_test {
namespace {

using mount::node_number;
using mount::root_node;

farcall_io_status status_of(std::uint64_t inode, std::uint64_t mode) {
  farcall_io_status made{};
  made.device = 7;
  made.inode = inode;
  made.mode = mode;
  return made;
}
farcall_io_status file(std::uint64_t inode) { return status_of(inode, S_IFREG); }
farcall_io_status folder(std::uint64_t inode) { return status_of(inode, S_IFDIR); }

class node_tables : public ::testing::Test {
 protected:
  mount::node_table nodes_{"/host", folder(1)};
};

TEST_F(node_tables, prefer_the_name_that_was_found_last) {
  const node_number n = nodes_.note(root_node, "f", file(2));
  EXPECT_EQ(nodes_.note(root_node, "g", file(2)), n);
  EXPECT_EQ(nodes_.path_of(n), "/host/g");
  EXPECT_EQ(nodes_.note(root_node, "f", file(2)), n);
  EXPECT_EQ(nodes_.path_of(n), "/host/f");
}

TEST_F(node_tables, forget_names_that_the_host_has_not) {
  const node_number n = nodes_.note(root_node, "f", file(2));
  (void)nodes_.note(root_node, "g", file(2));
  nodes_.note_missing(root_node, "g", nodes_.find(root_node, "g"));
  EXPECT_EQ(nodes_.path_of(n), "/host/f");
  // Another request has made a file of this name after the host has looked for it.
  const node_number before = nodes_.find(root_node, "new");
  const node_number made = nodes_.note(root_node, "new", file(3));
  nodes_.note_missing(root_node, "new", before);
  EXPECT_EQ(nodes_.path_of(made), "/host/new");
}

TEST_F(node_tables, keep_the_status_of_removed_files) {
  farcall_io_status two_links = file(2);
  two_links.links = 2;
  const node_number n = nodes_.note(root_node, "f", two_links);
  (void)nodes_.note(root_node, "g", two_links);
  nodes_.note_removed(root_node, "f");
  EXPECT_FALSE(nodes_.status_of_removed(n));
  nodes_.note_renamed(root_node, "other", root_node, "g", false);
  ASSERT_TRUE(nodes_.status_of_removed(n));
  EXPECT_EQ(nodes_.status_of_removed(n)->links, 0U);
  EXPECT_EQ(nodes_.status_of_removed(n)->inode, 2U);
  const node_number gone = nodes_.note(root_node, "h", file(3));
  nodes_.note_missing(root_node, "h", gone);
  EXPECT_FALSE(nodes_.status_of_removed(gone)) << "the host may have renamed it";
}

TEST_F(node_tables, note_no_names_that_were_listed_before_a_change) {
  const std::uint64_t since = nodes_.changes();
  const node_number kept = nodes_.note(root_node, "kept", file(2));
  const node_number moved = nodes_.note(root_node, "moved", file(3));
  (void)nodes_.note(root_node, "removed", file(4));
  nodes_.note_renamed(root_node, "moved", root_node, "final", false);
  nodes_.note_removed(root_node, "removed");
  EXPECT_EQ(nodes_.note_listed(root_node, "kept", file(2), since), kept);
  EXPECT_EQ(nodes_.note_listed(root_node, "moved", file(3), since), std::nullopt);
  EXPECT_EQ(nodes_.note_listed(root_node, "removed", file(4), since), std::nullopt);
  EXPECT_EQ(nodes_.path_of(moved), "/host/final");
  EXPECT_EQ(nodes_.note_listed(root_node, "moved", file(3), nodes_.changes()), moved);
}

TEST_F(node_tables, note_old_lists_never_after_many_changes) {
  const std::uint64_t since = nodes_.changes();
  nodes_.note_removed(root_node, "removed");
  for (int i = 0; i < 10'000; ++i)
    nodes_.note_removed(root_node, std::to_string(i));
  EXPECT_EQ(nodes_.note_listed(root_node, "removed", file(4), since), std::nullopt);
  EXPECT_NE(nodes_.note_listed(root_node, "new", file(4), nodes_.changes()), std::nullopt);
}

TEST_F(node_tables, have_no_folder_in_itself) {
  const node_number a = nodes_.note(root_node, "a", folder(2));
  const node_number b = nodes_.note(a, "b", folder(3));
  // The host has moved b out of a, and a into b.
  EXPECT_EQ(nodes_.note(root_node, "b", folder(3)), b);
  EXPECT_EQ(nodes_.note(b, "a", folder(2)), a);
  EXPECT_EQ(nodes_.path_of(a), "/host/b/a");
  // An old list of a still has b.
  EXPECT_EQ(nodes_.note(a, "b", folder(3)), b);
  EXPECT_EQ(nodes_.path_of(a), "/host/b/a");
  EXPECT_EQ(nodes_.path_of(b), "/host/b");
  EXPECT_EQ(nodes_.note(a, "a", folder(2)), a) << "mounted in itself";
  EXPECT_EQ(nodes_.path_of(a), "/host/b/a");
}

TEST_F(node_tables, have_a_new_node_for_a_replaced_inode) {
  const node_number old = nodes_.note(root_node, "old", file(2));
  (void)nodes_.note(root_node, "new", file(3));
  nodes_.note_renamed(root_node, "new", root_node, "old", false);
  EXPECT_EQ(nodes_.path_of(old), std::nullopt);
  EXPECT_NE(nodes_.note(root_node, "later", file(2)), old);
}

TEST_F(node_tables, follow_exchanged_names) {
  const node_number a = nodes_.note(root_node, "a", folder(2));
  const node_number inner = nodes_.note(a, "f", file(3));
  const node_number b = nodes_.note(root_node, "b", file(4));
  nodes_.note_renamed(root_node, "a", root_node, "b", true);
  EXPECT_EQ(nodes_.path_of(inner), "/host/b/f");
  EXPECT_EQ(nodes_.path_of(b), "/host/a");
}

} // namespace
} // namespace farcall::test::nodes_test
