// SPDX-License-Identifier: Apache-2.0

// A relay gets frames of any kind and length from either side, host and server, whole or in pieces,
// while the near side talks, reads and closes, and a target's output is in transit. Each end
// receives the frames of the other one in order, and the relay ends once.

#include <farcall/base/error.hpp>
#include <farcall/transport/control_messages.hpp>
#include <farcall/transport/tcp/output_relay.hpp>
#include <farcall/transport/tcp/relay.hpp>
#include <fuzz/memory_stream.hpp>
#include <fuzz/support.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unistd.h>

namespace {

namespace fc = farcall;
using fc::fuzz::require;

struct message {
  fc::control kind{};
  std::vector<std::byte> body;
  bool operator==(const message& other) const {
    // memcmp, since the fuzzer would instrument comparisons of single bytes.
    return kind == other.kind && body.size() == other.body.size() &&
           (body.empty() || std::memcmp(body.data(), other.body.data(), body.size()) == 0);
  }
};

constexpr std::size_t max_body = std::size_t{64} << 10;

std::vector<std::byte> frame(std::uint32_t kind, std::span<const std::byte> body) {
  const fc::frame_header header{static_cast<std::uint32_t>(body.size()), kind};
  const auto head = std::as_bytes(std::span(&header, 1));
  std::vector<std::byte> made(head.begin(), head.end());
  made.insert(made.end(), body.begin(), body.end());
  return made;
}

/// Returns the complete frames in the bytes, without heartbeats, up to the first invalid one.
std::vector<message> frames_of(std::span<const std::byte> bytes) {
  std::vector<message> all;
  fc::frame_header header;
  while (bytes.size() >= sizeof header) {
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header.bytes > max_body || bytes.size() - sizeof header < header.bytes) break;
    const auto body = bytes.subspan(sizeof header, header.bytes);
    bytes = bytes.subspan(sizeof header + header.bytes);
    if (header.kind != 0)
      all.push_back({static_cast<fc::control>(header.kind), {body.begin(), body.end()}});
  }
  return all;
}

/// True if `part` is the beginning of `all`.
bool begins(std::span<const message> all, std::span<const message> part) {
  return part.size() <= all.size() && std::ranges::equal(all.first(part.size()), part);
}

/// Stands for the host's standard output.
class sink final : public fc::output_sink {
 public:
  void take(fc::node_id node, fc::output_stream stream, std::string_view bytes,
            std::function<void(std::size_t bytes)> written) override {
    require(node == 1 && !bytes.empty());
    require(stream == fc::output_stream::output || stream == fc::output_stream::error);
    unwritten_ += bytes.size();
    require(unwritten_ <= fc::tcp::output_window + 2 * fc::tcp::last_output);
    written_ = std::move(written);
    text.append(bytes);
  }
  void read(fc::node_id /*node*/, fc::output_stream /*stream*/, fc::unique_fd /*from*/) override {}
  void end(fc::node_id /*node*/) noexcept override {}

  void write() {
    if (unwritten_ != 0) written_(std::exchange(unwritten_, 0));
  }

  std::string text;

 private:
  std::size_t unwritten_ = 0;
  std::function<void(std::size_t bytes)> written_;
};

/// Side of the connection that the relay serves.
enum class end { bare, host, server };

class relayed {
 public:
  relayed(const std::shared_ptr<fc::event_loop>& loop, end whose, bool awaits_exit_reason,
          std::pair<fc::control_socket, fc::control_socket> ends =
              fc::control_socket::make_pair_in_memory())
      : loop_(loop), whose_(whose), near_(std::move(ends.first)) {
    link_ = std::make_shared<fc::relay>(
        *loop, std::move(ends.second), std::make_unique<fc::fuzz::memory_stream>(far_),
        std::chrono::minutes(1), [this](fc::control_socket& near, const std::string& why) {
          require(!has_ended_);
          has_ended_ = true;
          if (!why.empty()) (void)fc::messages::try_send(near, fc::messages::ended{why});
        });
    if (awaits_exit_reason) link_->await_exit_reason();
    if (whose == end::host) fc::tcp::receive_output(loop, link_, 1, &prints_);
    if (whose == end::server) begin_to_print();
    link_->start();
    loop->turn(fc::clock::now());
  }

