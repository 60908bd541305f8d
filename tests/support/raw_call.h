// Calls gRPC services whose generated code the packages do not have (health, reflection), with
// bytes.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace foreshock::support {

inline grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

inline std::string FromBuffer(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return "";
  std::string out;
  for (const grpc::Slice& slice : slices) {
    out.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return out;
}

// Sends one message and returns the first answer, or an empty string and `*status`.
inline std::string RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                           const std::string& request, grpc::Status* status) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  void* tag = nullptr;
  bool ok = false;
  auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer response;
  if (ok) {
    call->WriteLast(ToBuffer(request), grpc::WriteOptions(), nullptr);
    queue.Next(&tag, &ok);
    call->Read(&response, nullptr);
    queue.Next(&tag, &ok);
  }
  const std::string bytes = ok ? FromBuffer(response) : "";
  while (ok) {  // to the end of the stream
    call->Read(&response, nullptr);
    queue.Next(&tag, &ok);
  }
  call->Finish(status, nullptr);
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return bytes;
}

enum class Health { kUnknown, kServing, kNotServing, kNotFound };

// grpc.health.v1.Health/Check.
inline Health CheckHealth(const std::shared_ptr<grpc::Channel>& channel,
                          const std::string& service) {
  std::string request;
  if (!service.empty()) request = std::string("\x0a") + static_cast<char>(service.size()) + service;
  grpc::Status status;
  const std::string bytes = RawCall(channel, "/grpc.health.v1.Health/Check", request, &status);
  if (status.error_code() == grpc::NOT_FOUND) return Health::kNotFound;
  if (bytes == "\x08\x01") return Health::kServing;
  if (bytes == "\x08\x02") return Health::kNotServing;
  return Health::kUnknown;
}

// The list of services as grpc.reflection.v1alpha gives it, still serialised: names stand in it.
inline std::string ReflectedServices(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::Status status;
  return RawCall(channel, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                 std::string("\x3a\x01*"), &status);
}

}  // namespace foreshock::support
