// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/unique_fd.hpp>
#include <farcall/files/file_calls.hpp>
#include <farcall/files/files_test_support.hpp>
#include <farcall/files/io_socket.h>
#include <farcall/files/mounted_files.hpp>
#include <tests/jobs.hpp>
#include <tests/stop_process.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

/// Tests a mount's device. A socket of the test takes the place of the system's device, and another
/// one the helper's place.
namespace farcall::test::mount_device_test {
namespace {

/// Ends of the system and of the helper, and what the target has of them. Lives on the target.
struct served_device {
  files::mounted_files files{files::of_this_target()};
  unique_fd system;
  unique_fd helper;

  explicit served_device(bool reads_ahead = true) {
    std::array<int, 2> device{};
    std::array<int, 2> requests{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, device.data()) != 0 ||
        ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, requests.data()) != 0)
      std::abort();
    system = unique_fd(device[0]);
    helper = unique_fd(requests[0]);
    if (files.serve(unique_fd(device[1]), unique_fd(requests[1]), reads_ahead) != 0) std::abort();
  }
  served_device(const served_device&) = delete;
  served_device& operator=(const served_device&) = delete;
  ~served_device() { files.finish(); }

  std::uint64_t open(const std::string& path, int flags) {
    farcall_io_opened opened{};
    const std::int64_t result = files.perform({.operation = farcall_io_op_open,
                                               .flags = flags,
                                               .path = FARCALL_IO_TEXT(path),
                                               .result = &opened,
                                               .result_bytes = sizeof opened});
    return result < 0 ? 0 : opened.file;
  }
};

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// Returns a request of the system.
std::string request_of(std::uint32_t what, const std::string& body) {
  fuse_in_header head{};
  head.opcode = what;
  head.unique = 77;
  head.len = static_cast<std::uint32_t>(sizeof head + body.size());
  return bytes_of(head) + body;
}

std::string read_of(std::uint64_t file, std::uint64_t offset, std::uint32_t bytes) {
  fuse_read_in in{};
  in.fh = file;
  in.offset = offset;
  in.size = bytes;
  return request_of(FUSE_READ, bytes_of(in));
}

std::string write_of(std::uint64_t file, std::uint64_t offset, const std::string& data,
                     std::uint32_t flags = 0, std::uint32_t write_flags = 0) {
  fuse_write_in in{};
  in.fh = file;
  in.offset = offset;
  in.size = static_cast<std::uint32_t>(data.size());
  in.flags = flags;
  in.write_flags = write_flags;
  return request_of(FUSE_WRITE, bytes_of(in) + data);
}

void send_to(const unique_fd& way, const std::string& message) {
  (void)!::send(way.get(), message.data(), message.size(), MSG_NOSIGNAL);
}

