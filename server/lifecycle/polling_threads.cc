#include "server/lifecycle/polling_threads.h"

namespace chorale {
namespace {

// As many as gRPC has on the largest machines.
constexpr int kPollingThreads = 16;

}  // namespace

PollingThreads::PollingThreads(grpc::ServerBuilder* builder)
    : queue_(builder->AddCompletionQueue()) {}

PollingThreads::~PollingThreads() {
  queue_->Shutdown();
  for (std::thread& thread : threads_) thread.join();
  // A queue must be seen to be empty, also where no thread was started.
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
  }
}

void PollingThreads::Start() {
  for (int i = 0; i < kPollingThreads; ++i) {
    threads_.emplace_back([this] {
      void* tag = nullptr;
      bool ok = false;
      while (queue_->Next(&tag, &ok)) {
      }
    });
  }
}

}  // namespace chorale
