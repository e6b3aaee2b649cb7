// SPDX-License-Identifier: Apache-2.0
#include <farcall/base/error.hpp>
#include <farcall/base/text.hpp>
#include <farcall/transport/tcp/awaited_hello.hpp>
#include <farcall/transport/tcp/socket_io.hpp>
#include <farcall/transport/tcp/tls.hpp>
#include <farcall/transport/tcp/tls_failure.hpp>
#include <farcall/transport/tcp/tls_identity.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

namespace farcall::tcp {
namespace {

constexpr std::size_t record_bytes = SSL3_RT_MAX_PLAIN_LENGTH;
constexpr std::size_t record_overhead = 256;
/// Number of records that are handled in one batch: encrypted and then sent, or received and then
/// decrypted. On the machine where this was measured, batches of 4, 8 and 16 records took more CPU
/// time for each byte.
constexpr std::size_t batch_records = 2;
constexpr std::size_t inbox_bytes = batch_records * record_bytes;
/// Size of the output buffer: space for one batch, and for TLS's own messages.
constexpr std::size_t outbox_bytes = batch_records * (record_bytes + record_overhead) + 65'536;
/// Number of records after which the key is updated. AES-GCM stays safe for 2^24.5 full records
/// under one key (RFC 8446, 5.5).
constexpr std::uint64_t records_per_key = std::uint64_t{1} << 22;

/// Iterator over the bytes of several parts.
class cursor {
 public:
  explicit cursor(std::span<const iovec> parts) noexcept : parts_(parts) { skip_empty(); }

  [[nodiscard]] bool at_end() const noexcept { return parts_.empty(); }
  [[nodiscard]] bool in_last() const noexcept { return parts_.size() == 1; }
  /// Returns the bytes of the current part that are left.
  [[nodiscard]] std::span<std::byte> here() const noexcept {
    return {static_cast<std::byte*>(parts_.front().iov_base) + at_, parts_.front().iov_len - at_};
  }
  /// Advances by up to `bytes`, and returns the number of bytes by which the cursor has advanced.
  std::size_t advance(std::size_t bytes) noexcept {
    std::size_t done = 0;
    while (done < bytes && !at_end()) {
      const std::size_t step = std::min(bytes - done, here().size());
      at_ += step;
      done += step;
      skip_empty();
    }
    return done;
  }

 private:
  void skip_empty() noexcept {
    while (!parts_.empty() && parts_.front().iov_len == at_) {
      parts_ = parts_.subspan(1);
      at_ = 0;
    }
  }

  std::span<const iovec> parts_;
  std::size_t at_ = 0;
};

/// A lock that goes to the waiting thread when it is unlocked, so that a thread that locks again
/// and again does not starve another thread.
class fair_lock {
 public:
  void lock() {
    const std::lock_guard in_turn(gate_);
    lock_.lock();
  }
  void unlock() { lock_.unlock(); }

 private:
  std::mutex gate_;
  std::mutex lock_;
};

/// Buffer for the bytes between OpenSSL and the socket.
class box {
 public:
  explicit box(std::size_t size)
      : data_(std::make_unique_for_overwrite<std::byte[]>(size)), size_(size) {}

  [[nodiscard]] bool is_empty() const noexcept { return from_ == to_; }
  [[nodiscard]] std::span<std::byte> filled() const noexcept {
    return {data_.get() + from_, to_ - from_};
  }
  [[nodiscard]] std::span<std::byte> space() const noexcept {
    return {data_.get() + to_, size_ - to_};
  }
  void add(std::size_t bytes) noexcept { to_ += bytes; }
  void remove(std::size_t bytes) noexcept {
    from_ += bytes;
    if (is_empty()) clear();
  }
  void clear() noexcept { from_ = to_ = 0; }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_;
  std::size_t from_ = 0;
  std::size_t to_ = 0;
};

class tls_stream final : public stream {
 public:
  tls_stream(unique_fd fd, std::shared_ptr<const tls_identity> identity, bool is_server,
             const std::string& server, const std::string& context);