  void do_one(fc::fuzz::script& from) {
    switch (from.byte() % 16) {
    case 0:
      far_->send(from.bytes(from.byte()));
      break;
    case 1:
    case 2:
      send_frame(from);
      break;
    case 3:
      send_output(from);
      break;
    case 4: {
      const std::uint8_t kind = from.byte();
      const auto body = from.bytes(from.byte());
      if (near_.try_send(static_cast<fc::control>(kind), body) && kind != 0)
        said_.push_back({static_cast<fc::control>(kind), {body.begin(), body.end()}});
      break;
    }
    case 5:
      receive_near();
      break;
    case 6:
      far_->space = std::size_t{from.byte()} << 4;
      break;
    case 7:
      far_->space = std::size_t{1} << 20;
      break;
    case 8:
      prints_.write();
      break;
    case 9:
      print(from);
      break;
    case 10:
      send_written(from);
      break;
    case 11:
      end_something(from.byte());
      break;
    default:
      loop_->turn(fc::clock::now());
    }
  }

  void finish() {
    loop_->turn(fc::clock::now());
    receive_near();
    if (sender_) sender_->finish();
    link_->end("");
    require(has_ended_);
    // Timers keep the relay alive.
    for (int i = 0; i < 3; ++i)
      loop_->turn(fc::time_point::max());
    receive_near();
    near_.close();
    loop_->turn(fc::time_point::max());
    check_near();
    check_far();
    sender_.reset();
    const std::weak_ptr<fc::relay> gone = link_;
    link_.reset();
    require(gone.expired());
  }

 private:
  void begin_to_print() {
    sender_ = std::make_shared<fc::tcp::output_sender>(*loop_);
    pipe_ = fc::unique_fd(::dup(sender_->ends().output));
    sender_->start(link_);
    link_->take_here([this](fc::control kind, std::span<const std::byte> body) {
      if (kind != fc::control::written) return false;
      sender_->note_written(body);
      return true;
    });
  }

  void send_frame(fc::fuzz::script& from) {
    const std::uint8_t kind = from.byte();
    std::size_t bytes = from.byte();
    // Some bodies have the maximum length, or one byte more.
    if (bytes >= 0xfe) bytes += max_body - 0xfe;
    std::vector<std::byte> body(bytes, std::byte{kind});
    const auto beginning = from.bytes(std::min<std::size_t>(bytes, from.byte()));
    std::ranges::copy(beginning, body.begin());
    far_->send(frame(kind, body));
  }

  void send_output(fc::fuzz::script& from) {
    const auto stream = static_cast<fc::output_stream>(from.byte() % 64 == 0 ? 3 : 1);
    const std::uint8_t bytes = from.byte();
    const std::string text(bytes < 0xfc ? bytes : std::size_t{bytes} << 8, 'x');
    far_->send(frame(static_cast<std::uint32_t>(fc::control::output),
                     fc::messages::output{stream, text}.encode()));
  }

  void send_written(fc::fuzz::script& from) {
    const std::uint8_t how = from.byte();
    std::size_t bytes = printed_.size() - written_;
    if (how < 0x80) bytes = std::min<std::size_t>(bytes, how);
    if (how >= 0xf0) bytes += how - 0xef;
    written_ += bytes;
    far_->send(frame(static_cast<std::uint32_t>(fc::control::written),
                     fc::messages::written{static_cast<std::uint32_t>(bytes)}.encode()));
  }

