// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/log_writer.hpp>
#include <farcall/base/version.hpp>
#include <farcall/files/child_server.hpp>
#include <farcall/files/files_test_support.hpp>
#include <farcall/files/io_socket.h>
#include <tests/jobs.hpp>
#include <tests/send_descriptors.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/// Tests a target's server with clients that speak like tools/io/client.c.
namespace farcall::test::child_server_test {
namespace {

namespace fs = std::filesystem;
using files::child_server;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

unique_fd connect_to(const child_server& server) {
  const std::string name = server.address().substr(0, server.address().find(','));
  unique_fd way(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  name.copy(to.sun_path + 1, sizeof to.sun_path - 1);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (!way || ::connect(way.get(), reinterpret_cast<const sockaddr*>(&to), bytes) != 0)
    return unique_fd();
  return way;
}

std::string bytes_of(const farcall_io_message& r) {
  return {reinterpret_cast<const char*>(&r), sizeof r};
}

struct replied {
  std::int64_t result = -EPROTO; ///< -EPROTO also if the connection has ended
  std::string bytes{};
  unique_fd descriptor{};
};

/// Sends a request, whose lengths are set here, and receives the reply.
replied ask(const unique_fd& way, farcall_io_message r, const std::string& path = {}) {
  r.version = FARCALL_IO_SOCKET_VERSION;
  r.path_bytes = path.size();
  const std::string all = bytes_of(r) + path;
  if (::send(way.get(), all.data(), all.size(), MSG_NOSIGNAL) < 0) return {};
  farcall_io_reply head{};
  iovec part{&head, sizeof head};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (::recvmsg(way.get(), &message, MSG_WAITALL | MSG_CMSG_CLOEXEC) != sizeof head) return {};
  replied a{head.result, std::string(head.bytes, '\0'), unique_fd()};
  if (const cmsghdr* const rights = CMSG_FIRSTHDR(&message); rights != nullptr) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(rights), sizeof fd);
    a.descriptor = unique_fd(fd);
  }
  if (head.bytes > 0 && ::recv(way.get(), a.bytes.data(), a.bytes.size(), MSG_WAITALL) !=
                            static_cast<ssize_t>(head.bytes))
    return {};
  return a;
}

farcall_io_message request_of(farcall_io_operation what, std::size_t result_bytes = 0) {
  farcall_io_message r{};
  r.operation = what;
  r.result_bytes = result_bytes;
  return r;
}

/// Opens the path for reading, and stores the file's number in `file`.
unique_fd open_by(const unique_fd& way, const std::string& path, std::uint64_t& file) {
  farcall_io_opened o{};
  replied opened = ask(way, request_of(farcall_io_op_open, sizeof o), path);
  if (opened.bytes.size() == sizeof o) std::memcpy(&o, opened.bytes.data(), sizeof o);
  file = o.file;
  return std::move(opened.descriptor);
}

std::string read_by(const unique_fd& way, std::uint64_t file, std::size_t bytes) {
  farcall_io_message r = request_of(farcall_io_op_read, bytes);
  r.file = file;
  return ask(way, r).bytes;
}

class child_servers : public ::testing::Test {
 protected:
  child_servers() { write_file(tree_ / "in/a", "abc"); }

  [[nodiscard]] std::size_t open_here() const {
    std::size_t count = 0;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd"))
      count += fs::read_symlink(entry.path(), ignored).string().starts_with(tree_ / "in/") ? 1 : 0;
    return count;
  }