  io_result read(std::span<const iovec> parts) noexcept override;
  io_result write(std::span<const iovec> parts) noexcept override;
  void finish() noexcept override;
  bool read_wants_write() const noexcept override {
    const std::lock_guard hold(lock_);
    return !outbox_.is_empty() && unreported_ == 0;
  }
  bool write_wants_read() const noexcept override {
    const std::lock_guard hold(lock_);
    return !is_established() && outbox_.is_empty();
  }
  bool has_buffered() const noexcept override { return buffered_.load(std::memory_order_relaxed); }
  std::string failure() const override {
    const std::lock_guard hold(lock_);
    if (why_.happened) return words(why_);
    if (finished_) return "this side has ended its sending";
    return socket_failure_text(send_reason_);
  }
  bool was_broken_off() const noexcept override {
    const std::lock_guard hold(lock_);
    return why_.happened ? is_broken_off(why_) : is_break(send_reason_);
  }
  std::string peer_name() const override;
  bool is_encrypted() const noexcept override { return true; }
  bool is_established() const noexcept override {
    return established_.load(std::memory_order_relaxed);
  }
  io_status establish() noexcept override {
    const std::lock_guard hold(lock_);
    return why_.happened ? io_status::failed : shake_hands();
  }

 private:
  struct free_ssl {
    void operator()(SSL* ssl) const noexcept { SSL_free(ssl); }
  };

  [[nodiscard]] static const BIO_METHOD* socket_method();
  static int take_in(BIO* bio, char* data, int size) noexcept;
  static int put_out(BIO* bio, const char* data, int size) noexcept;

  // ---- member functions that are called with the lock held
  [[nodiscard]] io_status shake_hands() noexcept;
  [[nodiscard]] io_status decrypt(cursor& to, std::size_t& total) noexcept;
  [[nodiscard]] std::size_t encrypt_batch(cursor& from) noexcept;
  void flush() noexcept;
  [[nodiscard]] io_status fail() noexcept;
  void note_names() noexcept;
  void forget_key() noexcept;
  void begin();
  [[nodiscard]] bool begin_if_greeted() noexcept;
  [[nodiscard]] bool has_write_failed() const noexcept {
    return why_.happened || send_reason_ != 0;
  }

  /// Receives bytes into the inbox. Called without the lock, because only the reader uses the
  /// inbox.
  [[nodiscard]] socket_result refill() noexcept;

  std::shared_ptr<const tls_identity> identity_;
  mutable fair_lock lock_;
  box inbox_{0};
  box outbox_{0};
  std::unique_ptr<std::byte[]> scratch_;
  /// Number of the user's bytes that were encrypted into the outbox, but not reported to the user
  /// as written yet.
  std::size_t unreported_ = 0;
  std::uint64_t records_ = 0; ///< number of records sent so far
  bool finished_ = false;
  bool shut_down_ = false;
  int send_reason_ = 0; ///< errno value of a send that has failed, or 0
  int receive_reason_ = 0;
  bool ended_ = false; ///< receiving has ended
  tls_failure why_;
  key_claim claim_;
  /// At the accepting end, has a value until the client's hello has arrived. Until then, ssl_ is
  /// null.
  std::optional<awaited_hello> hello_;
  std::unique_ptr<SSL, free_ssl> ssl_;
  // Relaxed accesses are enough, because readers of these two values take them as hints. The lock
  // guards the state that the values describe.
  std::atomic<bool> established_{false};
  std::atomic<bool> buffered_{false};
};

// ---- between OpenSSL and the socket -------------------------------------------------------------

const BIO_METHOD* tls_stream::socket_method() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "farcall");
    if (made == nullptr) throw error("OpenSSL cannot make a connection: out of memory");
    BIO_meth_set_read(made, &take_in);
    BIO_meth_set_write(made, &put_out);
    BIO_meth_set_ctrl(made, [](BIO* bio, int command, long, void*) -> long {
      if (command == BIO_CTRL_FLUSH) return 1;
      if (command == BIO_CTRL_EOF) return static_cast<tls_stream*>(BIO_get_data(bio))->ended_;
      return 0;
    });
    return made;
  }();
  return method;
}