/// Receives a message. Returns an empty text at the end, or if there is none within 10 seconds.
std::string receive_from(const unique_fd& way) {
  pollfd ready{way.get(), POLLIN, 0};
  if (::poll(&ready, 1, 10'000) != 1) return "";
  std::string message(1U << 20, '\0');
  const ssize_t got = ::recv(way.get(), message.data(), message.size(), 0);
  message.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return message;
}

/// Sends a request of the system. Returns the error of the reply, or its bytes.
std::string reply_to(const served_device& of, const std::string& request) {
  send_to(of.system, request);
  const std::string reply = receive_from(of.system);
  fuse_out_header head{};
  if (reply.size() < sizeof head) return "no reply";
  std::memcpy(&head, reply.data(), sizeof head);
  if (head.unique != 77 || head.len != reply.size()) return "another reply";
  return head.error != 0 ? "error " + std::to_string(-head.error) : reply.substr(sizeof head);
}

class mount_devices : public ::testing::Test {
 protected:
  mount_devices() { write_file(tree_ / "in/a", "0123456789"); }

  scratch_tree tree_{"in"};
  job job_{with_host_files(tree_ / "in")};
  node target_ = job_.targets().front();
};

TEST_F(mount_devices, are_read_without_the_helper) {
  for (const bool reads_ahead : {true, false}) {
    const auto read = +[](const std::string& path, bool ahead) {
      served_device of(ahead);
      const std::uint64_t file = of.open(path, O_RDONLY);
      return std::vector<std::string>{
          reply_to(of, read_of(file, 2, 3)), reply_to(of, read_of(file, 8, 100)),
          reply_to(of, read_of(file, 10, 100)), reply_to(of, read_of(file + 1, 0, 1)),
          reply_to(of, write_of(file, 0, "x"))};
    };
    const std::vector<std::string> expected{"234", "89", "", "error " + std::to_string(EBADF),
                                            "error " + std::to_string(EBADF)};
    EXPECT_EQ(sync(target_, read, tree_ / "in/a", reads_ahead), expected);
  }
}

TEST_F(mount_devices, are_written_without_the_helper) {
  const auto write = +[](const std::string& path) {
    served_device of;
    const std::uint64_t file = of.open(path, O_RDWR);
    std::string said = reply_to(of, write_of(file, 2, "ab"));
    fuse_write_out done{};
    if (said.size() == sizeof done) std::memcpy(&done, said.data(), sizeof done);
    // The program sets O_APPEND now.
    (void)reply_to(of, write_of(file, 0, "end", O_APPEND));
    return std::to_string(done.size) + reply_to(of, read_of(file, 0, 100));
  };
  EXPECT_EQ(sync(target_, write, tree_ / "in/a"), "201ab456789end");
  EXPECT_EQ(content_of_file(tree_ / "in/a"), "01ab456789end");
}

/// A process that is stopped as long as this object lives.
class stopped_process {
 public:
  explicit stopped_process(pid_t pid) : pid_(pid) { stop_process(pid_); }
  stopped_process(const stopped_process&) = delete;
  stopped_process& operator=(const stopped_process&) = delete;
  ~stopped_process() { ::kill(pid_, SIGCONT); }

 private:
  pid_t pid_;
};

/// Sends requests while the host is stopped. Returns what is wrong.
std::string request_of_stopped_host(const std::string& path, pid_t host) {
  served_device of;
  // Writes wait for the host if the file is open twice.
  const std::uint64_t file = of.open(path, O_RDWR);
  const std::uint64_t other = of.open(path, O_RDWR);
  const std::uint64_t not_writable = of.open(path, O_RDONLY);
  const std::string lookup = request_of(FUSE_LOOKUP, std::string("name") + '\0');
  {
    const stopped_process stopped(host);
    for (const std::uint64_t offset : {2, 3, 4, 5}) {
      if (reply_to(of, write_of(file, offset, "a", 0, FUSE_WRITE_CACHE)).size() !=
          sizeof(fuse_write_out))
        return "a write of pages waits for the host";
    }
    if (reply_to(of, write_of(not_writable, 0, "a", 0, FUSE_WRITE_CACHE)).size() !=
        sizeof(fuse_write_out))
      return "a write that fails waits for the host";
    send_to(of.system, lookup);
    send_to(of.system, read_of(other, 0, 100));
    pollfd passed{of.helper.get(), POLLIN, 0};
    if (::poll(&passed, 1, 100) != 0) return "a request overtakes the writes";
  }
  if (receive_from(of.helper) != lookup) return "a request is lost";
  const std::string read = receive_from(of.system);
  if (!read.ends_with("01aaaa6789")) return "read: " + read;
  const auto flush = [&](std::uint64_t of_file) {
    return of.files.perform({.operation = FARCALL_IO_FLUSH, .file = of_file});
  };
  if (flush(file) != 0) return "an error of another file";
  const auto first_error = flush(not_writable);
  const auto second_error = flush(not_writable);
  if (first_error != -EBADF) return "an error is lost";
  if (second_error != 0) return "an error is reported twice";
  return reply_to(of, read_of(file, 0, 3)) == "01a" ? "" : "later requests";
}

TEST_F(mount_devices, reply_to_writes_of_pages_that_take_long) {
  EXPECT_EQ(sync(target_, request_of_stopped_host, tree_ / "in/a", ::getpid()), "");
  EXPECT_EQ(content_of_file(tree_ / "in/a"), "01aaaa6789");
}

TEST_F(mount_devices, pass_other_requests_to_the_helper) {
  const auto pass = +[] {
    const served_device of;
    const std::string request = request_of(FUSE_LOOKUP, std::string("name") + '\0');
    send_to(of.system, request);
    return receive_from(of.helper) == request;
  };
  EXPECT_TRUE(sync(target_, pass));
}

TEST_F(mount_devices, pass_many_forgets_in_parts) {
  const auto pass = +[] {
    const served_device of;
    constexpr std::uint32_t count = 9'000;
    std::string all = bytes_of(fuse_batch_forget_in{count, 0});
    for (std::uint32_t i = 0; i < count; ++i)
      all += bytes_of(fuse_forget_one{i, 1});
    send_to(of.system, request_of(FUSE_BATCH_FORGET, all));
    std::uint64_t sum = 0;
    for (std::uint32_t got = 0; got < count;) {
      const std::string part = receive_from(of.helper);
      if (part.empty()) return std::uint64_t{0};
      fuse_in_header head{};
      fuse_batch_forget_in of_part{};
      std::memcpy(&head, part.data(), sizeof head);
      std::memcpy(&of_part, part.data() + sizeof head, sizeof of_part);
      if (head.len != part.size() || of_part.count == 0) return std::uint64_t{0};
      for (std::uint32_t i = 0; i < of_part.count; ++i) {
        fuse_forget_one one{};
        std::memcpy(&one, part.data() + sizeof head + sizeof of_part + i * sizeof one, sizeof one);
        sum += one.nodeid;
      }
      got += of_part.count;
    }
    return sum;
  };
  EXPECT_EQ(sync(target_, pass), std::uint64_t{9'000} * 8'999 / 2);
}

TEST_F(mount_devices, end_with_the_helper) {
  const auto end = +[] {
    served_device of;
    of.helper.reset();
    // The device ends for the system when the target has closed it.
    return receive_from(of.system).empty() && ::send(of.system.get(), "", 1, MSG_NOSIGNAL) < 0;
  };
  EXPECT_TRUE(sync(target_, end));
}

TEST_F(mount_devices, reply_errors_to_malformed_requests) {
  const auto send = +[](const std::string& path) {
    served_device of;
    const std::uint64_t file = of.open(path, O_RDWR);
    std::string lies = write_of(file, 0, "data");
    fuse_write_in in{};
    std::memcpy(&in, lies.data() + sizeof(fuse_in_header), sizeof in);
    in.size = 1U << 31;
    std::memcpy(lies.data() + sizeof(fuse_in_header), &in, sizeof in);
    send_to(of.system, "short");
    return std::vector<std::string>{reply_to(of, request_of(FUSE_READ, "")),
                                    reply_to(of, request_of(FUSE_WRITE, "x")), reply_to(of, lies),
                                    reply_to(of, read_of(file, std::uint64_t{1} << 63, 10)),
                                    reply_to(of, read_of(file, 0, 4))};
  };
  const std::string invalid = "error " + std::to_string(EINVAL);
  const std::vector<std::string> expected{invalid, invalid, invalid, invalid, "0123"};
  EXPECT_EQ(sync(target_, send, tree_ / "in/a"), expected);
}

TEST_F(mount_devices, are_limited_to_one_for_each_prefix) {
  const auto serve = +[] {
    served_device of;
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return 0;
    return static_cast<int>(of.files.serve(unique_fd(ends[0]), unique_fd(ends[1]), true));
  };
  EXPECT_EQ(sync(target_, serve), -EBUSY);
}

} // namespace
} // namespace farcall::test::mount_device_test