  /// The target prints.
  void print(fc::fuzz::script& from) {
    const std::uint8_t length = from.byte();
    if (!pipe_) return;
    const std::string text(std::size_t{length} << 2, static_cast<char>('a' + printed_.size() % 23));
    // Keep less in the pipe than it can hold.
    if (printed_.size() + text.size() > 32'768) return;
    const ssize_t put = ::write(pipe_.get(), text.data(), text.size());
    if (put < 0) {
      // The read end has been closed.
      pipe_.reset();
      return;
    }
    require(put == static_cast<ssize_t>(text.size()));
    printed_ += text;
  }

  void receive_near() {
    while (auto got = near_.receive(fc::clock::now()))
      received_.push_back({got->kind, std::move(got->body)});
  }

  void check_near() const {
    std::string printed;
    std::vector<message> for_near;
    for (message& m : frames_of(far_->sent)) {
      if (whose_ == end::host && m.kind == fc::control::output) {
        if (const auto text = printed_in(m))
          printed += *text;
        else
          break;
      } else if (whose_ != end::server || m.kind != fc::control::written) {
        for_near.push_back(std::move(m));
      }
    }
    std::span<const message> received = received_;
    // The relay's own message, `ended`, comes last.
    if (!received.empty() && received.back().kind == fc::control::ended &&
        !begins(for_near, received))
      received = received.first(received.size() - 1);
    require(begins(for_near, received));
    require(printed.starts_with(prints_.text));
  }

  static std::optional<std::string> printed_in(const message& m) {
    try {
      return std::string(fc::messages::output::decode(m.body).bytes);
    } catch (const fc::error&) {
      return std::nullopt;
    }
  }

  void end_something(std::uint8_t how) {
    switch (how % 16) {
    case 0:
      far_->has_ended = true;
      break;
    case 1:
      far_->has_broken_off = true;
      break;
    case 2:
      near_.close();
      break;
    case 3:
      if (!is_finished_)
        link_->finish_far(fc::control::ended, fc::messages::ended{"exit", 1}.encode());
      is_finished_ = true;
      break;
    case 4:
      link_->end("it is over");
      break;
    case 5:
      pipe_.reset();
      break;
    case 6:
      if (sender_) sender_->finish();
      break;
    default:
      // Deadlines pass.
      loop_->turn(fc::clock::now() + std::chrono::seconds(how));
    }
  }

  void check_far() const {
    const std::vector<message> received = frames_of(far_->received);
    std::vector<message> passed_on;
    std::string printed;
    for (const message& m : received) {
      if (whose_ == end::server && m.kind == fc::control::output &&
          std::ranges::find(said_, m) == said_.end()) {
        printed += fc::messages::output::decode(m.body).bytes;
      } else if (whose_ == end::host && m.kind == fc::control::written &&
                 std::ranges::find(said_, m) == said_.end()) {
        require(fc::messages::written::decode(m.body).bytes != 0);
      } else {
        passed_on.push_back(m);
      }
    }
    require(printed_.starts_with(printed));
    std::span<const message> messages = passed_on;
    if (is_finished_ && !messages.empty() && messages.back().kind == fc::control::ended &&
        !begins(said_, messages)) {
      messages = messages.first(messages.size() - 1);
    }
    require(begins(said_, messages));
  }

  std::shared_ptr<fc::event_loop> loop_;
  end whose_;
  fc::control_socket near_;
  std::shared_ptr<fc::fuzz::other_side> far_ = std::make_shared<fc::fuzz::other_side>();
  std::shared_ptr<fc::relay> link_;
  bool has_ended_ = false;
  bool is_finished_ = false;
  std::vector<message> said_;     ///< sent by the near side
  std::vector<message> received_; ///< received by the near side

  // ---- at the host
  sink prints_;

  // ---- at the server
  std::shared_ptr<fc::tcp::output_sender> sender_;
  fc::unique_fd pipe_;
  std::string printed_;
  std::size_t written_ = 0; ///< bytes acknowledged by the far side
};

} // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  std::signal(SIGPIPE, SIG_IGN);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto loop = std::make_shared<fc::event_loop>();
  fc::fuzz::script from(data, size);
  const std::uint8_t how = from.byte();
  // The server's end is slower because of its pipes.
  const end whose = how % 16 == 0 ? end::server : how % 2 == 0 ? end::host : end::bare;
  relayed side(loop, whose, (how & 0x10) != 0);
  while (!from.is_over())
    side.do_one(from);
  side.finish();
  return 0;
}