int tls_stream::take_in(BIO* bio, char* data, int size) noexcept {
  auto& self = *static_cast<tls_stream*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (size <= 0) return 0;
  if (!self.inbox_.is_empty()) {
    const auto there = self.inbox_.filled();
    const std::size_t bytes = std::min(there.size(), static_cast<std::size_t>(size));
    std::memcpy(data, there.data(), bytes);
    self.inbox_.remove(bytes);
    return static_cast<int>(bytes);
  }
  if (self.ended_) return 0;
  if (self.receive_reason_ != 0) return -1;
  if (!self.is_established()) {
    // During the handshake, receive only the bytes that OpenSSL asks for. Later bytes stay in the
    // socket, so that they wake a reader that waits at the socket even if a writer runs the
    // handshake.
    const iovec part{data, static_cast<std::size_t>(size)};
    const socket_result got = receive_some(self.fd(), {&part, 1});
    if (got.status == io_status::done) return static_cast<int>(got.bytes);
    self.ended_ = got.status == io_status::closed;
    self.receive_reason_ = got.reason;
    if (got.status != io_status::would_block) return self.ended_ ? 0 : -1;
  }
  BIO_set_retry_read(bio);
  return -1;
}

int tls_stream::put_out(BIO* bio, const char* data, int size) noexcept {
  auto& self = *static_cast<tls_stream*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (size <= 0) return 0;
  const std::size_t bytes = static_cast<std::size_t>(size);
  // The outbox lacks space only if the peer requests new keys again and again, but never reads the
  // replies.
  if (self.outbox_.space().size() < bytes) {
    BIO_set_retry_write(bio);
    return -1;
  }
  std::memcpy(self.outbox_.space().data(), data, bytes);
  self.outbox_.add(bytes);
  return size;
}

socket_result tls_stream::refill() noexcept {
  const auto space = inbox_.space();
  const iovec part{space.data(), space.size()};
  const socket_result got = receive_some(fd(), {&part, 1});
  inbox_.add(got.bytes);
  return got;
}

void tls_stream::flush() noexcept {
  while (!outbox_.is_empty() && send_reason_ == 0) {
    const auto bytes = outbox_.filled();
    const iovec part{bytes.data(), bytes.size()};
    const socket_result put = send_some(fd(), {&part, 1});
    if (put.status == io_status::would_block) return;
    send_reason_ = put.reason;
    outbox_.remove(put.bytes);
  }
  if (send_reason_ != 0) outbox_.clear();
  if (finished_ && !shut_down_) {
    shut_down_ = true;
    (void)::shutdown(fd(), SHUT_WR);
  }
}

io_status tls_stream::fail() noexcept {
  why_.happened = true;
  why_.in_handshake = !is_established();
  why_.has_key = identity_->inside().has_key();
  why_.is_truncated = ended_;
  why_.socket_reason = receive_reason_;
  if (ended_ && send_reason_ != EPIPE) why_.socket_reason = send_reason_;
  why_.verify_result = SSL_get_verify_result(ssl_.get());
  note_names();
  while (const unsigned long code = ERR_get_error())
    if (ERR_GET_LIB(code) == ERR_LIB_SSL) why_.openssl_reason = ERR_GET_REASON(code);
  // Send the alert that OpenSSL has written, so that the peer learns of the failure.
  flush();
  return io_status::failed;
}

void tls_stream::note_names() noexcept {
  try {
    if (SSL_is_server(ssl_.get()) == 0) {
      why_.client = identity_->inside().own_name();
    } else {
      why_.has_clients = identity_->inside().knows_clients();
      why_.is_for_another = claim_.is_for_another;
      why_.unknown = claim_.unknown;
    }
  } catch (const std::exception&) {
    // Without memory, the message about the failure is less precise.
  }
}

/// Overwrites the key in OpenSSL's session object, because OpenSSL would keep the key in ordinary
/// memory as long as the connection lives. OpenSSL keeps it for later sessions that could resume
/// this one, and the library makes no such sessions.
void tls_stream::forget_key() noexcept {
  constexpr unsigned char nothing[key_bytes]{};
  SSL_SESSION* const session = SSL_get_session(ssl_.get());
  if (session != nullptr && identity_->inside().has_key())
    (void)SSL_SESSION_set1_master_key(session, nothing, sizeof nothing);
}

// ---- the stream ---------------------------------------------------------------------------------

tls_stream::tls_stream(unique_fd fd, std::shared_ptr<const tls_identity> identity, bool is_server,
                       const std::string& server, const std::string& context)
    : stream(std::move(fd)), identity_(std::move(identity)) {
  why_.server = server;
  why_.context = context;
  claim_.context = context;
  if (is_server) {
    hello_.emplace();
  } else {
    begin();
  }
}

