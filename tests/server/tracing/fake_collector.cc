#include "tests/server/tracing/fake_collector.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/eventually.h"

namespace chorale {

void FakeCollector::Start() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(port_.address(), grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  ASSERT_NE(server_, nullptr);
}

void FakeCollector::Stop() {
  Release();
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
}

std::string FakeCollector::endpoint() const { return port_.address(); }

void FakeCollector::SetAnswer(Answer answer) {
  MutexLock lock(&mutex_);
  answer_ = std::move(answer);
}

void FakeCollector::Hold() {
  MutexLock lock(&mutex_);
  held_ = true;
}

void FakeCollector::Release() {
  MutexLock lock(&mutex_);
  held_ = false;
  released_.NotifyAll();
}

grpc::Status FakeCollector::Export(grpc::ServerContext* /*context*/, const Request* request,
                                   Response* response) {
  MutexLock lock(&mutex_);
  ++attempts_;
  while (held_) released_.Wait(&mutex_);
  const grpc::Status status = answer_ ? answer_(attempts_, response) : grpc::Status::OK;
  if (status.ok()) requests_.push_back(*request);
  return status;
}

int64_t FakeCollector::attempts() const {
  MutexLock lock(&mutex_);
  return attempts_;
}

int64_t FakeCollector::batches() const {
  MutexLock lock(&mutex_);
  return static_cast<int64_t>(requests_.size());
}

std::vector<FakeCollector::Span> FakeCollector::spans() const {
  MutexLock lock(&mutex_);
  std::vector<Span> spans;
  for (const Request& request : requests_) {
    for (const auto& resource : request.resource_spans()) {
      for (const auto& scope : resource.scope_spans()) {
        spans.insert(spans.end(), scope.spans().begin(), scope.spans().end());
      }
    }
  }
  return spans;
}

FakeCollector::Request FakeCollector::last_request() const {
  MutexLock lock(&mutex_);
  return requests_.empty() ? Request() : requests_.back();
}

bool FakeCollector::WaitForSpans(size_t count) const {
  return Eventually([&] { return spans().size() >= count; });
}

bool FakeCollector::WaitForAttempts(int64_t count) const {
  return Eventually([&] { return attempts() >= count; });
}

std::string AttributeOf(const FakeCollector::Span& span, const std::string& key) {
  for (const auto& attribute : span.attributes()) {
    if (attribute.key() != key) continue;
    const auto& value = attribute.value();
    if (value.has_int_value()) return absl::StrCat(value.int_value());
    if (value.has_double_value()) return absl::StrCat(value.double_value());
    return value.string_value();
  }
  return "(none)";
}

}  // namespace chorale
