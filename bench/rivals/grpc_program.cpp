// SPDX-License-Identifier: Apache-2.0

// Unary calls of gRPC with 8 bytes, for `farcall bench rivals`. Each side has one thread and one
// completion queue, and bytes are passed without a message format: the fastest way that gRPC has.
#include "rival_program.hpp"

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <unistd.h>

namespace {

grpc::ByteBuffer bytes_of(std::uint64_t value) {
  const grpc::Slice slice(&value, sizeof value);
  return {&slice, 1};
}

std::uint64_t value_of(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  std::uint64_t value = 0;
  if (!bytes.Dump(&slices).ok() || bytes.Length() != sizeof value)
    throw std::runtime_error("a message has another length");
  auto* at = reinterpret_cast<char*>(&value);
  for (const grpc::Slice& slice : slices) {
    std::memcpy(at, slice.begin(), slice.size());
    at += slice.size();
  }
  return value;
}

void wait_for_next(grpc::CompletionQueue& queue) {
  void* tag = nullptr;
  bool succeeded = false;
  if (!queue.Next(&tag, &succeeded) || !succeeded) throw std::runtime_error("a call has failed");
}

void serve(bool over_tcp, rival_program::announcement& parent) {
  grpc::ServerBuilder builder;
  grpc::AsyncGenericService service;
  // An abstract address leaves no file behind.
  const std::string address =
      over_tcp ? "127.0.0.1:0" : "unix-abstract:farcall-rival-" + std::to_string(getpid());
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterAsyncGenericService(&service);
  const std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (!server) throw std::runtime_error("cannot listen at " + address);
  parent.send(over_tcp ? "127.0.0.1:" + std::to_string(port) : address);
  for (;;) {
    grpc::GenericServerContext context;
    grpc::GenericServerAsyncReaderWriter stream(&context);
    service.RequestCall(&context, &stream, queue.get(), queue.get(), nullptr);
    wait_for_next(*queue);
    grpc::ByteBuffer message;
    stream.Read(&message, nullptr);
    wait_for_next(*queue);
    stream.WriteAndFinish(message, grpc::WriteOptions(), grpc::Status::OK, nullptr);
    wait_for_next(*queue);
  }
}

class client {
 public:
  explicit client(const std::string& address)
      : stub_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())) {}

  std::uint64_t round_trip(std::uint64_t value) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    const auto call = stub_.PrepareUnaryCall(&context, "/rival/Echo", bytes_of(value), &queue_);
    call->StartCall();
    grpc::ByteBuffer reply;
    grpc::Status status;
    call->Finish(&reply, &status, nullptr);
    wait_for_next(queue_);
    if (!status.ok()) throw std::runtime_error(status.error_message());
    return value_of(reply);
  }

 private:
  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
};

} // namespace

int main(int argc, char** argv) {
  return rival_program::run<client>(argc, argv, "gRPC " + grpc::Version(), serve);
}