void tls_stream::begin() {
  inbox_ = box(inbox_bytes);
  outbox_ = box(outbox_bytes);
  scratch_ = std::make_unique_for_overwrite<std::byte[]>(record_bytes);
  ERR_clear_error();
  ssl_.reset(SSL_new(identity_->inside().context()));
  BIO* bio = ssl_ ? BIO_new(socket_method()) : nullptr;
  if (bio == nullptr) {
    ssl_.reset();
    ERR_clear_error();
    throw error("OpenSSL cannot make a connection: out of memory");
  }
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_app_data(ssl_.get(), &claim_);
  if (hello_) {
    SSL_set_accept_state(ssl_.get());
  } else {
    identity_->inside().expect_server(ssl_.get(), why_.server);
    SSL_set_connect_state(ssl_.get());
  }
}

bool tls_stream::begin_if_greeted() noexcept {
  if (!hello_->is_whole(fd())) return false;
  try {
    begin();
    hello_.reset();
  } catch (const std::exception&) {
    why_.happened = true;
    why_.openssl_reason = ERR_R_MALLOC_FAILURE;
  }
  return true;
}

io_status tls_stream::shake_hands() noexcept {
  if (is_established()) return io_status::done;
  if (hello_ && !begin_if_greeted()) return io_status::would_block;
  if (why_.happened) return io_status::failed;
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  flush();
  if (result == 1) {
    // OpenSSL reports a handshake as resumed if it was made with the key alone. If this end has a
    // key, any other handshake is refused.
    why_.no_key_used = identity_->inside().has_key() && SSL_session_reused(ssl_.get()) != 1;
    if (why_.no_key_used) return fail();
    forget_key();
    established_.store(true, std::memory_order_relaxed);
    return io_status::done;
  }
  const int status = SSL_get_error(ssl_.get(), result);
  if (status == SSL_ERROR_WANT_READ || status == SSL_ERROR_WANT_WRITE) {
    return io_status::would_block;
  }
  return fail();
}

/// Decrypts bytes until all parts are full (`done`) or OpenSSL needs more bytes (`would_block`).
io_status tls_stream::decrypt(cursor& to, std::size_t& total) noexcept {
  while (!to.at_end()) {
    const auto space = to.here();
    std::size_t bytes = 0;
    ERR_clear_error();
    const int result = SSL_read_ex(ssl_.get(), space.data(), space.size(), &bytes);
    if (result == 1) {
      to.advance(bytes);
      total += bytes;
      continue;
    }
    switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      return io_status::would_block;
    case SSL_ERROR_ZERO_RETURN:
      return io_status::closed;
    default:
      return fail();
    }
  }
  return io_status::done;
}

io_result tls_stream::read(std::span<const iovec> parts) noexcept {
  cursor to(parts);
  if (to.at_end()) return {io_status::done, 0};
  std::size_t total = 0;
  io_status status = io_status::done;
  // True if the socket has given fewer bytes than requested, so that it is empty for now.
  bool drained = false;
  for (;;) {
    {
      const std::lock_guard hold(lock_);
      if (why_.happened) return {io_status::failed, 0};
      status = shake_hands();
      if (status != io_status::done) return {status, 0};
      status = decrypt(to, total);
      flush();
      const bool more = !inbox_.is_empty() || SSL_pending(ssl_.get()) > 0;
      buffered_.store(more && status == io_status::done, std::memory_order_relaxed);
      // Stop also if bytes are left in the inbox although OpenSSL needs more: OpenSSL then waits
      // until the outbox has space for a reply to the peer.
      if (status != io_status::would_block || drained || more) break;
    }
    const socket_result got = refill();
    if (got.status == io_status::would_block) break;
    drained = got.status == io_status::done && !inbox_.space().empty();
    const std::lock_guard hold(lock_);
    ended_ = got.status == io_status::closed;
    receive_reason_ = got.reason;
  }
  // If some bytes were decrypted before an error, report the bytes now. The next read reports the
  // error.
  return total > 0 ? io_result{io_status::done, total} : io_result{status, 0};
}