  scratch_tree tree_{"in"};
  job job_{with_host_files(tree_ / "in")};
  node target_ = job_.targets().front();
};

TEST_F(child_servers, do_what_clients_ask) {
  const auto use = +[](const std::string& path) -> std::string {
    child_server server(files::of_this_target());
    const unique_fd way = connect_to(server);
    std::uint64_t file = 0;
    const unique_fd fd = open_by(way, path, file);
    if (read_by(way, file, 10) != "abc") return "read";
    const farcall_io_message open = request_of(farcall_io_op_open, sizeof(farcall_io_opened));
    if (ask(way, open, path + "x").result != -ENOENT) return "errno";
    // The placeholder is ready, and describes itself to a program that inherits it.
    pollfd ready{fd.get(), POLLIN | POLLOUT, 0};
    if (::poll(&ready, 1, 0) != 1 || ready.revents != (POLLIN | POLLOUT)) return "poll";
    // Read like a program that doesn't know the protocol.
    std::string told(1000, '\0');
    const ssize_t first = ::read(fd.get(), told.data(), 1);
    const ssize_t rest = ::read(fd.get(), told.data() + 1, told.size() - 1);
    told.resize(static_cast<std::size_t>(first + rest));
    if (!told.starts_with(FARCALL_IO_PLACEHOLDER_TEXT) ||
        !told.ends_with(" " + std::to_string(file) + " )\n"))
      return told;
    char byte = 0;
    if (::read(fd.get(), &byte, 1) >= 0 || errno != EAGAIN) return "more to be read";
    return ::send(fd.get(), "x", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE ? "" : "written to";
  };
  EXPECT_EQ(sync(target_, use, tree_ / "in/a"), "");
}

TEST_F(child_servers, close_files_without_descriptors) {
  // Static: the next call uses the server, too.
  static std::optional<child_server> server;
  const auto begin = +[](const std::string& path) {
    server.emplace(files::of_this_target());
    const unique_fd way = connect_to(*server);
    std::uint64_t file = 0;
    unique_fd fd = open_by(way, path, file);
    unique_fd copy(::dup(fd.get()));
    fd.reset();
    farcall_io_message closing = request_of(farcall_io_op_close);
    closing.file = file;
    // The copy keeps the file open.
    if (ask(way, closing).result != 0 || read_by(way, file, 1) != "a") return -1;
    return copy.release();
  };
  const int copy = sync(target_, begin, tree_ / "in/a");
  EXPECT_EQ(open_here(), 1U);
  const auto end = +[](int fd) { ::close(fd); };
  sync(target_, end, copy);
  EXPECT_TRUE(eventually([&] { return open_here() == 0; }));
  const auto own = +[](const std::string& path) {
    farcall_io_opened opened{};
    const std::int64_t result = server->perform({.operation = farcall_io_op_open,
                                                 .path = {path.data(), path.size()},
                                                 .result = &opened,
                                                 .result_bytes = sizeof opened});
    ::close(opened.descriptor);
    return result == 0 ? server->perform({.operation = farcall_io_op_close, .file = opened.file})
                       : result;
  };
  EXPECT_EQ(sync(target_, own, tree_ / "in/a"), 0);
  EXPECT_EQ(open_here(), 0U) << "closed before it returns";
  sync(target_, [] { server.reset(); });
}

/// Without a descriptor for the program, the host must not open the file, which the open would
/// change.
TEST_F(child_servers, change_no_file_for_which_they_have_no_descriptor) {
  const auto use = +[](const std::string& path) {
    child_server server(files::of_this_target());
    farcall_io_opened opened{};
    rlimit before{};
    (void)::getrlimit(RLIMIT_NOFILE, &before);
    const unique_fd next(::dup(0));
    const rlimit none{static_cast<rlim_t>(next.get()), before.rlim_max};
    (void)::setrlimit(RLIMIT_NOFILE, &none);
    const std::int64_t result = server.perform({.operation = farcall_io_op_open,
                                                .flags = O_WRONLY | O_TRUNC,
                                                .path = {path.data(), path.size()},
                                                .result = &opened,
                                                .result_bytes = sizeof opened});
    (void)::setrlimit(RLIMIT_NOFILE, &before);
    return result;
  };
  EXPECT_EQ(sync(target_, use, tree_ / "in/a"), -EMFILE);
  EXPECT_EQ(content_of_file(tree_ / "in/a"), "abc");
}

TEST_F(child_servers, refuse_invalid_requests_and_go_on) {
  const auto use = +[](const std::string& path) {
    child_server server(files::of_this_target());
    const unique_fd other = connect_to(server);
    farcall_io_message r{};
    r.version = FARCALL_IO_SOCKET_VERSION;
    std::vector<std::string> bad{"x", std::string(1000, '\xff')};
    r.operation = farcall_io_operations;
    bad.push_back(bytes_of(r));
    r.operation = farcall_io_op_stat;
    r.path_bytes = FARCALL_IO_LONGEST_PATH + 1;
    bad.push_back(bytes_of(r));
    r.path_bytes = 10; // the path is not sent
    bad.push_back(bytes_of(r));
    r.operation = farcall_io_op_read;
    r.path_bytes = 0;
    r.result_bytes = UINT64_MAX;
    bad.push_back(bytes_of(r));
    std::vector<bool> seen;
    for (const std::string& each : bad) {
      const unique_fd way = connect_to(server);
      const bool is_sent = ::send(way.get(), each.data(), each.size(), MSG_NOSIGNAL) > 0;
      ::shutdown(way.get(), SHUT_WR);
      char byte = 0;
      seen.push_back(is_sent && ::recv(way.get(), &byte, 1, 0) <= 0);
    }
    const farcall_io_message stat = request_of(farcall_io_op_stat, sizeof(farcall_io_status));
    seen.push_back(ask(other, stat, path).result == 0);
    // A path with a zero byte is invalid.
    seen.push_back(ask(other, stat, path + std::string(1, '\0')).result == -EINVAL);
    // A request to open needs space for its result.
    seen.push_back(ask(other, request_of(farcall_io_op_open), path).result == -EINVAL);
    return seen;
  };
  EXPECT_THAT(sync(target_, use, tree_ / "in/a"),
              ElementsAre(true, true, true, true, true, true, true, true, true));
}

/// Text of the log's lines of this process, while a test captures them.
std::mutex log_mutex;
std::string& captured_lines() {
  static auto& lines = *new std::string;
  return lines;
}

/// Sends the bytes to the server, and returns the lines that it logs until it ends the connection.
std::string log_of_client(const child_server& server, const std::string& bytes) {
  captured_lines().clear();
  log::set_writer([](log::level, std::string_view text) noexcept {
    const std::lock_guard guard(log_mutex);
    captured_lines().append(text).append("\n");
  });
  const unique_fd way = connect_to(server);
  char byte = 0;
  const bool is_refused = ::send(way.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0 &&
                          ::recv(way.get(), &byte, 1, 0) <= 0;
  log::set_writer(nullptr);
  const std::lock_guard guard(log_mutex);
  return is_refused ? captured_lines() : "the client was not refused";
}

TEST_F(child_servers, name_the_release_of_clients_of_another_version) {
  const auto use = +[](std::uint32_t version, std::uint32_t second) {
    child_server server(files::of_this_target());
    // The rest of the message may be of any length, and never comes.
    farcall_io_message r{};
    r.version = version;
    r.release = second;
    return log_of_client(server, bytes_of(r).substr(0, 8));
  };
  const std::string in_target = "farcall " + release_text(this_release) + " (version " +
                                std::to_string(FARCALL_IO_SOCKET_VERSION) + ") in the target, ";
  EXPECT_THAT(sync(target_, use, FARCALL_IO_SOCKET_VERSION + 1U, 0x000200U),
              AllOf(HasSubstr("process "),
                    HasSubstr(in_target + "farcall 0.2.0 (version " +
                              std::to_string(FARCALL_IO_SOCKET_VERSION + 1) + ") in the process")));
  // Version 4 has the operation in place of the release.
  EXPECT_THAT(sync(target_, use, 4U, 0x010203U),
              HasSubstr(in_target + "farcall of an unknown release (version 4) in the process"));
}

/// Sends a request with a descriptor.
bool send_with(const unique_fd& way, farcall_io_message r, int descriptor) {
  r.version = FARCALL_IO_SOCKET_VERSION;
  return send_descriptors(way.get(), std::as_bytes(std::span(&r, 1)), {{descriptor}}) == sizeof r;
}

TEST_F(child_servers, take_any_number_of_requests_without_a_reply) {
  const auto use = +[](const std::string& path) -> std::int64_t {
    child_server server(files::of_this_target());
    const unique_fd way = connect_to(server);
    farcall_io_message watch{};
    watch.operation = FARCALL_IO_WATCH;
    for (int i = 0; i < 50'000; ++i) {
      std::array<int, 2> ends{};
      if (::pipe2(ends.data(), O_CLOEXEC) != 0) return -errno;
      const unique_fd reader(ends[0]);
      // A pipe without a writer is no report of the system, and is closed at once.
      unique_fd(ends[1]).reset();
      if (!send_with(way, watch, reader.get())) return -ECONNRESET;
      // The server closes the pipes on another thread.
      if (i % 200 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return ask(way, request_of(farcall_io_op_stat, sizeof(farcall_io_status)), path).result;
  };
  EXPECT_EQ(sync(target_, use, tree_ / "in/a"), 0);
}

TEST_F(child_servers, end_while_clients_are_at_work) {
  const auto use = +[](const std::string& path) {
    std::optional<child_server> server(std::in_place, files::of_this_target());
    std::atomic<int> working{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        const unique_fd way = connect_to(*server);
        working.fetch_add(1);
        std::uint64_t file = 0;
        for (unique_fd fd = open_by(way, path, file); fd; fd = open_by(way, path, file)) {
        }
      });
    }
    while (working.load() < 4)
      std::this_thread::yield();
    server->finish();
    for (std::thread& t : threads)
      t.join();
    return !connect_to(*server);
  };
  EXPECT_TRUE(sync(target_, use, tree_ / "in/a"));
}

} // namespace
} // namespace farcall::test::child_server_test