std::size_t tls_stream::encrypt_batch(cursor& from) noexcept {
  std::size_t total = 0;
  for (std::size_t record = 0; record < batch_records && !from.at_end(); ++record) {
    if (++records_ % records_per_key == 0) {
      (void)SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    }
    // Fill the record as far as possible, even from several small parts.
    cursor after = from;
    std::span<const std::byte> text = from.here().first(std::min(record_bytes, from.here().size()));
    if (text.size() < record_bytes && !from.in_last()) {
      std::size_t gathered = 0;
      while (gathered < record_bytes && !after.at_end()) {
        const std::size_t bytes = std::min(record_bytes - gathered, after.here().size());
        std::memcpy(scratch_.get() + gathered, after.here().data(), bytes);
        after.advance(bytes);
        gathered += bytes;
      }
      text = {scratch_.get(), gathered};
    }
    std::size_t bytes = 0;
    ERR_clear_error();
    if (SSL_write_ex(ssl_.get(), text.data(), text.size(), &bytes) != 1) {
      (void)fail();
      break;
    }
    from.advance(bytes);
    total += bytes;
  }
  return total;
}

io_result tls_stream::write(std::span<const iovec> parts) noexcept {
  cursor from(parts);
  if (from.at_end()) return {io_status::done, 0};
  std::size_t total = 0;
  for (bool first = true; first || !from.at_end(); first = false) {
    const std::lock_guard hold(lock_);
    if (first) {
      if (why_.happened || finished_) return {io_status::failed, 0};
      const io_status status = shake_hands();
      if (status != io_status::done) return {status, 0};
      flush();
    }
    if (!outbox_.is_empty() || has_write_failed()) break;
    // Skip the bytes that an earlier call has encrypted. They have been sent by now, because the
    // outbox is empty.
    const std::size_t earlier = from.advance(unreported_);
    unreported_ -= earlier;
    total += earlier;
    if (unreported_ > 0) break;

    unreported_ = encrypt_batch(from);
    flush();
    if (has_write_failed()) break;
    if (outbox_.is_empty()) total += std::exchange(unreported_, 0);
  }
  // If some bytes were sent before an error, report the bytes now. The next write reports the
  // error.
  if (total > 0) return {io_status::done, total};
  const std::lock_guard hold(lock_);
  return {has_write_failed() ? io_status::failed : io_status::would_block, 0};
}

std::string tls_stream::peer_name() const {
  const std::lock_guard hold(lock_);
  if (!is_established()) return {};
  if (claim_.client != nullptr) return *claim_.client;
  const X509* const shown = SSL_get0_peer_certificate(ssl_.get());
  if (shown == nullptr) return {};
  const X509_NAME* const subject = X509_get_subject_name(shown);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0) return {};
  const ASN1_STRING* const name = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
  return valid_text({reinterpret_cast<const char*>(ASN1_STRING_get0_data(name)),
                     static_cast<std::size_t>(ASN1_STRING_length(name))});
}

void tls_stream::finish() noexcept {
  const std::lock_guard hold(lock_);
  if (finished_) return;
  finished_ = true;
  // Forget the number of unreported bytes, because no later write reports them. The reading thread
  // sends the bytes that are left in the outbox.
  unreported_ = 0;
  if (is_established() && !why_.happened) {
    ERR_clear_error();
    (void)SSL_shutdown(ssl_.get());
    ERR_clear_error();
  }
  flush();
}

std::unique_ptr<stream> make(unique_fd fd, std::shared_ptr<const tls_identity> identity,
                             bool is_server, const std::string& server,
                             const std::string& context) {
  if (!identity) throw error("a TLS connection needs an identity: a key or certificates");
  return std::make_unique<tls_stream>(std::move(fd), std::move(identity), is_server, server,
                                      context);
}

} // namespace

bool tls_is_built_in() noexcept { return true; }

std::unique_ptr<stream> tls_client(unique_fd fd, std::shared_ptr<const tls_identity> identity,
                                   const std::string& server, const std::string& context) {
  return make(std::move(fd), std::move(identity), false, server, context);
}

std::unique_ptr<stream> tls_server(unique_fd fd, std::shared_ptr<const tls_identity> identity,
                                   const std::string& context) {
  return make(std::move(fd), std::move(identity), true, {}, context);
}

} // namespace farcall::tcp
